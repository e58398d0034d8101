#!/bin/sh
# Agents that never come, that end at once, and one that goes while the plan says to continue.
. "$(dirname -- "$0")/lib.sh"
. "$(dirname -- "$0")/phases.sh"
need node

export LS_WIDE=5
wide_plan measure

# It is never heard of: begun first, for that takes its time.
cat >silent.sh <<'AGENT'
#!/bin/sh
exec sleep 1000
AGENT
chmod +x silent.sh
mkdir silent
(
    cd silent || exit 1
    TMPDIR=$LS_TMP/silent LOCKSTEP_AGENT=$LS_TMP/silent.sh "$lockstep" run ../plan.yaml --out result \
        --json >run.json 2>run.log
) &
silent=$!

# It ends at once, in several ways.
code=0
LOCKSTEP_AGENT=$LS_TMP/no-such-program "$lockstep" run plan.yaml --out result --json >run.json 2>run.log ||
    code=$?
same status 3 "$code"
says run.log no-such-program
rm -rf result
code=0
LOCKSTEP_AGENT=/bin/false "$lockstep" run plan.yaml --out result --json >run.json 2>run.log || code=$?
same status 3 "$code"
grep -Eq 'agent (server|client-[12]) has ended \(exit 1\)' run.log || fail "it is not said whose agent has ended: $(cat run.log)"
holds run.json 'r.exit_status === 3 && r.status === "incomplete" && r.trials.length === 0'
rm -rf result

# The plan says to go on without it: the trial has the rest, says so, and is not to be believed.
sed 's/^fleet:$/fleet:\n  on_agent_loss: continue/' plan.yaml >continue.yaml
"$lockstep" run continue.yaml --out result --json >run.json 2>run.log &
run=$!
wait_until 60 in_phase measure
find_process '^lockstep-agent .*--name client-2 ' || fail 'there is no client-2'
kill -9 "$found"
code=0
wait "$run" || code=$?
same status 4 "$code"
holds run.json 'r.trials.length === 3 && r.trials.every((t) => t.status === "done")'
holds run.json '(t => t.verdict === "invalid" && t.requests.ok > 0 &&
    t.clients.map((c) => c.lost).join() === "false,true" &&
    t.reasons.some((x) => x.code === "agent_lost" && x.text.includes("agent client-2 has ended (signal KILL)")))(r.trials[1])'
holds run.json 'r.trials[2].requests.ok === 100'
finished_intact '1 2 3'

code=0
wait "$silent" || code=$?
same status 3 "$code"
says silent/run.log 'did not enrol'
holds silent/run.json 'r.exit_status === 3 && r.trials.length === 0'
same 'folders left' '' "$(find silent -name 'lockstep-*')"
all_is_tidy
