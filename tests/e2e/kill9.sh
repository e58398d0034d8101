#!/bin/sh
# kill -9 of each process in each phase of a trial: the promised exit status, a message that names
# what is gone, no process and no port left, and the trial that was finished before as it was.
#
#   kill9.sh [PHASE VICTIM]      all phases and victims, unless given
. "$(dirname -- "$0")/lib.sh"
need node

# The victims of a phase at the same time, each under a guard of its own.
if [ $# -eq 0 ]; then
    failures=0
    for phase in start preflight warmup measure drain; do
        pids=
        for victim in coordinator server client-1 client-2 supervisor target; do
            "$LS_HARNESS" guard 100 sh "$LS_SOURCE/tests/e2e/kill9.sh" "$phase" "$victim" >"$phase-$victim.log" 2>&1 &
            pids="$pids $!"
        done
        for pid in $pids; do
            wait "$pid" || failures=$((failures + 1))
        done
        cat "$phase"-*.log
    done
    [ "$failures" -eq 0 ] || fail "$failures of 30 did not go as promised"
    exit 0
fi
phase=$1
victim=$2

# Every answer of the second target takes so long that each phase lasts for a while: readiness and
# preflight for an answer each, drain for those in flight.
# shellcheck disable=SC2046 # two words
set -- $(free_port 2)
quick=$1
slow=$2
{
    plan_head victims 2
    cat <<PLAN
targets:
  - name: quick
    command: ["$agent", respond, --listen, "{host}:{port}"]
    port: $quick
  - name: slow
    command: ["$agent", respond, --listen, "{host}:{port}", --latency, "constant:2500ms"]
    port: $slow
workloads:
  - name: short
    targets: [quick]
    http: {requests: [{path: /}]}
    connections: 2
    load: {closed: {requests: 100}}
    warmup: 0s
    measure: 10s
  - name: long
    targets: [slow]
    http: {requests: [{path: /}]}
    connections: 4
    warmup: 1s
    measure: 2s
schedule: {repetitions: 1, order: sequential}
PLAN
} >plan.yaml

# pid_of VICTIM: the process of this run that is called that. Never one of another run.
pid_of() {
    case $1 in
    coordinator)
        cat run.pid
        return
        ;;
    supervisor)
        "$LS_HARNESS" left "$LS_GUARD" | awk '$2 == "ls-supervisor" { print $1 }' | grep .
        return
        ;;
    target) pattern="respond --listen 127.0.0.1:$slow" ;;
    *) pattern="lockstep-agent .*--name $1 " ;;
    esac
    "$LS_HARNESS" left "$LS_GUARD" | while read -r candidate _; do
        if tr '\0' ' ' 2>/dev/null <"/proc/$candidate/cmdline" | grep -q -- "$pattern"; then
            printf '%s\n' "$candidate"
            return
        fi
    done | grep .
}

: >run.log
start run "$lockstep" run plan.yaml --out result
wait_until 30 grep -q "slow long r1  $phase" run.log
wait_until 10 pid_of "$victim"
killed=$(pid_of "$victim")
kill -9 "$killed"
status=0
wait "$pid" || status=$?

# What must have become of the run, and whom its messages must name.
case $victim in
coordinator) promised=137 names= ;;
supervisor | target)
    names=slow
    case $phase in
    start | preflight) promised=3 ;; # the trial was never measured
    *) promised=4 ;;                 # it was, and is not to be believed
    esac
    ;;
*) promised=3 names=$victim ;;
esac
[ "$status" -eq "$promised" ] || {
    show run.log
    fail "$victim killed in $phase: status $status instead of $promised"
}
says run.log "$names"

# Without their coordinator agents end when their lease is over.
wait_until 30 nothing_is_left
port_is_free "$quick" || fail "port $quick is still in use"
port_is_free "$slow" || fail "port $slow is still in use"
holds result/result.json 'r.trials[0].status === "done" && r.trials[0].requests.ok === 100'
folder=result/$(json result/result.json 'r.trials[0].folder')
json "$folder/trial.json" r >got
json result/result.json 'r.trials[0]' >expected
cmp expected got || fail "the finished trial's trial.json differs from result.json"
printf 'ok: %s killed in %s: status %s\n' "$victim" "$phase" "$status"
