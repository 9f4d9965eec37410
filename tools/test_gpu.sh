#!/usr/bin/env bash
# The tests that take a CUDA device: the programs labelled gpu, then a small problem on each pipeline under
# compute-sanitizer's four tools. TILESMITH_BIN names a folder of prebuilt programs, for a machine that builds nothing.
set -euo pipefail
cd "$(dirname "$0")/.."
bin=${TILESMITH_BIN:-build/bin}

if [ -z "${TILESMITH_BIN:-}" ]; then
  ctest --preset release -L gpu --no-tests=error
  ctest --preset release -R python.suite  # its GPU part takes a python3 with torch
else
  for program in runtime_cuda_device_test cuda_attention_test cuda_gemm_test cuda_gemm_experts_test; do "$bin/$program" --gtest_brief=1; done
fi

sanitizer=$(command -v compute-sanitizer || echo /usr/local/cuda/bin/compute-sanitizer)
if [ ! -x "$sanitizer" ]; then
  echo "compute-sanitizer is not installed: its checks are skipped" >&2
  exit 0
fi

# check TOOL COMMAND...: the summary, and on errors everything. The warp-specialised kernels store to a word that nobody reads, all lanes at
# once, to keep a wait in its place (hold_until in kernels/cuda/attention/hopper/consumer.cuh): racecheck reports writes against writes, and those
# alone are let pass, not a failure of the program itself.
check() {
  local tool=$1 found=99 status=0 output races
  shift
  output=$("$sanitizer" --tool "$tool" --error-exitcode "$found" --kernel-regex kns=attention "$@" 2>&1) || status=$?
  if [ "$tool" = racecheck ] && [ "$status" = "$found" ] && ! grep -q 'Target application' <<<"$output" &&
    races=$(grep 'Race reported' <<<"$output") && ! grep -qv 'between Write access .* and Write access ' <<<"$races"; then
    status=0
  fi
  if [ "$status" = 0 ]; then grep SUMMARY <<<"$output"; else printf '%s\n' "$output" >&2; fi
  return "$status"
}

arch=$("$bin/tilesmith" arch --json | python3 -c 'import json, sys; print(json.load(sys.stdin)["cuda"]["devices"][0]["arch"])')
shape=(--device cuda:0 --batch 2 --heads-q 4 --heads-kv 2 --seqlen-q 200 --seqlen-k 330 --mask bottom_right --with-lse --no-time)
for type in bf16 fp8bf16; do
  plain="c.head_dim_qk = 128 and c.head_dim_v = 128 and c.data_type = '$type' and c.mode = 'batch' and c.mask = 'causal' and c.bias = 'no' and c.lse
         and not c.dropout and not c.soft_cap and not c.sink and not c.negative_scale and not c.unaligned and c.pack_gqa = 1"
  for pipeline in warpspec mma_sm80; do
    kernel=$("$bin/tilesmith" list --arch "$arch" --names --filter "$plain and c.pipeline = '$pipeline'" | sed -n 1p)
    [ -n "$kernel" ] || continue
    call=("$bin/tilesmith" run attention_fwd "${shape[@]}" --dtype "$type" --kernel "$kernel")
    "${call[@]}" >/dev/null  # compiled here: a tool is to watch the launch, not the compiler
    for tool in memcheck racecheck synccheck initcheck; do
      echo "== $tool: $kernel"
      check "$tool" "${call[@]}"
    done
  done
done
