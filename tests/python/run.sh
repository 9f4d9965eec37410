#!/usr/bin/env bash
# Runs the Python tests on a library: tests/python/run.sh LIBRARY BUILD_FOLDER [pytest options]
#
# The interpreter is the first that has NumPy and pytest: TILESMITH_PYTHON, the system's (tools/setup.sh gives it both),
# the one in PATH; else a virtual environment in the build folder, filled from the package index. Without any, 77: skipped.
set -euo pipefail
library=$(realpath "$1") build=$(realpath "$2")
shift 2
cd "$(dirname "$0")"

usable() { [ -n "$1" ] && "$1" -c 'import sys, numpy, pytest; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; }

make_environment() {
  local environment=$build/python-tests
  usable "$environment/bin/python" || {
    python3 -m venv --clear "$environment" && "$environment/bin/pip" install --quiet numpy pytest
  } >&2 || return 1
  python=$environment/bin/python
}

python=
for candidate in "${TILESMITH_PYTHON:-}" /usr/bin/python3 "$(command -v python3 || true)"; do
  if usable "$candidate"; then python=$candidate && break; fi
done
if [ -z "$python" ] && ! make_environment; then
  echo "skipped: no Python 3.11 or later with numpy and pytest (apt-get install python3-numpy python3-pytest)" >&2
  exit 77
fi

store=$build/test-store
if [ -z "${TILESMITH_TEST_THOROUGH:-}" ]; then
  # Most tests take what the store has (conftest.py), so it must not depend on what other tests compiled.
  store=$build/python-store
  rm -rf "$store"
fi
mkdir -p -m 700 "$store"
export TILESMITH_LIBRARY=$library TILESMITH_CACHE_DIR=$store PYTHONDONTWRITEBYTECODE=1
export PYTHONPATH=${TILESMITH_PACKAGE:-$(realpath ../../python)}
exec "$python" -m pytest "$@" .
