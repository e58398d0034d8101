#!/bin/sh
# What "lockstep slurm" does once it knows the allocation: hands the job in, shows what the coordinator says,
# and ends with what it ended with.
#
#   sh submit.sh follow|detach JOB NAME NODES CPUS MINUTES [SBATCH_OPTION...]
#
# JOB is the folder that lockstep slurm has made. LOCKSTEP and LOCKSTEP_AGENT name the programs.
set -eu

here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
mode=$1
job=$2
name=$3
nodes=$4
cpus=$5
minutes=$6
shift 6
LOCKSTEP_JOB=$job
export LOCKSTEP_JOB

say() {
    printf 'lockstep: %s\n' "$*" >&2
}

command -v sbatch >/dev/null || {
    say "slurm: sbatch is not here: this has to be a host from which jobs are handed in"
    exit 2
}
set -- --parsable --nodes="$nodes" --time="$minutes" --job-name="lockstep-$name" \
    --output="$job/job.log" --export=ALL "$@"
needs="the plan needs $nodes nodes for $minutes minutes"
[ "$cpus" -eq 0 ] || {
    needs="the plan needs $nodes nodes of $cpus CPUs or more for $minutes minutes"
    set -- --mincpus="$cpus" "$@"
}
id=$(sbatch "$@" "$here/lockstep.sbatch") || {
    say "slurm: the job was not taken; $needs"
    exit 3
}
id=${id%%;*}
say "job $id: $nodes nodes, at most $minutes minutes; all of it is in $job"
[ "$mode" = follow ] || exit 0

# First in order: the job's script ends the coordinator, which saves what there is and sends the agents away.
interrupted=no
# shellcheck disable=SC2317 # by a trap
cancel() {
    case $interrupted-$(squeue --noheader --jobs="$id" --format=%T) in
    no-RUNNING)
        say "job $id is told to end; once more cancels it"
        scancel --batch --signal=TERM "$id" || :
        ;;
    *)
        say "job $id is cancelled"
        scancel "$id" || :
        ;;
    esac
    interrupted=yes
}
trap cancel INT TERM HUP

# What is new in the coordinator's log.
shown=0
show() {
    lines=$(wc -l 2>/dev/null <"$job/coordinator.log" || echo 0)
    [ "$lines" -gt "$shown" ] || return 0
    sed -n "$((shown + 1)),${lines}p" "$job/coordinator.log" >&2
    shown=$lines
}

# The job's script and the coordinator are on its first node. Slurm lets a job live without any of its nodes
# (--no-kill), without that one as well: until its time is over, with nobody in it. A node whose slurmd alone has
# gone has a coordinator that goes on, and agents on the others.
first_is_lost() {
    host=$(squeue --noheader --jobs="$id" --format=%B 2>/dev/null)
    case $(sinfo --noheader --nodes="$host" --format=%t 2>/dev/null) in
    down*) ;;
    *) return 1 ;;
    esac
    ! squeue --noheader --steps --jobs="$id" --format='%i %N' 2>/dev/null |
        awk -v first="$host" '$1 ~ /\.[0-9]/ && $2 != first { some = 1 } END { exit !some }'
}

state=
said=
rounds=0
lost=0 # looks, one after the other, that found it so: a coordinator may still be writing
while :; do
    # A job that is cancelled is still there: its processes have until KillWait to say what there was.
    now=$(squeue --noheader --jobs="$id" --format='%T %r' \
        --states=PENDING,CONFIGURING,RUNNING,SUSPENDED,STOPPED,COMPLETING 2>/dev/null) || now=
    show
    state=${now%% *}
    case $now in
    '') break ;;
    "$said" | 'PENDING None') ;;
    'PENDING PartitionNodeLimit' | 'PENDING PartitionTimeLimit' | 'PENDING BadConstraints')
        # Most clusters take what can never start, and have it wait for ever. Slurm gives the first reason also
        # where nodes are down or drained: nobody knows for how long.
        why=${now#* }
        [ "$why" != PartitionNodeLimit ] || why="$why: the partition has fewer nodes, or some are down or drained now"
        say "job $id is cancelled: as things are it cannot start ($why; sinfo lists what there is); $needs"
        said=$now
        scancel "$id" || :
        ;;
    *)
        said=$now
        say "job $id is ${now% None}"
        ;;
    esac
    rounds=$((rounds + 1))
    [ $((rounds % 10)) -ne 0 ] || if [ "$state" = RUNNING ] && first_is_lost; then lost=$((lost + 1)); else lost=0; fi
    if [ "$lost" -eq 2 ]; then
        say "job $id is cancelled: its first node, $host, is lost, and with it the coordinator"
        scancel "$id" || :
    fi
    sleep 0.5
done
ended=$(scontrol show job -o "$id" 2>/dev/null | sed -n 's/.*JobState=\([A-Z_]*\).*/\1/p')
# A first node that was lost cannot have tidied up.
rm -rf "$job/keys"
[ ! -s "$job/report.txt" ] || cat "$job/report.txt"
for trouble in "$job"/trouble-*; do
    [ ! -e "$trouble" ] || say "$(cat "$trouble")"
done
if [ -s "$job/status" ]; then
    read -r code <"$job/status"
    say "job $id is over (${ended:-gone}); the run ended with status $code: $job/result"
elif [ -s "$job/result/result.json" ]; then
    code=3
    say "job $id is over (${ended:-gone}) before the run was: what it has finished is in $job/result; lockstep run --resume $job/result --listen URL --keys DIR goes on from there, with agents that are called the same"
else
    code=3
    say "job $id is over (${ended:-gone}), and nothing was measured: $(tail -n 2 "$job/job.log" 2>/dev/null | tr '\n' ' ')"
fi
[ "$interrupted" = no ] || [ "$code" -ne 0 ] || code=130
exit "$code"
