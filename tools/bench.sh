#!/usr/bin/env bash
# The benchmarks behind docs/performance.md. Run it on a quiet machine; a few minutes. Results go to build/bench.
set -euo pipefail
cd "$(dirname "$0")/.."
tilesmith=build/bin/tilesmith
out=build/bench
mkdir -p "$out"
cmake --build --preset release --target benchmarks

"$tilesmith" arch
echo "== what a call costs beside its kernel"
build/bin/dispatch_bench --benchmark_min_time=0.2
echo "== lists of instances"
build/bin/catalog_bench --benchmark_min_time=1
echo "== the store"
build/bin/jit_bench --benchmark_min_time=0.2

python=${TILESMITH_PEER_PYTHON:-python3}
# peers_of SCRIPT THREADS FILE BENCH...: --peers FILE when PyTorch is there to be timed on that bench's problems.
peers_of() {
  local script=$1 threads=$2 file=$3
  shift 3
  peers=()
  if "$python" -c 'import torch' 2>/dev/null; then
    "$tilesmith" "$@" --dry-run | "$python" "bench/peers/$script" --threads "$threads" >"$file"
    peers=(--peers "$file")
  fi
}
for threads in ${TILESMITH_BENCH_THREADS:-1 2}; do
  echo "== attention forward, $threads thread(s)"
  rm -f "$out/attention_$threads.csv" "$out/gemm_$threads.csv"
  sweep=(bench data/bench/attention.json --shapes data/bench/attention_shapes.yaml --threads "$threads" --max-kernels "${TILESMITH_BENCH_KERNELS:-8}")
  peers_of torch_sdpa.py "$threads" "$out/peers_$threads.json" "${sweep[@]}"
  "$tilesmith" "${sweep[@]}" --csv "$out/attention_$threads.csv" "${peers[@]}"
  echo "== GEMM, $threads thread(s)"
  sweep=(bench --op gemm --threads "$threads" --max-kernels "${TILESMITH_BENCH_KERNELS:-8}")
  peers_of torch_gemm.py "$threads" "$out/gemm_peers_$threads.json" "${sweep[@]}"
  "$tilesmith" "${sweep[@]}" --csv "$out/gemm_$threads.csv" "${peers[@]}"
done
