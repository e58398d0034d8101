#!/bin/sh
# Client hosts whose CPU is rationed cannot offer what the server takes. Where there is another one it is
# taken as well, and only then; where there is none, the answer is "at least N, limited by the client",
# exit status 4, and what to do about it. With LS_E2E_LONG=1, which takes six minutes, also that doing so
# helps: two such hosts find the capacity that one without a ration finds. The server is the responder's
# queue, so that its capacity is known, and it is set by what one rationed host can do. Bodies are large,
# so that this is little: what else the machine does matters less then, as it does for a p90.
# shellcheck disable=SC2016 # JavaScript
. "$(dirname -- "$0")/lib.sh"
. "$(dirname -- "$0")/lab_lib.sh"

# 3 % of a CPU, in pieces that stand still for less than a limit's quarter. So many connections that most
# of them can wait for whom is slower.
quota=1000
period=33000
limit=200ms
confirm=2s
groups=/sys/fs/cgroup/cpu
[ -d "$groups" ] || skip 'no CPU control group of version 1 here'

# Groups of this case that was killed, by the process that made them: lockstep-e2e-PID-BEGAN-HOST.
for group in "$groups"/lockstep-e2e-*; do
    maker=${group#"$groups"/lockstep-e2e-}
    since=${maker#*-}
    [ "$(began "${maker%%-*}")" = "${since%%-*}" ] || rmdir "$group" 2>/dev/null || :
done
mine=$groups/lockstep-e2e-$$-$(began $$)

# Whether none is there any more; one that an agent is still in stays.
no_groups() {
    rmdir "$mine"-* 2>/dev/null || :
    set -- "$mine"-*
    [ ! -e "$1" ]
}

# However it ends; agents may live then, and take a moment to die.
give_groups_back() {
    tries=0
    until no_groups || [ "$tries" -ge 200 ]; do
        tries=$((tries + 1))
        grep -hvx 0 "$mine"-*/cgroup.procs 2>/dev/null | xargs -r kill -9 2>/dev/null || :
        sleep 0.05
    done
}
trap give_groups_back EXIT

has_agent() {
    test -n "$(agent_of "$1")"
}

# ration HOST: its agent, from now on; in a group of its own, which is empty when the agent has ended.
ration() {
    wait_until 30 has_agent "$1"
    group=$mine-$1
    mkdir "$group" 2>/dev/null || skip 'control groups are not ours to make'
    echo "$period" >"$group/cpu.cfs_period_us" 2>/dev/null || skip 'no CPU quota here'
    echo "$quota" >"$group/cpu.cfs_quota_us" 2>/dev/null || skip 'no CPU quota here'
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
    command: ["$agent", respond, --queue, "constant:$3", --body-bytes, 65536, --listen, "{host}:{port}", --die-with-parent]
    port: $(free_port)
workloads:
  - name: w
    http: {requests: [{path: /}]}
    connections: 256
    pacing: frugal
    warmup: 300ms
    load:
      capacity: {limits: {p90: $limit}, arrivals: constant, start: $4/s, budget: $5, probe: 1s, confirm: $confirm}
schedule: {repetitions: 1, seed: 5}
PLAN
    rm -rf result
    begin
    run_ends 0 4
    cp out "$1.json"
    json "$1.json" '(c => `'"$1"': ${c.rate_per_s.toFixed(0)}/s (${c.low_per_s.toFixed(0)} to ${c.high_per_s.toFixed(0)}) ` +
        `by ${c.clients_used}, limited by ${c.limited_by} (${c.limited_why}), settled ${c.settled} after ${(c.took_ns / 1e9).toFixed(0)} s: ${c.why}` +
        c.probes.map((p) => `\n  ${p.kind} ${p.rate_per_s.toFixed(0)}/s by ${p.clients.length}: ${p.finding}, ${p.limited_by}`).join(""))(
        r.trials[0].capacity)'
}

# at_least NAME: what is said of a search that met its clients' limit.
at_least() {
    same 'exit status' 4 "$code"
    holds "$1.json" '(c => c.limited_by === "client" && !c.settled && c.rate_per_s > 0 && c.high_per_s === 0)(r.trials[0].capacity)'
    holds "$1.json" 'r.trials[0].reasons.some((x) => x.code === "capacity_client_limited" && /at least/.test(x.text) &&
        /fleet\.clients/.test(x.text))'
}

# Two of them are not enough for a server of 100,000/s, and the second is taken when the first is at its limit.
# What a busy machine leaves them of their ration may not do for the first rate, or be another thing with each
# probe: a search that came upon that is made again, from another rate.
lab_up 2 1
ration client-1
ration client-2
for start in 600 300 150 600 300 150; do
    search both 2 10us "$start" 30s
    [ "$(json both.json '(c => c.limited_by === "client" && c.rate_per_s > 0 && c.clients_used === 2)(
        r.trials[0].capacity)')" = false ] || break
done
at_least both
holds both.json '(c => c.clients === 2 && c.clients_used === 2)(r.trials[0].capacity)'
holds both.json '(p => p[0].clients.join() === "client-1" && p.every((x, i) => i === 0 || x.clients.length === 1 ||
    p.slice(0, i).some((y) => y.clients.length === 1 && y.limited_by === "client")))(r.trials[0].capacity.probes)'
holds both.json 'r.trials[0].network.path === "same host"'
expect 0 "$lockstep" report result --format markdown
says out 'capacity at least'
says out 'offered by 2 of 2 clients'
expect 0 "$lockstep" verify result

if [ -n "${LS_E2E_LONG:-}" ]; then
    confirm=4s # an overload by a tenth is behind by the limit after two
    search weak 1 10us 600 60s
    at_least weak

    # A server of 1.3 times what one can offer, so that two of them have work for 0.65 each.
    weak=$(json weak.json 'Math.round(r.trials[0].capacity.rate_per_s)')
    truth=$((weak * 13 / 10))
    service=$((1000000000 / truth))ns
    search one 1 "$service" "$((weak / 3))" 60s
    at_least one
    search two 2 "$service" "$((weak / 3))" 90s
    lab agents stop
    lab agents start
    search strong 2 "$service" "$((weak / 3))" 90s
    same 'clients that were strong enough' 1 "$(json strong.json r.trials[0].capacity.clients_used)"
    same 'clients that were not' 2 "$(json two.json r.trials[0].capacity.clients_used)"
    for name in two strong; do
        holds "$name.json" "Math.abs(r.trials[0].capacity.rate_per_s / $truth - 1) < 0.1"
        holds "$name.json" 'r.trials[0].capacity.limited_by !== "client"'
    done
fi
lab down
wait_until 20 no_groups
nothing_left
