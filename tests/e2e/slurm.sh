#!/bin/sh
# A plan as a job of a Slurm cluster of four nodes: refused, run, cancelled; with LS_E2E_LONG=1 also interrupted, a
# node taken away, its slurmd killed, and the job's time over. Each time what is saved says how it went, whatever srun says, and
# nothing is left on any node, keys included.
. "$(dirname -- "$0")/lib.sh"
. "$(dirname -- "$0")/lab_lib.sh"
. "$(dirname -- "$0")/slurm_lib.sh"
need node

lab up --clients 3 --servers 1 --owner $$ 2>up.err || skip "no lab here: $(cat up.err)"
cluster_up

# submit JOB MEASURE ON_AGENT_LOSS [-- OPTION_OF_SBATCH...]: two clients and a server.
submit() {
    job=$1
    lab_plan 2 "$2" "on_agent_loss: $3"
    shift 3
    (slurm "$lockstep" slurm plan.yaml --job "$job" "$@" >"$job.out" 2>"$job.err") &
    waiter=$!
}

# ended STATUS...: lockstep slurm has, with one of these. What came of it is the case's finding.
ended() {
    code=0
    wait "$waiter" || code=$?
    tail -n 1 "$job.err" >&2
    [ ! -s "$job/result/result.json" ] || summary "$job/result/result.json"
    case " $* " in
    *" $code "*) ;;
    *)
        show "$job.err"
        show_job "$job"
        fail "lockstep slurm ended with $code, not $*"
        ;;
    esac
    [ ! -e "$job/keys" ] || fail 'the keys of the job are still there'
    wait_until 60 nodes_are_empty
    wait_until 60 all_idle
}

measuring() {
    grep -q 'session.phase .* to=measure' "$job"/agent-0.log
}

id_of_job() {
    sed -n 's/^lockstep: job \([0-9]*\): .*/\1/p' "$job.err"
}

# ---- what cannot work is said before there is any load, with what to change

lab_plan 4 1s
expect 3 slurm "$lockstep" slurm plan.yaml --job many
says err 'as things are it cannot start (PartitionNodeLimit: the partition has fewer nodes, or some are down or drained now; sinfo'
says err 'the plan needs 6 nodes for'
lab_plan 2 1s
expect 3 slurm "$lockstep" slurm plan.yaml --job wide --set fleet.cpus.server=700
says err 'the job was not taken; the plan needs 4 nodes of 701 CPUs or more'

# refused WHY: the job ends with 3, long before everybody would have been waited for.
refused() {
    ended 3
    says "$job.err" "$1"
    ! grep -q 'to=measure' "$job"/agent-*.log || fail 'there was load'
}

# A node without the program. (One whose TMPDIR cannot be written to gets /tmp from Slurm.)
printf '#!/bin/sh\nexec "%s" "$@"\n' "$agent" >program
chmod 755 program
lab exec client-3 mount --bind /dev/null "$LS_TMP/program"
LOCKSTEP_AGENT=$LS_TMP/program
export LOCKSTEP_AGENT
submit gone 1s abort
unset LOCKSTEP_AGENT
refused "client-3: there is no $LS_TMP/program: install lockstep on every node"
lab exec client-3 umount "$LS_TMP/program"
# One that does not see the folder of the job.
mkdir apart empty
lab exec client-3 mount --bind "$LS_TMP/empty" "$LS_TMP/apart"
submit apart 1s abort
refused "client-3: $LS_TMP/apart is not seen here"
lab exec client-3 umount "$LS_TMP/apart"
# One on which the program does not run.
printf '#!/bin/sh\necho "no such library" >&2\nexit 127\n' >broken
chmod 755 broken
lab exec client-2 mount --bind "$LS_TMP/broken" "$LS_TMP/program"
LOCKSTEP_AGENT=$LS_TMP/program
export LOCKSTEP_AGENT
submit unfit 1s abort
unset LOCKSTEP_AGENT
refused "client-2: $LS_TMP/program does not run here: no such library"
lab exec client-2 umount "$LS_TMP/program"

# ---- what goes well, and what does not

# The plan as it is: a node for the coordinator, one for each agent, names as Slurm has them.
submit good 1s abort
ended 0 4
holds good/result/result.json 'r.trials.length === 1 && r.trials[0].status === "done" &&
    r.hosts.length === 3 && r.hosts.every((h) => /^(client|server)-[123]$/.test(h.agent) && h.address.startsWith("10.111."))'
