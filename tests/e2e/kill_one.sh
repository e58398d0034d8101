#!/bin/sh
# kill_one.sh VICTIM PHASE: one run in which that process is killed then; kill.sh runs them all.
. "$(dirname -- "$0")/lib.sh"
. "$(dirname -- "$0")/phases.sh"

victim=$1
phase=$2
case $phase in
enrol) wide_plan warmup ;;
*) wide_plan "$phase" ;;
esac
"$lockstep" run plan.yaml --out result --json >run.json 2>run.log &
run=$!
wait_until 60 in_phase "$phase"
case $victim in
coordinator) found=$run ;;
supervisor) find_process '^lockstep-supervisor' ;;
target) find_process '^sh slow_target.sh' ;;
*) find_process "^lockstep-agent .*--name $victim " ;;
esac || fail "there is no $victim in phase $phase"
kill -9 "$found"
ended=0
wait "$run" || ended=$?
all_is_tidy

# The coordinator cannot speak any more; what it has written does.
if [ "$victim" = coordinator ]; then
    same status 137 "$ended"
    [ ! -s run.json ] || fail 'there is a result on stdout'
    [ "$phase" != enrol ] || exit 0
    finished_intact 1
    holds result/result.json 'r.status === "incomplete" && r.exit_status === 3 && r.trials.length === 1'
    exit 0
fi

# A target that dies under load makes a result that is not to be believed; what dies before leaves
# none. Who is to be stopped anyway may be killed as well.
case $victim/$phase in
supervisor/collect | target/collect) allowed='0 3 4' ;;
supervisor/arm | target/arm) allowed='3 4' ;;
supervisor/start | target/start | supervisor/preflight | target/preflight) allowed=3 ;;
supervisor/* | target/*) allowed=4 ;;
*) allowed=3 ;;
esac
case " $allowed " in
*" $ended "*) ;;
*)
    show run.log
    fail "status $ended, not $allowed"
    ;;
esac
finished_intact '1 3'
holds run.json "r.exit_status === $ended && r.trials.length === 3 &&
                r.trials[2].status === 'done' && r.trials[2].requests.ok === 100"

# The process is named, on stderr and in the trial.
case $victim/$phase in
supervisor/collect | target/collect) exit 0 ;;
supervisor/* | target/*) named=$victim ;;
*) named="agent $victim has ended (signal KILL)" ;;
esac
says run.log "$named"
holds run.json "r.trials[1].verdict === 'invalid' &&
                r.trials[1].reasons.some((reason) => reason.text.includes('$named'))"
