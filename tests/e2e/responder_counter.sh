#!/bin/sh
# What Lockstep says it has sent is what the server has received, request by request: readiness,
# preflight, warm-up and measurement together, in closed and in open loop, by one client and by two.
. "$(dirname -- "$0")/lib.sh"
need node

port=$(free_port)
{
    plan_head counted 2
    cat <<PLAN
targets:
  - name: responder
    command: ["$agent", respond, --listen, "{host}:{port}", --die-with-parent]
    version: ["$agent", --version]
    port: $port
workloads:
  - name: closed
    http:
      requests:
        - {path: /a, expect: {status: 200, body: "Hello, World!"}}
        - {method: POST, path: /b, body: "some words", expect: {body: "Hello, World!"}}
        - {method: HEAD, path: /c}
    connections: 10
    warmup: 200ms
    measure: 500ms
  - name: fixed
    http: {requests: [{path: /}]}
    connections: 8
    load: {closed: {requests: 5000}}
    warmup: 100ms
    measure: 20s
  - name: open
    http: {requests: [{path: /, expect: {body: "Hello, World!"}}]}
    connections: 16
    load: {constant: {rate: 2000/s}}
    warmup: 200ms
    measure: 500ms
schedule: {repetitions: 2}
PLAN
} >plan.yaml

status=0
"$lockstep" run plan.yaml --out result --json >out 2>err || status=$?
# What a crowded machine makes of the figures is not this test's business; its books are.
[ "$status" -eq 0 ] || [ "$status" -eq 4 ] || {
    show err out
    fail "status $status"
}
same 'trials' 6 "$(json out 'r.trials.length')"
books_balance out

trial=0
while [ "$trial" -lt 6 ]; do
    folder=result/$(json out "r.trials[$trial].folder")
    grep '^{' "$folder/target.log" | tail -n 1 >counts.json
    sent=$(json out "(t => t.server.readiness_requests + t.preflight.requests.sent +
                           t.warmup.requests.sent + t.requests.sent)(r.trials[$trial])")
    same "trial $((trial + 1)): requests sent and received" "$sent" "$(json counts.json r.requests)"
    holds counts.json 'r.bad_requests === 0 && r.requests === r.responses + r.unanswered'
    trial=$((trial + 1))
done
holds out 'r.trials.filter((t) => t.workload === "fixed").every((t) => t.requests.sent === 5000)'
nothing_left
port_is_free "$port" || fail "port $port is still in use"
