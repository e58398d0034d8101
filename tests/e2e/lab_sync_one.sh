#!/bin/sh
# lab_sync_one.sh N: a run in which the N-th fsync of the coordinator fails; 0: none does, and how many
# there are is told. lab_disk.sh runs them all.
. "$(dirname -- "$0")/lib.sh"
mkdir tmp
TMPDIR=$LS_TMP/tmp
export TMPDIR
{
    plan_head sync 1
    cat <<PLAN
targets:
  - name: responder
    command: ["$agent", respond, --listen, "{host}:{port}", --die-with-parent]
    port: $(free_port)
workloads:
  - name: w
    http: {requests: [{path: /}]}
    connections: 2
    load: {closed: {requests: 50}}
    warmup: 0s
    measure: 30s
schedule: {repetitions: 2}
PLAN
} >plan.yaml
code=0
LD_PRELOAD=$LS_BUILD/tests/support/libls_fail_sync.so LS_FAIL_SYNC=$1 LS_SYNC_LOG=$LS_TMP/syncs \
    "$lockstep" run plan.yaml --json --out result >out 2>err || code=$?
syncs=$(($(wc -c <syncs)))
if [ "$1" -eq 0 ]; then
    case $code in 0 | 4) ;; *) fail "status $code" ;; esac
    echo "syncs $syncs"
    exit 0
fi
# How many there are depends on how many reports a slow machine makes; the first ones always are.
if [ "$syncs" -lt "$1" ]; then
    [ "$1" -gt 10 ] || fail "there are only $syncs calls of fsync"
    case $code in 0 | 4) exit 0 ;; *) fail "status $code, though no fsync failed" ;; esac
fi

# Never a success, always a sentence that says why; what was finished before is whole, and readable.
case $code in 2 | 3) ;; *) show err && fail "status $code, though fsync $1 failed" ;; esac
says err 'Input/output error'
holds out "r.exit_status === $code && r.error.includes('Input/output error')"
if [ -e result/result.json ]; then
    holds result/result.json 'r.trials.every((t) => t.status !== "done" || t.requests.ok === 50)'
    json result/result.json 'r.trials.map((t) => t.folder).filter((f) => f.length > 0).join("\n")' >folders
    while read -r folder; do
        [ -z "$folder" ] || [ -s "result/$folder/trial.json" ] || fail "there is no $folder"
    done <folders
    expect 0 "$lockstep" report result
fi
nothing_left