books_balance good/result/result.json
same 'nodes of the job' 4 "$(sed -n 's/.*: \([0-9]*\) nodes, at most.*/\1/p' good.err)"
says good.err 'the run ended with status'

# Cancelled in the middle: TERM reaches coordinator and agents, whoever is first; the result says what it was.
submit cancelled 60s abort
wait_until 60 measuring
slurm scancel "$(id_of_job)"
ended 130 3
holds cancelled/result/result.json '(r.status === "interrupted" && r.exit_status === 130) ||
    (r.exit_status === 3 && r.trials[0].reasons.some((q) => q.code === "agent_lost"))'

[ "${LS_E2E_LONG:-0}" = 1 ] || exit 0

# Ctrl-C: the coordinator is told first, and says that it was interrupted.
submit interrupted 60s abort
wait_until 60 measuring
kill -TERM "$(lab processes coordinator | awk '/submit.sh/ { print $1; exit }')"
ended 130
holds interrupted/result/result.json 'r.status === "interrupted" && r.exit_status === 130'

# A node is taken away: the job goes on without it as far as Slurm is concerned, and the run does what its
# plan says about agents that are lost.
submit down 20s continue
wait_until 60 measuring
gone=$(sed -n 's/.*agent.enrolled agent=\([^ ]*\).*/\1/p' down/agent-2.log)
slurm scontrol update NodeName="$gone" State=DOWN Reason=test
slurm scontrol show job -o "$(id_of_job)" >down.job
ended 0 3 4
holds down/result/result.json 'r.trials[0].status === "done" || r.trials[0].reasons.some((q) => q.code === "agent_lost")'
slurm scontrol update NodeName="$gone" State=RESUME 2>resume.err || : # it may be back by itself
wait_until 60 all_idle

# Its slurmd is killed: whether the agent is still there is what counts, and not what Slurm thinks of the node.
submit killed 12s continue
wait_until 60 measuring
gone=$(sed -n 's/.*agent.enrolled agent=\([^ ]*\).*/\1/p' killed/agent-2.log)
kill -9 "$(lab processes "$gone" | awk '/ slurmd -D/ { print $1; exit }')"
wait_until 60 grep -q 'is over' killed.err
slurmd_up "$gone"
ended 0 3 4
holds killed/result/result.json 'r.trials.length === 1 && r.status !== "" && (r.trials[0].status === "done" ||
    r.trials[0].reasons.some((q) => q.code === "agent_lost"))'

# Its time is over: half a minute before, the coordinator is told to save what there is.
submit late 300s abort -- --time=1
wait_until 60 measuring
wait_until 150 grep -q 'is over' late.err
ended 130
holds late/result/result.json 'r.status === "interrupted"'

# The first node is lost, and with it the job's script and the coordinator: what was finished is there, and goes
# on wherever there are agents by these names. Last, for that node does not come back.
submit lost 3s abort --set schedule.repetitions=3
second_trial() {
    [ "$(grep -c 'session.phase .* to=measure' lost/agent-0.log)" -ge 2 ]
}
wait_until 90 second_trial
lab crash "$(slurm squeue --noheader --jobs="$(id_of_job)" --format=%B)"
code=0
wait "$waiter" || code=$?
tail -n 1 lost.err >&2
same 'status of the job' 3 "$code"
says lost.err 'is lost'
[ ! -e lost/keys ] || fail 'the keys of the job are still there'
wait_until 60 nodes_are_empty
holds lost/result/result.json 'r.status === "incomplete" && r.trials.length === 1 && r.trials[0].status === "done"'
. "$(dirname -- "$0")/agents.sh"
json lost/result/result.json 'r.hosts.map((h) => h.agent + " " + h.role).join("\n")' >names
pids=
while read -r name role; do
    agent_at "$url" "$name" "$role"
    pids="$pids $pid"
done <names
expect '0 4' "$lockstep" run --resume lost/result --listen "$url" --json
holds out 'r.status === "complete" && r.resumed === 1 && r.trials.length === 3 && r.trials.every((t) => t.status === "done")'
# shellcheck disable=SC2086 # numbers
kill -TERM $pids
for pid in $pids; do wait "$pid" || :; done
