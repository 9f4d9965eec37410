#!/usr/bin/env bash
# Runs clang-tidy over the library. Version 19 or newer: older ones do not know std::expected of the C++23 library.
set -euo pipefail
cd "$(dirname "$0")/.."
tool=$(command -v clang-tidy-22 || command -v clang-tidy-19) || { echo "clang-tidy is missing: apt-get install clang-tidy-19" >&2; exit 1; }
git ls-files -z 'src/*.cpp' | xargs -0 -n 4 -P "$(nproc)" "$tool" -p build --quiet
