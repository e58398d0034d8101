#!/bin/sh
# A search for a capacity goes from probe to probe, each a trial with its folder; what it says follows
# from what its probes saw. How large the rate is, is the machine's business, not this test's.
. "$(dirname -- "$0")/lib.sh"
need node

start responder "$agent" respond --die-with-parent
wait_until 60 grep -q '^listening on' responder.log
port=$(sed -n 's/^listening on .*:\([0-9]*\)$/\1/p' responder.log)
cat >plan.yaml <<PLAN
name: searched
targets:
  - {name: responder, host: 127.0.0.1, port: $port, external: true}
workloads:
  - name: hello
    connections: 8
    http: {requests: [{path: /}]}
    warmup: 100ms
    load:
      capacity: {limits: {p99: 200ms}, start: 500/s, most: 2k/s, budget: 60s, probe: 1s, longest_probe: 1s, confirm: 1s}
schedule: {repetitions: 1, seed: 7}
PLAN
expect 0 "$lockstep" check plan.yaml
says out 'capacity within p99 200ms, errors 0.1%'

# 2,000 requests a second do not bring this server anywhere near 200 ms: the limits hold at all rates
# that were allowed, which is said, and is no capacity.
expect "0 4" "$lockstep" run plan.yaml --out result --json
holds out 'r.trials.length === 1 && r.trials[0].load.startsWith("capacity within p99 200ms")'
holds out '(c => c.probes.length >= 3 && c.probes.every((p) => p.rate_per_s <= 2000 && p.window_ns >= 1e9))(r.trials[0].capacity)'
holds out '(c => c.limits.join() === "p99 200ms,errors 0.1%" && c.why.length > 0 && !c.settled)(r.trials[0].capacity)'
holds out '(c => c.probes[0].kind === "bracket" && c.probes[0].rate_per_s === 500)(r.trials[0].capacity)'
holds out '(c => c.rate_per_s <= 2000 && c.low_per_s <= c.rate_per_s)(r.trials[0].capacity)'
holds out 'r.trials[0].reasons.some((x) => x.code.startsWith("capacity_"))'
holds out "r.trials[0].capacity.probes.every((p) => require('fs').existsSync('result/' + p.folder + '/merged.hlog'))"
holds out 'r.trials[0].capacity.server === "external" && r.trials[0].capacity.limited_why.length > 0'
holds out '(n => n.path === "loopback" && n.connections === 8 && n.round_trip_min_ns > 0 &&
    n.round_trip_p50_ns >= n.round_trip_min_ns && n.share_of_latency > 0)(r.trials[0].network)'
expect 0 "$lockstep" report result
says out 'Probes: responder'
says out 'Over loopback'
says out 'network (loopback): round trip'

# A limit that nothing can meet is said, with its figure; here by all clients, as the plan wants it.
sed 's/p99: 200ms/p99: 1us/; s|start: 500/s|start: 400/s, least: 200/s, hosts: all|
    s/^targets:/fleet: {clients: 2, cpus: {allow_overlap: true}}\n&/' plan.yaml >never.yaml
expect 4 "$lockstep" run never.yaml --out never --json
holds out '(c => c.clients === 2 && c.probes.every((p) => p.clients.join() === "client-1,client-2"))(r.trials[0].capacity)'
holds out 'r.trials[0].capacity.rate_per_s === 0 && r.trials[0].reasons.some((x) => x.code.startsWith("capacity_"))'

# A ladder: the one server of the queue gives 500 answers a second, to however many connections.
start queue "$agent" respond --queue constant:2ms --die-with-parent
wait_until 60 grep -q '^listening on' queue.log
port=$(sed -n 's/^listening on .*:\([0-9]*\)$/\1/p' queue.log)
cat >ladder.yaml <<PLAN
name: ladder
targets:
  - {name: queue, host: 127.0.0.1, port: $port, external: true}
workloads:
  - name: hello
    connections: 8
    http: {requests: [{path: /}]}
    warmup: 100ms
    load: {ladder: {each: 500ms, passes: 1}}
schedule: {repetitions: 1, seed: 7}
PLAN
expect 0 "$lockstep" check ladder.yaml
says out 'ladder of 1 to 8 connections, 4 rungs, 1 passes'
expect "0 4" "$lockstep" run ladder.yaml --out ladder --json
holds out 'r.trials.length === 1 && r.trials[0].ladder.rungs.map((x) => x.connections).join() === "1,2,4,8"'
holds out 'r.trials[0].ladder.rungs.every((x) => x.throughput_per_s > 0 && x.throughput_per_s < 520 && x.p99_ns >= 2e6)'
holds out 'r.trials[0].throughput_per_s === Math.max(...r.trials[0].ladder.rungs.map((x) => x.throughput_per_s))'
holds out "r.trials[0].ladder.rungs.every((x) => require('fs').existsSync('ladder/' + x.folder + '/merged.hlog'))"
expect 0 "$lockstep" report ladder
says out 'Ladder: queue'

