#!/usr/bin/env bash
# Installs the Debian packages the build, the tests and the demo need. Idempotent: does nothing when all are there.
set -euo pipefail

packages=(g++ mold cmake ninja-build make pkg-config libfmt-dev nlohmann-json3-dev libyaml-cpp-dev libcli11-dev libsqlite3-dev
          libssl-dev libgtest-dev libbenchmark-dev python3-numpy python3-pytest python3-venv)

missing=()
for package in "${packages[@]}"; do
  dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'install ok installed' || missing+=("$package")
done
[ ${#missing[@]} -eq 0 ] && exit 0

echo "tilesmith: installing ${missing[*]}" >&2
as_root=()
if [ "$(id -u)" -ne 0 ]; then
  command -v sudo >/dev/null || { echo "tilesmith: these packages are missing and need root to install: ${missing[*]}" >&2; exit 1; }
  as_root=(sudo)
fi
"${as_root[@]}" apt-get update -qq
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >&2
