#!/bin/sh
# A client host whose CPU is rationed cannot offer what the server takes: the answer is "at least N,
# limited by the client", exit status 4, and what to do about it. Doing that helps: two such hosts find
# the capacity that one without a ration finds. The server is the responder's queue, so that its
# capacity is known, and it is set by what the rationed client can do. With LS_E2E_LONG=1 alone: it takes
# five minutes of a quiet machine.
# shellcheck disable=SC2016 # JavaScript
. "$(dirname -- "$0")/lib.sh"
[ -n "${LS_E2E_LONG:-}" ] || skip 'LS_E2E_LONG=1 runs it'
. "$(dirname -- "$0")/lab_lib.sh"

# 3 % of a CPU, in pieces that stand still for less than a limit's quarter: 150 ms.
quota=1000
period=33000
groups=/sys/fs/cgroup/cpu/lockstep-e2e-$$
[ -d /sys/fs/cgroup/cpu ] || skip 'no CPU control group of version 1 here'
trap 'rmdir "$groups"-* 2>/dev/null || :' EXIT

# ration HOST: its agent, from now on; in a group of its own, which is empty when the agent has ended.
ration() {
    group=$groups-$1
    mkdir "$group" 2>/dev/null || skip 'control groups are not ours to make'
    echo "$period" >"$group/cpu.cfs_period_us" 2>/dev/null || skip 'no CPU quota here'
    echo "$quota" >"$group/cpu.cfs_quota_us" 2>/dev/null || skip 'no CPU quota here'
    wait_until 10 test -n "$(agent_of "$1")"
    agent_of "$1" >"$group/cgroup.procs"
}

# search NAME CLIENTS SERVICE START BUDGET: ./NAME.json
search() {
    cat >plan.yaml <<PLAN
name: $1
fleet:
  clients: $2
  cpus: {allow_overlap: true}
  max_start_skew: 10s
  agents: [{name: client-1}$([ "$2" -lt 2 ] || printf ', {name: client-2}')]
targets:
  - name: queue
    command: ["$agent", respond, --queue, "constant:$3", --listen, "{host}:{port}", --die-with-parent]
    port: $(free_port)
workloads:
  - name: w
    http: {requests: [{path: /, expect: {body: "Hello, World!"}}]}
    connections: 64
    pacing: frugal
    warmup: 300ms
    load:
      capacity: {limits: {p99: 150ms}, arrivals: constant, start: $4/s, budget: $5, probe: 1s, confirm: 2s}
schedule: {repetitions: 1, seed: 5}
PLAN
    rm -rf result
    begin
    run_ends 0 4
    cp out "$1.json"
    json "$1.json" '(c => `'"$1"': ${c.rate_per_s.toFixed(0)}/s (${c.low_per_s.toFixed(0)} to ${c.high_per_s.toFixed(0)}), ` +
        `limited by ${c.limited_by} (${c.limited_why}), settled ${c.settled}: ${c.why}`)(r.trials[0].capacity)'
}

lab_up 2 1
ration client-1
search weak 1 10us 10000 60s
same 'exit status' 4 "$code"
holds weak.json 'r.trials[0].capacity.limited_by === "client" && !r.trials[0].capacity.settled'
holds weak.json 'r.trials[0].capacity.high_per_s === 0 && r.trials[0].capacity.rate_per_s < 10000'
holds weak.json 'r.trials[0].reasons.some((x) => x.code === "capacity_client_limited" && /at least/.test(x.text) &&
    /fleet\.clients/.test(x.text))'
holds weak.json 'r.trials[0].network.path === "same host"'
expect 0 "$lockstep" report result --format markdown
says out 'capacity at least'

# A server of 1.25 times what it can offer, so that two of them have work for 0.63 each.
weak=$(json weak.json 'Math.round(r.trials[0].capacity.rate_per_s)')
truth=$((weak * 5 / 4))
service=$((1000000000 / truth))ns
search one 1 "$service" "$((weak / 3))" 60s
holds one.json 'r.trials[0].capacity.limited_by === "client"'
ration client-2
search two 2 "$service" "$((weak / 3))" 90s
lab agents stop
lab agents start
search strong 1 "$service" "$((weak / 3))" 90s
for name in two strong; do
    holds "$name.json" "Math.abs(r.trials[0].capacity.rate_per_s / $truth - 1) < 0.05"
    holds "$name.json" 'r.trials[0].capacity.limited_by !== "client"'
done
lab down
nothing_left
