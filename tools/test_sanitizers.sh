#!/usr/bin/env bash
# Builds the core with the address+undefined and the thread sanitizers and runs its tests under them.
# The sets are the parts where a lifetime or a race could hide; compiling everything three times would take longer than it finds.
set -euo pipefail
cd "$(dirname "$0")/.."

run() { # preset, test programs
  local preset=$1
  shift
  cmake --preset "$preset" --log-level=WARNING
  cmake --build --preset "$preset" --target "$@"
  for program in "$@"; do
    echo "== $preset: $program"
    "build-$preset/bin/$program" --gtest_brief=1
  done
}

export UBSAN_OPTIONS=print_stacktrace=1 ASAN_OPTIONS=detect_leaks=1
run asan base_test kernel_test spec_test runtime_test runtime_cuda_test dispatch_test capi_test
run tsan runtime_test dispatch_test capi_test
