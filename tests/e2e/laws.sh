#!/bin/sh
# Every arrival law, think times and lifetimes against a responder: what was scheduled is what the law
# says, what was sent is what the server has received, connection by connection where it matters.
. "$(dirname -- "$0")/lib.sh"
need node

port=$(free_port)
printf '# a rate for each part\nseconds,rate\n0,1000\n0.2, 3000\n0.4 500\n' >rates.csv
{
    plan_head laws 2
    cat <<PLAN
targets:
  - name: responder
    command: ["$agent", respond, --listen, "{host}:{port}", --die-with-parent]
    version: ["$agent", --version]
    port: $port
workloads:
PLAN
    # workload NAME LOAD MORE...
    workload() {
        printf '  - name: %s\n    http: {requests: [{path: /}]}\n    load: %s\n' "$1" "$2"
        printf '    warmup: 200ms\n'
        shift 2
        for line in "$@"; do
            printf '    %s\n' "$line"
        done
    }
    workload poisson '{poisson: {rate: 2k/s}}' 'measure: 600ms'
    workload frugal '{poisson: {rate: 2k/s}}' 'measure: 600ms' 'pacing: frugal'
    workload ramp '{ramp: {from: 500/s, to: 3500/s}}' 'measure: 600ms'
    workload steps '{steps: {rates: [1k/s, 0/s, 2k/s], each: 200ms}}'
    workload trace '{trace: {file: rates.csv, scale: 2}}' 'measure: 600ms'
    workload waves '{waves: {size: 20}}' 'measure: 300ms'
    workload counted_waves '{waves: {size: 20, requests: 4010}}' 'measure: 20s'
    workload think '{closed: {}}' 'measure: 600ms' 'connections: 40' 'think: {mean: 20ms}'
    workload once '{closed: {requests: 500}}' 'measure: 20s' 'connections: 8' \
        'lifetime: {requests: 1}'
    workload aged '{constant: {rate: 1k/s}}' 'measure: 600ms' 'connections: 8' \
        'lifetime: {requests: 50, time: 100ms}'
    printf 'schedule: {repetitions: 1, seed: 7}\n'
} >plan.yaml

status=0
"$lockstep" run plan.yaml --out result --json >out 2>err || status=$?
# What a crowded machine makes of the figures is not this test's business; its books are.
[ "$status" -eq 0 ] || [ "$status" -eq 4 ] || {
    show err out
    fail "status $status"
}
same 'trials' 10 "$(json out 'r.trials.length')"
books_balance out

trial=0
while [ "$trial" -lt 10 ]; do
    folder=result/$(json out "r.trials[$trial].folder")
    grep '^{' "$folder/target.log" | tail -n 1 >counts.json
    sent=$(json out "(t => t.server.readiness_requests + t.preflight.requests.sent +
                           t.warmup.requests.sent + t.requests.sent)(r.trials[$trial])")
    same "trial $((trial + 1)): requests sent and received" "$sent" "$(json counts.json r.requests)"
    holds counts.json 'r.bad_requests === 0 && r.requests === r.responses + r.unanswered'
    cp counts.json "counts-$(json out "r.trials[$trial].workload").json"
    trial=$((trial + 1))
done

# of WORKLOAD EXPRESSION: it is true of the trial t.
of() {
    holds out "(t => $2)(r.trials.find((t) => t.workload === \"$1\"))"
}
# Integrals of the rates, which begin anew with each window.
of ramp 't.requests.scheduled >= 1199 && t.requests.scheduled <= 1201'
of ramp 't.warmup.requests.scheduled === 100 && t.offered_per_s === 2000'
of steps 't.requests.scheduled === 600 && t.warmup.requests.scheduled === 200'
of trace 't.requests.scheduled === 1800 && t.warmup.requests.scheduled === 400'
of poisson 't.requests.scheduled > 1000 && t.requests.scheduled < 1400'
holds out '(([a, b]) => a === b && a > 0)(["poisson", "frugal"].map((name) =>
    r.trials.find((t) => t.workload === name).requests.scheduled))'
of poisson 't.pacing === "precise"'
of frugal 't.pacing === "frugal" && t.clients.every((c) => c.cpu.spin_ns === 0)'
of waves 't.requests.scheduled % 10 === 0 && t.requests.scheduled > 0 && t.connections.asked === 20'
of counted_waves 't.requests.scheduled === 4010'
# 40 connections, a request at most every 20 ms of each.
of think 't.requests.sent > 0 && t.requests.sent <= 40 * 31'
of once 't.requests.sent === 500 && t.connections.retired >= 500 && t.connections.reopened === 0'
of aged 't.connections.retired >= 16 && t.connections.reopened === 0'
# A connection for each request, and those of readiness and preflight.
holds counts-once.json 'r.connections >= r.requests - 20'
nothing_left
port_is_free "$port" || fail "port $port is still in use"
