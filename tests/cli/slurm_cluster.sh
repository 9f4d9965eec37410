#!/bin/bash
# slurm_cluster.sh FOLDER COMMAND...: a Slurm cluster of this machine alone (slurmctld and slurmd of the packages slurmctld, slurmd and slurm-client),
# in which COMMAND runs. FOLDER is empty, and takes its configuration, state and logs. Exit status: COMMAND's; 77 where Slurm is not installed or does not
# start here. The cluster asks nobody who they are (auth/none), so it listens on this machine's loopback alone.
set -u
folder=$1
shift
export PATH=$PATH:/usr/sbin:/sbin
for program in slurmctld slurmd sbatch sinfo; do
  command -v $program >/dev/null || { echo "there is no $program: apt-get install slurmctld slurmd slurm-client" >&2; exit 77; }
done
host=$(hostname -s)
free_port() { python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }
mkdir -p "$folder/state" "$folder/spool"
cat >"$folder/slurm.conf" <<CONFIGURATION
ClusterName=test
SlurmctldHost=$host(127.0.0.1)
SlurmctldPort=$(free_port)
SlurmdPort=$(free_port)
SlurmUser=$(id -un)
SlurmdUser=$(id -un)
AuthType=auth/none
CredType=cred/none
StateSaveLocation=$folder/state
SlurmdSpoolDir=$folder/spool
SlurmctldPidFile=$folder/slurmctld.pid
SlurmdPidFile=$folder/slurmd.pid
SlurmctldLogFile=$folder/slurmctld.log
SlurmdLogFile=$folder/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SchedulerType=sched/backfill
SchedulerParameters=sched_interval=1,bf_interval=1
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
JobAcctGatherType=jobacct_gather/none
MpiDefault=none
SwitchType=switch/none
ReturnToService=2
MinJobAge=300
NodeName=$host NodeAddr=127.0.0.1 CPUs=$(nproc) State=UNKNOWN
PartitionName=fast Nodes=$host Default=YES MaxTime=INFINITE State=UP
CONFIGURATION
export SLURM_CONF=$folder/slurm.conf
slurmctld -D >"$folder/slurmctld.out" 2>&1 &
controller=$!
slurmd -D -N "$host" >"$folder/slurmd.out" 2>&1 &
node=$!
stop() {
  kill $node $controller 2>/dev/null
  wait $node $controller 2>/dev/null
}
trap stop EXIT
for ((i = 0; i < 300; i++)); do
  [ "$(sinfo -h -o %T 2>/dev/null)" = idle ] && break
  if ! kill -0 $controller 2>/dev/null || ! kill -0 $node 2>/dev/null || [ $i = 299 ]; then
    echo "Slurm does not start here:" >&2
    tail -n 5 "$folder"/*.log "$folder"/*.out >&2
    exit 77
  fi
  sleep 0.1
done
"$@"
