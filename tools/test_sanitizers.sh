#!/usr/bin/env bash
# Builds the core with the address+undefined and the thread sanitizers and runs its tests under them.
# The sets are the parts where a lifetime or a race could hide; compiling everything three times would take longer than it finds.
set -euo pipefail
cd "$(dirname "$0")/.."

declare -A programs=(
  [asan]="base_test runtime_test runtime_cuda_test dispatch_test capi_test"
  [tsan]="runtime_test dispatch_test capi_test"
)
declare -A taken=() # other stations than the preset says
if [ -n "${TILESMITH_TEST_THOROUGH:-}" ]; then
  programs[asan]+=" vocabulary_test problem_test spec_test"
  taken[asan]="-DTILESMITH_TAKE=instances;catalog;codegen;essential;verify"
else
  export TILESMITH_CXXFLAGS=-O1 # as the plain tests have it in their short form
fi
export UBSAN_OPTIONS=print_stacktrace=1 ASAN_OPTIONS=detect_leaks=1
export TILESMITH_TEST_STORE=$PWD/build/test-store # kernels that the plain tests compiled are there

# The stations that are taken from the release build (TILESMITH_TAKE) must be those of these sources.
cmake --preset release --log-level=WARNING
cmake --build --preset release --target tilesmith_dispatch tilesmith_verify
for preset in asan tsan; do
  cmake --preset "$preset" --log-level=WARNING ${taken[$preset]:+"${taken[$preset]}"}
  # shellcheck disable=SC2086 # a list of targets
  cmake --build --preset "$preset" --target ${programs[$preset]}
done

# Their float64 references take two minutes under the thread sanitizer, and what they run others run in threads too.
# The allocator of GCC's address sanitizer is not made ready for a fork: a child of a process whose threads are at work
# can wait for ever for a lock that one of them held.
declare -A filters=([asan]="*:-ThreadPool.ManyForksWhileThreadsCall" [tsan]="*:-GemmDispatch.TwoProductsInOneSum:GemmDispatch.EitherBMayBeSharedByTheBatch:GemmDispatch.AwkwardSizesAndEpilogues")

run() { # preset
  for program in ${programs[$1]}; do
    echo "== $1: $program"
    "build-$1/bin/$program" --gtest_brief=1 --gtest_filter="${filters[$1]}" || return
  done
}
# Both at once: a program keeps one processor busy most of the time.
log=$(mktemp)
trap 'rm -f "$log"' EXIT
run tsan >"$log" 2>&1 &
status=0
run asan || status=$?
wait $! || status=$?
cat "$log"
exit "$status"
