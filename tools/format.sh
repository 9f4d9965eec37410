#!/usr/bin/env bash
# Formats the C++ sources with clang-format 14, the version of Debian 12; --check only reports. kernels/cuda is laid out by hand: its inline assembly
# reads in columns.
set -euo pipefail
cd "$(dirname "$0")/.."
tool=$(command -v clang-format-14 || command -v clang-format) || { echo "clang-format is missing: apt-get install clang-format" >&2; exit 1; }
mode=(-i)
[ "${1:-}" = --check ] && mode=(--dry-run --Werror)
git ls-files -z 'src/*.[ch]pp' 'src/*.h' 'include/*.hpp' 'include/*.h' 'tests/*.c' 'tests/*.[ch]pp' 'bench/*.[ch]pp' 'examples/*.[ch]pp' 'kernels/cpu/*.h' 'kernels/contract/*.h' 'kernels/gpu/*.h' 'kernels/hip/*.h' | xargs -0 "$tool" "${mode[@]}"
