#!/bin/sh
# A disk that fails or is full, under the coordinator's result and under an agent's folder: never a
# success, always a sentence; the next trial goes on where it can. (A full disk under the result is in
# result_folder.sh.)
. "$(dirname -- "$0")/lib.sh"
. "$(dirname -- "$0")/together.sh"
need node

# ---- fsync fails, here and there; LS_E2E_LONG: everywhere
together lab_sync_one.sh 0
all_ended
syncs=$(sed -n 's/^syncs //p' lab_sync_one.sh-0-.log)
[ "$syncs" -ge 20 ] || fail "only $syncs calls of fsync"
step=$((syncs / 6))
[ -z "${LS_E2E_LONG:-}" ] || step=1
n=1
while [ "$n" -lt "$syncs" ]; do
    together lab_sync_one.sh "$n"
    n=$((n + step))
    [ $((n / step % 3)) -ne 0 ] || all_ended
done
together lab_sync_one.sh "$syncs"
all_ended

# ---- an agent has no room for what its target needs; the coordinator's disk is fine
mkdir tmp
head -c 3000000 /dev/zero >big.bin
echo small >small.txt
{
    plan_head room 1
    cat <<PLAN
targets:
  - name: large
    files: [big.bin]
    command: ["$agent", respond, --listen, "{host}:{port}", --die-with-parent]
    port: $(free_port)
  - name: small
    files: [small.txt]
    command: ["$agent", respond, --listen, "{host}:{port}", --die-with-parent]
    port: $(free_port)
workloads:
  - name: w
    http: {requests: [{path: /}]}
    connections: 2
    load: {closed: {requests: 50}}
    warmup: 0s
    measure: 30s
schedule: {repetitions: 1, order: sequential}
PLAN
} >plan.yaml
cat >room.sh <<'ROOM'
mount -t tmpfs -o size=1m none tmp || exit 77
TMPDIR=$PWD/tmp "$@"
ROOM
code=0
unshare --mount sh room.sh "$lockstep" run plan.yaml --json --out result >out 2>err || code=$?
case $code in 1 | 77) skip 'the rest needs a right to mount' ;; esac
[ "$code" -eq 3 ] || show err
same status 3 "$code"
says err 'No space left on device'
holds out 'r.trials.length === 2 && r.trials[0].status === "failed" && r.trials[0].verdict === "invalid" &&
    r.trials[0].reasons.some((x) => x.text.includes("big.bin") && x.text.includes("No space left on device"))'
holds out 'r.trials[1].status === "done" && r.trials[1].requests.ok === 50'
nothing_left
