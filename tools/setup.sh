#!/usr/bin/env bash
# Installs the Debian packages the build, the tests and the demo need. Idempotent: does nothing when all are there, or when what is missing only skips
# tests and the distribution lacks it or the user may not install it.
set -euo pipefail

packages=(g++ mold cmake ninja-build make pkg-config libfmt-dev nlohmann-json3-dev libyaml-cpp-dev libcli11-dev libsqlite3-dev
          libssl-dev libgtest-dev libbenchmark-dev python3-numpy python3-pytest python3-scipy python3-venv)

is_installed() { dpkg-query -W -f='${Status}' "$1" 2>/dev/null | grep -q 'install ok installed'; }

# The compiler of the kernels for AMD GPUs, the newest that the distribution has, and the disassembler of its release, which tests read code objects
# with. Without them these tests are skipped.
amd_compiler() {
  local release
  for release in 22 21 20 19 18; do
    apt-cache show "clang-$release" "lld-$release" >/dev/null 2>&1 && { echo "clang-$release lld-$release llvm-$release"; return; }
  done
}

missing=()
for package in "${packages[@]}"; do is_installed "$package" || missing+=("$package"); done
has_amd_compiler=$(compgen -c clang- | grep -E '^clang-(1[89]|[2-9][0-9])$' | head -1 || true)
optional=()
amd_release=${has_amd_compiler#clang-}
if [ -n "$amd_release" ] && ! command -v "llvm-objdump-$amd_release" >/dev/null && apt-cache show "llvm-$amd_release" >/dev/null 2>&1; then
  optional=("llvm-$amd_release")
fi
# A cluster of one machine, which tests of `sweep --slurm` and `tune --slurm` start and stop. Without it they are skipped.
has_slurm=yes
for package in slurmctld slurmd slurm-client munge; do is_installed "$package" || has_slurm=; done
if [ -z "$has_slurm" ] && apt-cache show slurm-wlm >/dev/null 2>&1; then optional+=(slurm-wlm munge); fi
[ ${#missing[@]} -eq 0 ] && [ ${#optional[@]} -eq 0 ] && [ -n "$has_amd_compiler" ] && exit 0

as_root=()
if [ "$(id -u)" -ne 0 ]; then
  if [ ${#missing[@]} -eq 0 ]; then
    sudo -n true 2>/dev/null || exit 0  # tests that are skipped are not worth a password
  elif ! command -v sudo >/dev/null; then
    echo "tilesmith: these packages are missing and need root to install: ${missing[*]}" >&2
    exit 1
  fi
  as_root=(sudo)
fi
# The lists are read anew for what the build needs, and where there are none: what is optional and not in them is not in the distribution.
if [ ${#missing[@]} -ne 0 ] || ! apt-cache show g++ >/dev/null 2>&1; then "${as_root[@]}" apt-get update -qq; fi
[ -z "$has_amd_compiler" ] && read -ra compiler <<<"$(amd_compiler)" && optional+=("${compiler[@]}")
[ -z "$has_slurm" ] && [[ " ${optional[*]} " != *" slurm-wlm "* ]] && apt-cache show slurm-wlm >/dev/null 2>&1 && optional+=(slurm-wlm munge)
[ ${#missing[@]} -eq 0 ] && [ ${#optional[@]} -eq 0 ] && exit 0
# The services of the packages are not started: the tests have their own.
if [ ! -e /usr/sbin/policy-rc.d ]; then
  trap '"${as_root[@]}" rm -f /usr/sbin/policy-rc.d' EXIT
  printf '#!/bin/sh\nexit 101\n' | "${as_root[@]}" tee /usr/sbin/policy-rc.d >/dev/null
  "${as_root[@]}" chmod +x /usr/sbin/policy-rc.d
fi
install() {
  [ $# -eq 0 ] && return
  echo "tilesmith: installing $*" >&2
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" >&2
}
install "${missing[@]}"
install "${optional[@]}" || echo "tilesmith: ${optional[*]} cannot be installed: tests that need them are skipped" >&2
