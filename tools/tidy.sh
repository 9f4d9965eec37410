#!/usr/bin/env bash
# Runs clang-tidy over the library, or over the sources named. It takes version 19 or newer, since older ones do not know
# std::expected of the C++23 library; Debian 12 has none, so it comes from the package index into the build folder.
set -euo pipefail
cd "$(dirname "$0")/.."

tool=build/tidy/bin/clang-tidy
if [ ! -x "$tool" ]; then
  python3 -m venv --clear build/tidy
  build/tidy/bin/pip install --quiet 'clang-tidy>=19'
fi
# The commands of a build that compiles each source by itself; nothing is built there.
cmake -S . -B build/tidy/commands -G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_EXPORT_COMPILE_COMMANDS=ON -DTILESMITH_UNITY=OFF \
  -DCMAKE_DISABLE_PRECOMPILE_HEADERS=ON -DTILESMITH_TESTS=OFF -DTILESMITH_BENCHMARKS=OFF --log-level=WARNING >/dev/null
if [ $# -gt 0 ]; then files=("$@"); else mapfile -t files < <(git ls-files 'src/*.cpp'); fi
printf '%s\0' "${files[@]}" | xargs -0 -n 4 -P "$(nproc)" "$tool" -p build/tidy/commands --quiet
