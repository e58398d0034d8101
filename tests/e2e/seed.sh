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

# Each probe of a search, and each search, has arrivals of its own, and they are the seed's as well.
start responder "$agent" respond --die-with-parent
wait_until 10 grep -q '^listening on' responder.log
port=$(sed -n 's/^listening on .*:\([0-9]*\)$/\1/p' responder.log)
cat >search.yaml <<PLAN
name: search
targets:
  - {name: responder, host: 127.0.0.1, port: $port, external: true}
workloads:
  - name: hello
    connections: 8
    http: {requests: [{path: /}]}
    warmup: 100ms
    load: {capacity: {limits: {p99: 200ms}, start: 2k/s, most: 2k/s, budget: 24s, probe: 1s, longest_probe: 1s, confirm: 1s}}
schedule: {repetitions: 2, seed: 7}
PLAN
for folder in first again; do
    expect '0 4' "$lockstep" run search.yaml --out "$folder" --json
    seen=$(json out "r.trials.map((t) => t.capacity.probes.map((p) =>
        JSON.parse(require('fs').readFileSync('$folder/' + p.folder + '/trial.json')).requests.scheduled).join(' ')).join(' | ')")
    [ "$folder" = first ] || same 'arrivals of the same seed' "$of_first" "$seen"
    of_first=$seen
done
[ "${seen% | *}" != "${seen#* | }" ] || fail "two searches had the same arrivals: $seen"
