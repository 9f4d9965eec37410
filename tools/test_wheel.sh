#!/usr/bin/env bash
# Builds the wheel and tries it as a user would: in a fresh environment of every Python given, outside the source tree.
#   tools/test_wheel.sh [--wheel FILE] [python3.11 python3.12 ...]     (default: those of the two in PATH, else python3)
set -euo pipefail
cd "$(dirname "$0")/.."
tests=$PWD/tests/python
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

wheel=
if [ "${1:-}" = --wheel ]; then wheel=$(realpath "$2") && shift 2; fi
pythons=("$@")
if [ ${#pythons[@]} -eq 0 ]; then
  for candidate in python3.11 python3.12; do
    "$candidate" -c 'import venv' >/dev/null 2>&1 && pythons+=("$candidate")
  done
  [ ${#pythons[@]} -gt 0 ] || pythons=(python3)
fi

if [ -z "$wheel" ]; then
  "${pythons[0]}" -m venv "$work/build"
  "$work/build/bin/pip" wheel --quiet --no-deps --wheel-dir "$work" .
  wheel=$(echo "$work"/tilesmith-*.whl)
fi
case $wheel in
  *-py3-none-linux_*.whl | *-py3-none-manylinux_*.whl) ;;
  *) echo "the wheel is not tagged py3-none-<platform>: $wheel" >&2; exit 1 ;;
esac

for python in "${pythons[@]}"; do
  echo "== $("$python" --version): $(basename "$wheel")"
  environment=$work/environment
  "$python" -m venv --clear "$environment"
  "$environment/bin/pip" install --quiet "$wheel"
  (
    cd "$work"
    unset TILESMITH_LIBRARY PYTHONPATH
    # Without NumPy it imports and knows the machine; the library is the wheel's own, and so is what it needs.
    "$environment/bin/python" -c 'import tilesmith; print(tilesmith.__version__, *tilesmith.devices()); print(tilesmith.library_path())' |
      tee "$work/said"
    grep -q "$environment.*/site-packages/tilesmith/libtilesmith.so" "$work/said"
    "$environment/bin/pip" install --quiet ml_dtypes numpy pytest
    mkdir tests
    cp -r "$tests" tests/python
    cp -r "$tests/../../examples" .
    mkdir -p -m 700 store include
    cp "$tests/../../include/tilesmith.h" include/
    cd tests/python
    rm test_results.py  # of the documents, which no wheel has
    TILESMITH_CACHE_DIR=$work/store "$environment/bin/python" -m pytest
  )
  rm -rf "$work/tests" "$work/examples"
done
