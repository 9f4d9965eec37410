#!/usr/bin/env bash
# tools/setup.sh on machines made of stand-ins for apt and its like: what it installs, and when it asks for nothing.
set -euo pipefail
setup=$(realpath "$(dirname "$0")/../../tools/setup.sh")
fakes=$(mktemp -d)
trap 'rm -rf "$fakes"' EXIT
fake() { printf '#!/bin/bash\n%s\n' "$2" >"$fakes/$1" && chmod +x "$fakes/$1"; }
fake dpkg-query '[[ " $MISSING " != *" ${@: -1} "* ]] && echo "install ok installed"'
fake apt-cache '[ "$2" = g++ ] && exit ${NO_LISTS:-0}; [[ " $LISTED " == *" $2 "* ]]'
fake apt-get 'echo "$*"; for package in $BROKEN; do [[ " $* " != *" $package "* ]] || exit 100; done'
fake id 'echo "${USER_ID:-0}"'
fake sudo '[ "$1" = -n ] && exit "${ASKS:-1}"; echo sudo; exec "$@"'
fake tee 'while read -r line; do :; done'
for name in chmod rm; do fake "$name" :; done
for name in bash env grep head true; do ln -s "$(command -v "$name")" "$fakes/"; done

failures=0
# check WANTED_STATUS WANTED_WORDS VARIABLE=VALUE...: of what is said by apt-get, sudo and the script, one line
check() {
  local status=0 said
  said=$(env -i PATH="$fakes" MISSING= LISTED= BROKEN= "${@:3}" bash "$setup" 2>&1 | command tr '\n' ' ') || status=$?
  [[ $status -eq $1 && $said == $2 ]] && return
  echo "with ${*:3}: status $status, wanted $1; said '$said', wanted '$2'"
  failures=1
}
check 0 '' LISTED=
check 0 '' MISSING=slurmd
check 0 '*installing slurm-wlm munge clang-19 lld-19 llvm-19 *' MISSING=slurmd LISTED='slurm-wlm clang-19 lld-19'
check 0 '*slurm-wlm munge cannot be installed: tests that need them are skipped ' MISSING=slurmd LISTED=slurm-wlm BROKEN=slurm-wlm
check 0 'update -qq *installing g++ *install *g++ ' MISSING=g++
check 100 'update -qq *installing g++ *' MISSING='g++ slurmd' LISTED=slurm-wlm BROKEN=g++
check 0 'update -qq *installing clang-19 *' LISTED='clang-19 lld-19' NO_LISTS=100
check 0 '' MISSING=slurmd LISTED=slurm-wlm USER_ID=1000
check 0 '*installing slurm-wlm munge sudo install *' MISSING=slurmd LISTED=slurm-wlm USER_ID=1000 ASKS=0
check 0 'sudo update -qq *installing g++ *' MISSING=g++ USER_ID=1000
rm "$fakes/sudo"
check 1 '*these packages are missing and need root to install: g++ ' MISSING=g++ USER_ID=1000
exit $failures
