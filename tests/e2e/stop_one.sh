#!/bin/sh
# stop_one.sh WHO: one run in which that process stops for good without ending; hang.sh runs them all.
. "$(dirname -- "$0")/lib.sh"
. "$(dirname -- "$0")/phases.sh"

who=$1
# shellcheck disable=SC2034 # for wide_plan
LS_WIDE=60
wide_plan measure
"$lockstep" run plan.yaml --out result --json >run.json 2>run.log &
run=$!
wait_until 60 in_phase measure
case $who in
coordinator) found=$run ;;
*) find_process "^lockstep-agent .*--name $who " || fail "there is no $who" ;;
esac
kill -STOP "$found"
if [ "$who" = coordinator ]; then
    # Load does not outlive the one who asked for it, even if that one is still there.
    nobody_serves() { ! find_process '^sh slow_target.sh' && ! find_process '^lockstep-agent'; }
    wait_until 30 nobody_serves
    kill -CONT "$run"
fi
ended=0
wait "$run" || ended=$?
same status 3 "$ended"
all_is_tidy
finished_intact '1 3'
holds run.json 'r.exit_status === 3 && r.trials.length === 3'
holds run.json 'r.trials[1].status === "failed" && r.trials[1].verdict === "invalid"'
holds run.json 'r.trials[1].reasons.some((reason) => reason.code === "agent_lost")'
[ "$who" = coordinator ] || says run.log "agent $who has been without a connection"
holds run.json 'r.trials[2].status === "done" && r.trials[2].requests.ok === 100'
