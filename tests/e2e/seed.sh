#!/bin/sh
# The same seed makes the same arrivals, whatever the number of agents that share them: what falls into
# each window is the same to the request. Another seed makes others.
. "$(dirname -- "$0")/lib.sh"
need node

# arrivals CLIENTS SEED: how many were scheduled in each warm-up and each window, as "301 598 ...".
arrivals() {
    port=$(free_port)
    {
        plan_head seed "$1"
        cat <<PLAN
targets:
  - name: responder
    command: ["$agent", respond, --listen, "{host}:{port}", --die-with-parent]
    version: ["$agent", --version]
    port: $port
workloads:
  - {name: a, http: {requests: [{}]}, load: {poisson: {rate: 1k/s}}, warmup: 300ms, measure: 500ms}
  - {name: b, http: {requests: [{}]}, load: {poisson: {rate: 7k/s}}, warmup: 300ms, measure: 500ms}
schedule: {repetitions: 1, seed: $2}
PLAN
    } >plan.yaml
    expect '0 4' "$lockstep" run plan.yaml --out "result-$1-$2" --json
    books_balance out
    holds out "r.trials.every((t) => t.clients.length === $1)"
    seen=$(json out 'r.trials.map((t) => t.warmup.requests.scheduled + " " + t.requests.scheduled).join(" ")')
}

arrivals 1 7
of_one=$seen
arrivals 2 7
same 'arrivals of two agents and of one' "$of_one" "$seen"
arrivals 3 7
same 'arrivals of three agents and of one' "$of_one" "$seen"
arrivals 2 8
[ "$seen" != "$of_one" ] || fail "seeds 7 and 8 make the same arrivals: $seen"
