#!/bin/sh
# Descriptors or memory run out, here and there: it is said which, whose and what to do, before the
# load if that can be known; the next trial goes on.
# shellcheck disable=SC3045 # every sh of Debian knows ulimit -n and -v
. "$(dirname -- "$0")/lib.sh"
need node

mkdir tmp
TMPDIR=$LS_TMP/tmp
export TMPDIR
cat >agent.sh <<AGENT
#!/bin/sh
case "\$*" in *"--name \$LIMIT_WHO "*) ulimit \$LIMIT ;; esac
exec "$agent" "\$@"
AGENT
chmod +x agent.sh
LOCKSTEP_AGENT=$LS_TMP/agent.sh
export LOCKSTEP_AGENT

# plan CONNECTIONS PIPELINE: of the first of two workloads.
plan() {
    plan_head limits 2
    cat <<PLAN
targets:
  - name: responder
    command: ["$agent", respond, --listen, "{host}:{port}", --die-with-parent]
    port: $(free_port)
workloads:
  - name: large
    http: {requests: [{path: /}], pipeline: $2}
    connections: $1
    load: {closed: {requests: 50}}
    warmup: 0s
    measure: 30s
  - name: small
    http: {requests: [{path: /}]}
    connections: 4
    load: {closed: {requests: 50}}
    warmup: 0s
    measure: 30s
schedule: {repetitions: 1, order: sequential}
PLAN
}

# limited WHO LIMIT STATUS TEXT: a run in which that one has the limit.
limited() {
    rm -rf result
    code=0
    LIMIT_WHO=$1 LIMIT=$2 "$lockstep" run plan.yaml --json --out result >out 2>err || code=$?
    [ "$code" -eq "$3" ] || show err
    same "status, $1 with ulimit $2" "$3" "$code"
    says err "$4"
    holds out "r.exit_status === $3"
    nothing_left
}

# ---- descriptors
plan 400 1 >plan.yaml
limited client-1 '-n 150' 3 'client-1'
holds out 'r.trials[0].status === "failed" && r.trials[0].reasons.some((x) => x.text.includes("may have 150") &&
    x.text.includes("ulimit -n")) && r.trials[1].status === "done" && r.trials[1].requests.ok === 50'
limited server '-n 16' 3 'Too many open files'
holds out 'r.trials.length === 2 && r.trials.every((t) => t.status === "failed")'
limited client-2 '-n 4' 3 'agent client-2 has ended'
rm -rf result
code=0
(ulimit -n 20 && exec "$lockstep" run plan.yaml --json --out result) >out 2>err || code=$?
same 'status of a coordinator without descriptors' 2 "$code"
says err 'needs 49 file descriptors, this process may have 20'
holds out 'r.exit_status === 2 && r.trials.length === 0'
nothing_left

# ---- memory
plan 4000 1000 >plan.yaml
limited client-1 '-v 250000' 3 'no memory for'
holds out 'r.trials[0].status === "failed" && r.trials[0].reasons.some((x) => x.text.includes("no memory for")) &&
    r.trials[1].status === "done" && r.trials[1].requests.ok === 50'

# A target that wants more than there is.
cat >greedy.mjs <<'GREEDY'
const kept = [];
(await import("node:http")).createServer((request, answer) => {
    if (request.url === "/more") kept.push(new Array(200000).fill(request.url + kept.length));
    answer.end("here");
}).listen(Number(process.argv[2]), process.argv[3]);
GREEDY
unset LOCKSTEP_AGENT
{
    plan_head greedy 1
    cat <<PLAN
targets:
  - name: greedy
    files: [greedy.mjs]
    command: [node, --max-old-space-size=30, greedy.mjs, "{port}", "{host}"]
    port: $(free_port)
    ready: {request: {path: /}}
workloads:
  - name: w
    http: {requests: [{path: /more}]}
    connections: 2
    load: {constant: {rate: 100/s}}
    warmup: 0s
    measure: 60s
schedule: {repetitions: 1}
PLAN
} >plan.yaml
rm -rf result
code=0
"$lockstep" run plan.yaml --json --out result >out 2>err || code=$?
same 'status when the target had no memory left' 4 "$code"
holds out '(t => t.verdict === "invalid" && !t.server.stopped_by_us && t.reasons.some((x) => x.text.includes("heap out of memory")))(r.trials[0])'
says "result/$(json out 'r.trials[0].folder')/target.log" 'heap out of memory'
nothing_left
