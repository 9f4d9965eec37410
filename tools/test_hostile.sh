#!/usr/bin/env bash
# Hostile checks: faults of the machine around the program, and programs that are wrong on purpose. Bounded to ten
# minutes. tools/test_hostile.sh [SECTION...]; TILESMITH_BIN names a folder of built programs (default build/bin).
set -euo pipefail
cd "$(dirname "$0")/.."
bin=${TILESMITH_BIN:-build/bin}
[ -n "${TILESMITH_HOSTILE_BOUNDED:-}" ] || TILESMITH_HOSTILE_BOUNDED=1 exec timeout --foreground 600 tools/test_hostile.sh "$@"

tests() {  # tests PROGRAM FILTER
  "$bin/$1" --gtest_brief=1 --gtest_filter="$2"
}

# Forks, torn and missing files, compilers that lie, hang or die, signals, disks that are full.
section_faults() {
  tests base_process_test '*'
  tests base_test 'File*'
  tests jit_store_test 'StoreFaults*'
  tests jit_build_test '*Compiler*:CxxToolchain*'
  tests runtime_test 'ThreadPool*'
  tests capi_test 'Context.*Forked*'
  tests cli_test 'Faults*'
}

# Every fault of tests/mutation in the CPU's kernel templates, which run --verify must find.
section_mutants() {
  tests/mutation/find_mutants.py --program "$bin/tilesmith" --kernels kernels tests/mutation/cpu_*.toml
}

# Random problems of every operation, with the kernel chosen or any candidate for them.
section_random() {
  tests/random/random_runs.py --program "$bin/tilesmith" --seconds 60 --seed 1
}

# Random misuses of the Python package's functions: each computes, or is refused with a hint.
section_python() {
  local status=0
  TILESMITH_FUZZ_CASES=${TILESMITH_FUZZ_CASES:-4000} tests/python/run.sh "$bin/../lib/libtilesmith.so" "$bin/.." -q -k test_misuses || status=$?
  [ $status -eq 77 ] || return $status  # 77: there is no Python with NumPy and pytest
}

sections=("$@")
[ ${#sections[@]} -gt 0 ] || mapfile -t sections < <(declare -F | sed -n 's/^declare -f section_//p')
for section in "${sections[@]}"; do
  echo "== $section"
  "section_$section"
done
