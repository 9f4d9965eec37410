#!/usr/bin/env bash
# Builds the wheel for every x86-64 Linux with glibc 2.28 or newer (tag manylinux_2_28) into dist/.
# Debian 12's g++ makes libraries for Debian 12's glibc and newer. zig's C++ compiler (clang; PyPI: ziglang) makes them for the glibc that is named,
# and links its libc++ into the library, so the wheel needs neither a libstdc++ nor a libgcc. auditwheel checks the tag.
#   tools/make_wheel.sh [python3.11]
set -euo pipefail
cd "$(dirname "$0")/.."
python=${1:-python3}
glibc=2.28
tag=manylinux_${glibc/./_}_x86_64
work=$PWD/build/portable-wheel
mkdir -p "$work/bin" "$work/include/openssl" dist

if [ ! -e "$work/tools/complete" ]; then
  "$python" -m venv --clear "$work/tools"
  "$work/tools/bin/pip" install --quiet 'ziglang==0.17.*' 'scikit-build-core>=0.11' ninja auditwheel wheel
  touch "$work/tools/complete"
fi
zig=$("$work/tools/bin/python" -c 'import os, ziglang; print(os.path.join(os.path.dirname(ziglang.__file__), "zig"))')

# zig spells the names of CPU levels with underscores.
cat >"$work/bin/c++" <<END
#!/bin/sh
for argument; do
  shift
  case \$argument in -march=x86-64-v*) argument=-march=x86_64_v\${argument##*-v} ;; esac
  set -- "\$@" "\$argument"
done
exec "$zig" c++ -target x86_64-linux-gnu.$glibc "\$@"
END
chmod +x "$work/bin/c++"

# The packages' headers without the C library's that lie beside them.
for folder in fmt nlohmann; do ln -sfn "/usr/include/$folder" "$work/include/$folder"; done
ln -sf /usr/include/openssl/*.h /usr/include/x86_64-linux-gnu/openssl/*.h "$work/include/openssl/"

# A folder of its own: object files of two compilers must not meet.
rm -rf "$work/wheel"
export ZIG_GLOBAL_CACHE_DIR=$work/zig-cache ZIG_LOCAL_CACHE_DIR=$work/zig-cache
"$work/tools/bin/pip" wheel --quiet --no-deps --no-build-isolation --wheel-dir "$work/wheel" . \
  --config-settings=build-dir="$work/build" \
  --config-settings=cmake.define.CMAKE_CXX_COMPILER="$work/bin/c++" \
  --config-settings=cmake.define.CMAKE_CXX_FLAGS="-isystem $work/include" \
  --config-settings=cmake.define.CMAKE_PROJECT_INCLUDE="$PWD/cmake/PortableWheel.cmake"

wheel=$(echo "$work"/wheel/tilesmith-*.whl)
said=$("$work/tools/bin/auditwheel" show "$wheel" 2>&1)
needs=$(tr '\n' ' ' <<<"$said" | sed -nE 's/.*following platform tag: *"manylinux_2_([0-9]+)_x86_64".*/\1/p')
if [ -z "$needs" ] || [ "$needs" -gt "${glibc#2.}" ]; then
  echo "$said" >&2
  echo "the wheel does not keep to $tag" >&2
  exit 1
fi
tagged=$("$work/tools/bin/python" -m wheel tags --remove --platform-tag "$tag" "$wheel")
mv "$work/wheel/$tagged" dist/
echo "dist/$tagged"
