#!/usr/bin/env bash
# Usage: start.sh [--install] DIR [NODES] [CPUS] [PORT]
#
# A real SLURM on this machine alone: a controller and NODES node daemons, each posing as a node of CPUS cores, with
# their own munge. For tests, as root; neither systemd nor cgroups are needed, and of a SLURM that is installed for use
# nothing is touched. Everything is in DIR, and one call after another changes nothing. Ports PORT to PORT + NODES are
# listened on. Afterwards: export SLURM_CONF=DIR/slurm.conf. To end it: stop.sh DIR
#
# With --install, what is missing is installed by apt-get.
set -euo pipefail

install=no
if [ "${1:-}" = --install ]; then
  install=yes
  shift
fi
dir=$(realpath -m "${1:?the folder to keep everything in}")
nodes=${2:-4} cpus=${3:-8} port=${4:-16817}
host=$(hostname -s)
export SLURM_CONF=$dir/slurm.conf

fail() { printf 'start.sh: %s\n' "$*" >&2; exit 1; }

missing() {
  local program
  for program in slurmctld slurmd sbatch squeue munged; do
    command -v "$program" >/dev/null || return 0
  done
  return 1
}

# A pid file may outlive its process, and a container's first process may leave zombies.
running() { # running PIDFILE
  local pid
  pid=$(cat "$1" 2>/dev/null) && [ -n "$pid" ] && [ -r "/proc/$pid/stat" ] &&
    [[ $(cat "/proc/$pid/stat") =~ \((munged|slurmctld|slurmd)\)\ [^ZX] ]]
}

configuration() {
  cat <<CONF
ClusterName=tests
SlurmctldHost=$host(127.0.0.1)
SlurmctldPort=$port
SlurmUser=root
SlurmdUser=root

# Credentials age in 5 s: a requeued job waits that long, instead of two minutes
AuthType=auth/munge
AuthInfo=socket=$dir/run/munge.sock,cred_expire=5
CredType=cred/munge

SlurmctldPidFile=$dir/run/slurmctld.pid
SlurmdPidFile=$dir/run/slurmd.%n.pid
SlurmctldLogFile=$dir/log/slurmctld.log
SlurmdLogFile=$dir/log/slurmd.%n.log
StateSaveLocation=$dir/state
SlurmdSpoolDir=$dir/spool/%n
TmpFS=$dir/tmp/%n

ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
MpiDefault=pmi2
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerType=sched/backfill
SchedulerParameters=sched_interval=1,bf_interval=1,batch_sched_delay=0
MinJobAge=3600
KillWait=30
ReturnToService=2
JobRequeue=1
SlurmdParameters=config_overrides

NodeName=n[1-$nodes] NodeHostname=$host NodeAddr=127.0.0.1 Port=[$((port + 1))-$((port + nodes))] CPUs=$cpus RealMemory=4000 State=UNKNOWN
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP
CONF
}

[ "$(id -u)" -eq 0 ] || fail "needs root: munge and the daemons are started as root"
if missing; then
  [ "$install" = yes ] || fail "SLURM is not installed (Debian: apt-get install slurmctld slurmd slurm-client munge)"
  export DEBIAN_FRONTEND=noninteractive
  apt-get update -qq
  apt-get install -y -qq --no-install-recommends slurmctld slurmd slurm-client munge >/dev/null
fi
getent hosts "$host" >/dev/null || printf '127.0.0.1 %s\n' "$host" >>/etc/hosts # daemons look each other up by name

mkdir -p "$dir"/{state,spool,log,run,tmp}
chmod 711 "$dir" "$dir/run" # munge's socket must be reachable
if ! running "$dir/run/munged.pid"; then
  rm -f "$dir/run/munge.sock"
  [ -s "$dir/munge.key" ] || (umask 077; head -c 128 /dev/urandom >"$dir/munge.key")
  munged --force --key-file="$dir/munge.key" --socket="$dir/run/munge.sock" --pid-file="$dir/run/munged.pid" \
    --log-file="$dir/log/munged.log" --seed-file="$dir/run/munge.seed"
fi
configuration >"$SLURM_CONF"
running "$dir/run/slurmctld.pid" || slurmctld
for ((i = 1; i <= nodes; i++)); do
  mkdir -p "$dir/spool/n$i" "$dir/tmp/n$i"
  running "$dir/run/slurmd.n$i.pid" || slurmd -N "n$i"
done

up=0
for ((tries = 0; tries < 150; tries++)); do
  up=$(sinfo --noheader --Node --states=idle,alloc,mix --format=%N 2>/dev/null | wc -l)
  [ "$up" -lt "$nodes" ] || break
  sleep 0.2
done
[ "$up" -ge "$nodes" ] || fail "only $up of $nodes nodes came up: see $dir/log"
printf 'SLURM_CONF=%s\n' "$SLURM_CONF"
