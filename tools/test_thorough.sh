#!/usr/bin/env bash
# The tests in their long forms (tests/thorough.hpp), and the Python suite with every package that it can exchange arrays
# with; they come from the package index, some gigabytes, into a virtual environment in the build folder.
set -euo pipefail
cd "$(dirname "$0")/.."

environment=$PWD/build/python-thorough
if [ ! -e "$environment/complete" ]; then
  python3 -m venv --clear "$environment"
  "$environment/bin/pip" install --quiet numpy pytest ml_dtypes array-api-strict jax torch
  touch "$environment/complete"
fi
export TILESMITH_TEST_THOROUGH=1 TILESMITH_PYTHON=$environment/bin/python
cmake --build --preset release --target benchmarks cpu_attention_timing
ctest --preset thorough "$@"
tools/test_sanitizers.sh
