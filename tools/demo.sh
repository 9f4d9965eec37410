#!/usr/bin/env bash
# The whole road on this machine: what it is, how many kernels there are for it, compile, verify, measure and choose on shapes that show different
# kernels winning, then a call on real input. Everything is kept under build/demo; compiled kernels in the store.
set -euo pipefail
cd "$(dirname "$0")/.."
tilesmith=build/bin/tilesmith
out=build/demo
rm -rf "$out"
mkdir -p "$out"

echo "== This machine"
"$tilesmith" arch
arch=$("$tilesmith" arch --json | sed -n 's/^    "arch": "\(.*\)",$/\1/p')
echo
echo "== Kernels there are for it"
for level in $arch $("$tilesmith" arch --json | tr -d ' ",' | sed -n 's/^arch://p' | sort -u | grep -v "^$arch\$"); do
  echo "$level: $("$tilesmith" list --arch "$level" --count 2>/dev/null || echo -) attention-forward instances"
done

sweep=(bench data/bench/demo.json --shapes data/bench/demo_shapes.yaml --threads 1 --max-kernels 6)
peers=()
for python in python3 "${TILESMITH_PEER_PYTHON:-}"; do
  if [ -n "$python" ] && "$python" -c 'import torch' 2>/dev/null; then
    echo
    echo "== A peer on this machine: PyTorch"
    "$tilesmith" "${sweep[@]}" --dry-run | "$python" bench/peers/torch_sdpa.py --threads 1 >"$out/peers.json"
    peers=(--peers "$out/peers.json")
    break
  fi
done

echo
echo "== Compile, verify, measure, choose (one thread)"
"$tilesmith" "${sweep[@]}" --verify --naive --csv "$out/results.csv" --json "$out/results.json" "${peers[@]}"

echo
echo "== One call on tensors from files"
"$tilesmith" run attention_fwd --q data/demo/tensors.safetensors:q --k data/demo/tensors.safetensors:k --v data/demo/tensors.safetensors:v \
  --mask bottom_right --dtype bf16 --out "$out/o.npy" --lse "$out/lse.npy" --verify
echo
echo "results: $out/results.csv, $out/results.json, $out/o.npy; compiled kernels: $("$tilesmith" store stats)"
