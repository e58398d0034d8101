# tests/e2e/slurm_lib.sh - for sourcing, behind lab_lib.sh: a Slurm cluster on the hosts of a lab. Its
# controller is on the coordinator's host, a slurmd on each other; all of it ends with the lab.
# shellcheck shell=sh disable=SC2154 # lib.sh's

need slurmctld slurmd munged sbatch srun

# cluster_up: over a lab that is up.
cluster_up() {
    mkdir -p slurm/state slurm/log slurm/run
    SLURM_CONF=$LS_TMP/slurm/slurm.conf
    export SLURM_CONF
    hosts=$(sed 1d lab/names)
    cat >"$SLURM_CONF" <<CONF
ClusterName=lab
SlurmctldHost=coordinator($(lab address coordinator))
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
CredType=cred/munge
AuthInfo=socket=$LS_TMP/slurm/run/munge.sock
MpiDefault=none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/affinity
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SlurmdParameters=config_overrides
StateSaveLocation=$LS_TMP/slurm/state
SlurmdSpoolDir=$LS_TMP/slurm/spool.%n
SlurmctldPidFile=$LS_TMP/slurm/run/slurmctld.pid
SlurmdPidFile=$LS_TMP/slurm/run/slurmd.%n.pid
SlurmctldLogFile=$LS_TMP/slurm/log/slurmctld.log
SlurmdLogFile=$LS_TMP/slurm/log/slurmd.%n.log
ReturnToService=2
SlurmdTimeout=5
KillWait=20
SwitchType=switch/none
CONF
    for host in $hosts; do
        echo "NodeName=$host NodeAddr=$(lab address "$host") NodeHostname=$host CPUs=$(nproc) RealMemory=500"
    done >>"$SLURM_CONF"
    echo "PartitionName=lab Nodes=ALL Default=YES MaxTime=60 State=UP" >>"$SLURM_CONF"
    head -c 1024 /dev/urandom >slurm/run/munge.key
    chmod 400 slurm/run/munge.key
    (lab exec coordinator munged --foreground --force --key-file="$LS_TMP/slurm/run/munge.key" \
        --socket="$LS_TMP/slurm/run/munge.sock" --pid-file="$LS_TMP/slurm/run/munged.pid" \
        --log-file="$LS_TMP/slurm/log/munged.log" --seed-file="$LS_TMP/slurm/run/seed" \
        >slurm/log/munged.out 2>&1 </dev/null) &
    wait_until 60 test -S slurm/run/munge.sock
    (lab exec coordinator slurmctld -D -i -f "$SLURM_CONF" >slurm/log/slurmctld.out 2>&1 </dev/null) &
    for host in $hosts; do
        mkdir -p "slurm/spool.$host"
        slurmd_up "$host"
    done
    wait_until 60 all_idle
}

slurmd_up() {
    (lab exec "$1" slurmd -D -N "$1" -f "$SLURM_CONF" >>"slurm/log/slurmd.$1.out" 2>&1 </dev/null) &
}

# Slurm's commands, on the host of the controller.
slurm() {
    lab exec coordinator "$@"
}

all_idle() {
    [ "$(slurm sinfo --noheader --states=idle --format=%D)" = "$(sed 1d lab/names | wc -l)" ]
}

# No process of a job is left on any node: what is there is Slurm.
nodes_are_empty() {
    # shellcheck disable=SC2013 # a name is a word
    for host in $(sed 1d lab/names); do
        lab processes "$host" | grep -v -e ' slurmd -D' -e '^[0-9]* slurmd: ' && return 1
    done
    return 0
}

# job_state ID: as the controller has it.
job_state() {
    slurm scontrol show job -o "$1" | sed -n 's/.*JobState=\([A-Z_]*\).*/\1/p'
}

# What a case says of a job that went wrong.
show_job() {
    show "$1/job.log" "$1/coordinator.log" "$1"/agent-*.log "$1/keys.log" slurm/log/slurmctld.log
}
