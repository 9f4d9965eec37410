#!/usr/bin/env bash
# The tests that take a CUDA device: the programs labelled gpu, then small problems on each pipeline under compute-sanitizer.
# All goes on after a failure, within TILESMITH_GPU_SECONDS (default 1800), and the end says what passed, failed and was not run; what
# failed, or did not fit into the time, makes the exit status 1. Takes no network: a release build (`make`), or TILESMITH_PACK, what
# `tools/gpu_suite.py pack` made where the build is, for a machine that builds nothing.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1
bin=${TILESMITH_PACK:-build}/bin
end=$((SECONDS + ${TILESMITH_GPU_SECONDS:-1800}))
log=$(mktemp) || exit 1
child='' running=''
trap 'rm -f "$log"' EXIT
trap '[ -z "$child" ] || kill "$child"; left_out+=("$running, and what follows: a signal ended it"); report; exit 130' INT TERM

passed=() failed=() left_out=()
report() {
  echo "== passed ${#passed[@]}, failed ${#failed[@]}, not run ${#left_out[@]}"
  [ ${#passed[@]} = 0 ] || printf '  passed: %s\n' "${passed[@]}"
  [ ${#left_out[@]} = 0 ] || printf '  not run: %s\n' "${left_out[@]}"
  [ ${#failed[@]} = 0 ] || printf '  failed: %s\n' "${failed[@]}"
}

# bounded SECONDS COMMAND...: ends the command and what it started after SECONDS, or when the time for all is over; 124 then.
bounded() {
  local seconds=$1 left=$((end - SECONDS)) status=0
  shift
  timeout -k 10 $((seconds < left ? seconds : left)) "$@" &
  child=$! # waited for in the background, so that the trap runs at once
  wait "$child" || status=$?
  child=
  return "$status"
}

# step NAME COMMAND...: runs a function or a command, and keeps what became of it.
step() {
  local name=$1 start=$SECONDS status=0
  shift
  if [ $((end - SECONDS)) -le 0 ]; then
    failed+=("$name (no time left)")
    return
  fi
  running=$name
  echo "== $name"
  "$@" || status=$?
  case $status in
  0) passed+=("$name ($((SECONDS - start)) s)") ;;
  124 | 137) failed+=("$name (ended after $((SECONDS - start)) s)") ;;
  *) failed+=("$name (exit status $status)") ;;
  esac
}

if [ ! -x "$bin/tilesmith" ]; then
  echo "$bin/tilesmith is missing: build it (make), or name in TILESMITH_PACK what tools/gpu_suite.py packed" >&2
  exit 1
fi
arch=$("$bin/tilesmith" arch --json |
  python3 -c 'import json, sys; d = json.load(sys.stdin).get("cuda", {}).get("devices", []); print(d[0]["arch"] if d else "")')
if [ -z "$arch" ]; then
  echo "tilesmith finds no CUDA device (tilesmith arch): these tests take one" >&2
  exit 1
fi
echo "device 0: $arch"

if [ -z "${TILESMITH_PACK:-}" ]; then
  step "ctest -L gpu" bounded 1200 ctest --preset release -L gpu --no-tests=error --output-on-failure
  # Its GPU part takes a python3 with torch.
  step "ctest -R python.suite" bounded 600 ctest --preset release -R python.suite --no-tests=error --output-on-failure
else
  step "packed tests" bounded 1200 tools/gpu_suite.py run "$TILESMITH_PACK"
fi

step "random runs" bounded 300 tests/random/random_runs.py --program "$bin/tilesmith" --device cuda:0 --seconds 120 --jobs 8

# check TOOL KERNELS COMMAND...: the summary, and on errors everything. The warp-specialised kernels store to a word that nobody reads, all
# lanes at once, to keep a wait in its place (hold_until in kernels/cuda/attention/hopper/consumer.cuh): racecheck reports writes against
# writes, and those alone are let pass, not a failure of the program itself.
check() {
  local tool=$1 kernels=$2 found=99 status=0 races
  shift 2
  bounded 120 "$sanitizer" --tool "$tool" --error-exitcode "$found" --kernel-regex kns="$kernels" "$@" >"$log" 2>&1 || status=$?
  if [ "$tool" = racecheck ] && [ "$status" = "$found" ] && ! grep -q 'Target application' "$log" &&
    races=$(grep 'Race reported' "$log") && ! grep -qv 'between Write access .* and Write access ' <<<"$races"; then
    status=0
  fi
  if [ "$status" = 0 ]; then grep SUMMARY "$log"; else cat "$log" >&2; fi
  return "$status"
}
# sanitize KERNELS TOOLS NAME COMMAND...: first without a tool, which compiles: a tool is to watch the launch, not the compiler.
sanitize() {
  local kernels=$1 tools=$2 name=$3 tool before=${#failed[@]}
  shift 3
  step "without a tool: $name" bounded 120 "$@" >/dev/null
  [ ${#failed[@]} = "$before" ] || return
  for tool in $tools; do step "$tool: $name" check "$tool" "$kernels" "$@"; done
}

sanitizer=$(command -v compute-sanitizer || echo /usr/local/cuda/bin/compute-sanitizer)
if [ ! -x "$sanitizer" ]; then
  left_out+=("compute-sanitizer: it is not installed")
else
  tools="memcheck racecheck synccheck initcheck"
  shape=(--device cuda:0 --batch 2 --heads-q 4 --heads-kv 2 --seqlen-q 200 --seqlen-k 330 --mask bottom_right --with-lse --no-time)
  for type in bf16 fp8bf16 fp32; do
    plain="c.head_dim_qk = 128 and c.head_dim_v = 128 and c.data_type = '$type' and c.mode = 'batch' and c.mask = 'causal' and c.bias = 'no' and c.lse
           and not c.dropout and not c.soft_cap and not c.sink and not c.negative_scale and not c.unaligned and c.pack_gqa = 1"
    for pipeline in warpspec mma_sm80; do
      kernel=$("$bin/tilesmith" list --arch "$arch" --names --filter "$plain and c.pipeline = '$pipeline'" | sed -n 1p)
      if [ -z "$kernel" ]; then
        left_out+=("compute-sanitizer: $arch has no $type attention of pipeline $pipeline")
        continue
      fi
      sanitize attention "$tools" "$kernel" "$bin/tilesmith" run attention_fwd "${shape[@]}" --dtype "$type" --kernel "$kernel"
    done
  done
fi

report
[ ${#failed[@]} = 0 ]
