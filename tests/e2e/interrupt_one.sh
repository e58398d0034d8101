#!/bin/sh
# interrupt_one.sh TIMES PHASE: one run that gets SIGINT then, once or twice; interrupt.sh runs them
# all.
. "$(dirname -- "$0")/lib.sh"
. "$(dirname -- "$0")/phases.sh"

times=$1
phase=$2
finished=1
if [ "$phase" = enrol ]; then
    wide_plan warmup
    finished=0
else
    wide_plan "$phase"
fi
"$lockstep" run plan.yaml --out result --json >run.json 2>run.log &
run=$!
wait_until 60 in_phase "$phase"
kill -INT "$run"
if [ "$times" -eq 2 ]; then
    wait_until 60 grep -q '^interrupted' run.log
    kill -INT "$run" 2>/dev/null || : # it may be through already
fi
ended=0
wait "$run" || ended=$?
same status 130 "$ended"
all_is_tidy

holds run.json 'r.exit_status === 130 && r.status === "interrupted" && r.error.includes("interrupted")'
holds run.json "r.trials.length === $finished && r.trials_planned === 3"
json run.json r >got
json result/result.json r >expected
cmp expected got || fail 'result.json is not what was printed'
same 'trial folders' "$finished" "$(find result/trials -mindepth 1 | grep -c 'trials/[^/]*$')"
[ "$finished" -eq 0 ] || finished_intact 1
