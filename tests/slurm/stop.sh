#!/usr/bin/env bash
# Usage: stop.sh DIR
#
# Ends the SLURM that start.sh started in DIR: its jobs first, then the daemons whose numbers are in DIR/run, and no
# others.
set -uo pipefail

dir=$(realpath -m "${1:?the folder that start.sh was given}")
export SLURM_CONF=$dir/slurm.conf

ours() { # ours PID: is it alive, no zombie, and one of the daemons?
  [ -r "/proc/$1/stat" ] && [[ $(cat "/proc/$1/stat" 2>/dev/null) =~ \((munged|slurmctld|slurmd)\)\ [^ZX] ]]
}

if [ -e "$SLURM_CONF" ] && timeout 5 scontrol ping >/dev/null 2>&1; then
  timeout 10 scancel --quiet --state=PENDING --user=root
  timeout 10 scancel --quiet --signal=KILL --full --user=root
  timeout 10 scancel --quiet --user=root
  for _ in {1..50}; do
    [ -n "$(timeout 5 squeue --noheader)" ] || break
    sleep 0.1
  done
fi
pids=()
for file in "$dir"/run/slurmd.*.pid "$dir/run/slurmctld.pid" "$dir/run/munged.pid"; do
  if pid=$(cat "$file" 2>/dev/null) && [ -n "$pid" ] && ours "$pid"; then
    pids+=("$pid")
    kill "$pid"
  fi
done
for pid in "${pids[@]}"; do
  for _ in {1..100}; do
    ours "$pid" || break
    sleep 0.1
  done
  if ours "$pid"; then kill -KILL "$pid"; fi
done
exit 0