expect 0 "$lockstep" verify result
expect 0 "$lockstep" verify ladder

# forged FOLDER FIGURE CHANGE: what follows from probes and rungs follows from them again, whatever
# the file says of its one trial's search or ladder.
# shellcheck disable=SC2016 # for node
forged() {
    cp "$1/result.json" whole.json
    node -e '
        const fs = require("fs");
        const [file, change] = process.argv.slice(1);
        const r = JSON.parse(fs.readFileSync(file));
        const { capacity, ladder } = r.trials[0];
        eval(change);
        fs.writeFileSync(file, JSON.stringify(r));
    ' "$1/result.json" "$3"
    expect 4 "$lockstep" verify "$1" --figures-only --json
    mv whole.json "$1/result.json"
    holds out "r.differences.some((d) => d.figure.endsWith('$2') && d.text.length > 10)"
}
forged result capacity.low_per_s 'capacity.low_per_s += 1'
forged result capacity.settled 'capacity.settled = !capacity.settled'
forged result capacity.why 'capacity.why = "it is so"'
forged result 'probes[1].finding' 'capacity.probes[1].finding = capacity.probes[1].finding === "breaks" ? "holds" : "breaks"'
forged result 'probes[0].share_error' 'capacity.probes[0].share_error += 0.5'
forged result .capacity 'delete capacity.settings'
# Rungs that a busy machine has made useless may be too many for them.
[ "$(json ladder/result.json '!r.trials[0].ladder.scalability')" = true ] ||
    forged ladder ladder.scalability.contention 'ladder.scalability.contention += 0.01'
[ "$(json ladder/result.json '!r.trials[0].ladder.knee')" = true ] ||
    forged ladder ladder.knee.bend 'ladder.knee.bend += 0.01'

# One server for all probes: only the first of them had to make it ready, and it is ended with the run.
# One of two clients is enough.
cat >settled.yaml <<PLAN
name: settled
fleet: {clients: 2, cpus: {allow_overlap: true}, max_start_skew: 1s}
targets:
  - name: queue
    command: ["$agent", respond, --queue, "constant:1ms", --listen, "{host}:{port}", --die-with-parent]
    port: $(free_port)
workloads:
  - name: hello
    connections: 8
    http: {requests: [{path: /}]}
    warmup: 100ms
    load:
      capacity: {limits: {p90: 500ms}, start: 200/s, most: 500/s, budget: 60s, probe: 1s, longest_probe: 1s,
                 confirm: 1s, server: settled, settle: 100ms}
schedule: {repetitions: 1, seed: 7}
PLAN
expect "0 4" "$lockstep" run settled.yaml --out settled --json
holds out 'r.trials[0].capacity.server === "settled" && r.trials[0].capacity.probes.length >= 2'
holds out '(c => c.clients === 2 && c.probes[0].clients.join() === "client-1" && c.probes.every((p, i) => i === 0 ||
    p.clients.length === 1 || c.probes.slice(0, i).some((x) => x.limited_by === "client")))(r.trials[0].capacity)'
holds out '(t => t.every((x, i) => (x.server.readiness_requests > 0) === (i === 0) && x.server.exit === ""))(
    r.trials[0].capacity.probes.map((p) => JSON.parse(require("fs").readFileSync("settled/" + p.folder + "/trial.json"))))'
expect 0 "$lockstep" verify settled

# Beyond the capacity, with time for it: 1.5 times what the queue can do is too much for it, and half is not.
if [ -n "${LS_E2E_LONG:-}" ]; then
    sed 's/most: 500.s, budget: 60s/budget: 70s, profile: true, profile_step: 1s/; s/p90: 500ms/p90: 100ms/; s/constant:1ms/constant:2ms/' \
        settled.yaml >profile.yaml
    expect "0 4" "$lockstep" run profile.yaml --out profile --json
    holds out '(p => p.steps.length === 9 && p.bursts.length === 5 && p.why === "")(r.trials[0].capacity.profile)'
    holds out '(p => p.steps[0].share < 0.05 && p.steps[4].share > 0.5 && p.steps[8].down)(r.trials[0].capacity.profile)'
    expect 0 "$lockstep" report profile
    says out 'overload at'
    says out 'hysteresis:'
    says out 'bursts of 250 ms'
fi
