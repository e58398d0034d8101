#!/bin/sh
# The monotonic clock of one client jumps while it measures (as after a virtual machine was moved): the
# trial says whose clock it was and by how much, and is not to be believed; the next one is.
. "$(dirname -- "$0")/lib.sh"
. "$(dirname -- "$0")/phases.sh"
need node

cat >agent.sh <<AGENT
#!/bin/sh
case "\$*" in *'--name client-1 '*)
    LS_CLOCK_STEP=$LS_TMP/jump LD_PRELOAD=$LS_BUILD/tests/support/libls_step_clock.so
    export LS_CLOCK_STEP LD_PRELOAD
    ;;
esac
exec "$agent" "\$@"
AGENT
chmod +x agent.sh
LOCKSTEP_AGENT=$LS_TMP/agent.sh
export LOCKSTEP_AGENT
export LS_WIDE=4
wide_plan measure
"$lockstep" run plan.yaml --out result --json >run.json 2>run.log &
run=$!
wait_until 60 in_phase measure
: >jump
code=0
wait "$run" || code=$?
[ "$code" -eq 4 ] || show run.log
same status 4 "$code"
holds run.json 'r.trials.map((t) => t.reasons.filter((x) => x.code === "clock_step").length).join() === "0,1,0"'
holds run.json 'r.trials[1].verdict === "invalid" &&
    r.trials[1].reasons.some((x) => x.code === "clock_step" && x.text.includes("client-1") && / \d\d\.\d ms| 100 ms/.test(x.text))'
holds run.json 'r.hosts.every((h) => h.agent === "client-1"
    ? h.clock.steps >= 1 && h.clock.stepped_ns > 1e7 && h.clock.stepped_ns <= 1e8 : h.clock.steps === 0)'
# Nothing is negative, and nothing is absurd.
holds run.json 'r.trials.every((t) => [t.service_time, t.response_time].every((x) => x === undefined || x === null ||
    (x.min_ns >= 0 && x.max_ns < 6e9)))'
finished_intact '1 2 3'
all_is_tidy
