#!/usr/bin/env bash
# Tries a wheel where nothing else is: a fresh Debian without a compiler, with Python and NumPy alone. Takes root and debootstrap.
#   tools/test_wheel_bare.sh dist/tilesmith-....whl [MIRROR]
set -euo pipefail
cd "$(dirname "$0")/.."
wheel=$(realpath "${1:?the wheel is missing: tools/test_wheel_bare.sh dist/tilesmith-....whl}")
command -v debootstrap >/dev/null || { echo "there is no debootstrap: apt-get install debootstrap" >&2; exit 1; }
root=$PWD/build/bare-root
if [ ! -e "$root/complete" ]; then
  rm -rf "$root"
  debootstrap --variant=minbase --include=python3,python3-numpy bookworm "$root" "${2:-http://deb.debian.org/debian}" >/dev/null
  touch "$root/complete"
fi
rm -rf "$root/opt/wheel"
python3 -m zipfile -e "$wheel" "$root/opt/wheel"
cp tools/test_wheel_bare.py "$root/opt/"
# In a mount namespace of its own: /proc, where the library reads what the CPU is, goes with it.
unshare --mount sh -c 'mount -t proc proc "$0/proc" && exec chroot "$0" "$@"' "$root" /usr/bin/env -i PATH=/usr/bin:/bin PYTHONPATH=/opt/wheel python3 /opt/test_wheel_bare.py
