#!/bin/sh
# lab_target_one.sh WHAT: the target of two clients in a lab is killed, frozen or cut off while it is
# measured. lab_target.sh runs them all.
# shellcheck disable=SC2016 # JavaScript
. "$(dirname -- "$0")/lib.sh"
. "$(dirname -- "$0")/lab_lib.sh"

lab_up 2 1
case $1 in
kill | crash) lab_plan 2 60s ;;
*) lab_plan 2 6s ;;
esac
case $1 in
cut | reject) sed -i 's/timeout: 20s/timeout: 1s/' plan.yaml ;;
esac
begin
reaches client-2 measure
sleep 0.5
target=$(lab processes server-1 | awk '/ respond / { print $1; exit }')
[ -n "$target" ] || fail 'there is no target'

case $1 in
kill)
    kill -9 "$target"
    run_ends 4
    holds out '(t => t.verdict === "invalid" && t.server.exit === "signal KILL" && !t.server.stopped_by_us &&
        t.reasons.some((x) => x.text.includes("signal KILL")))(r.trials[0])'
    ;;
crash)
    # The host of the target, and with it the agent there.
    lab crash server-1
    run_ends 3
    holds out '(t => t.verdict === "invalid" && t.status === "failed" &&
        t.reasons.some((x) => x.code === "agent_lost" && x.text.includes("server-1")))(r.trials[0])'
    says err server-1
    ;;
freeze)
    kill -STOP "$target"
    sleep 3
    kill -CONT "$target"
    run_ends 0 4
    # Nothing is lost, and the standstill is in the latency of all that was due meanwhile.
    holds out '(t => t.status === "done" && t.requests.ok === 1200 && t.response_time.max_ns > 2.5e9 &&
        t.response_time.p75_ns > 1e8)(r.trials[0])'
    tap_equals 0
    ;;
cut)
    # From one client alone; the other measures on, and the server agent sees nothing wrong.
    lab cut client-1 server-1
    sleep 3
    lab heal
    run_ends 4
    holds out '(t => t.status === "done" && t.verdict === "invalid" && t.clients[1].requests.ok === 600 &&
        t.clients[0].requests.timeout > 0 && t.clients.every((c) => !c.lost) &&
        t.reasons.some((x) => x.code === "wrong_responses" && x.text.includes("timeout")))(r.trials[0])'
    ;;
reject)
    lab cut --reject client-1 server-1
    sleep 3
    lab heal
    run_ends 4
    holds out '(t => t.status === "done" && t.verdict === "invalid" && t.clients[1].requests.ok === 600 &&
        t.clients[0].requests.ok < 600 && t.clients[0].connections.failed > 0 &&
        t.clients[0].connections.failures.some((x) => x.name === "ECONNREFUSED"))(r.trials[0])'
    ;;
esac
books_balance out
wait_until 30 only_agents client-1 client-2
[ "$1" = crash ] || wait_until 30 only_agents server-1
# Who is gone for good with its process namespace has no successor to sweep up behind it: the lab does.
spaces=$(sed -n 's/.*\[\([0-9]*\)\]$/\1/p' lab/hosts/*.pid)
lab down
for space in $spaces; do
    same "control groups of namespace $space" '' "$(find /sys/fs/cgroup -type d -name "lockstep-$space-*" 2>/dev/null)"
done
nothing_left
