#!/bin/sh
# Agents whose monotonic clocks have nothing to do with the coordinator's (time namespaces), with
# datagrams and without: their offsets are found, the truth is within the bound that is published,
# and all begin at one instant.
# shellcheck disable=SC2016 # scripts for other shells, JavaScript
. "$(dirname -- "$0")/lib.sh"
need node unshare ip nft
# With older kernels only what is forked afterwards has the other clock.
[ "$(unshare --time --boottime 99000000 sh -c 'read -r up rest </proc/uptime; echo "${up%%.*}"' 2>/dev/null || echo 0)" -ge 99000000 ] ||
    skip 'a program cannot be begun in a time namespace here'

cat >agent.sh <<AGENT
#!/bin/sh
# client-1 came up three days before this machine, client-2 an hour: as far as their clocks say.
case "\$*" in
*'--name client-1 '*) set -- --monotonic 259200 --boottime 259200 -- "$agent" "\$@" ;;
*'--name client-2 '*) set -- --monotonic 3600 --boottime 3600 -- "$agent" "\$@" ;;
*) exec "$agent" "\$@" ;;
esac
exec unshare --time "\$@"
AGENT
chmod +x agent.sh
LOCKSTEP_AGENT=$LS_TMP/agent.sh
export LOCKSTEP_AGENT
{
    plan_head clocks 2
    cat <<PLAN
targets:
  - name: responder
    command: ["$agent", respond, --listen, "{host}:{port}", --die-with-parent]
    port: $(free_port)
workloads:
  - name: w
    http: {requests: [{path: /}]}
    connections: 4
    load: {constant: {rate: 200/s}}
    warmup: 200ms
    measure: 1200ms
    interval: 200ms
schedule: {repetitions: 2}
PLAN
} | sed 's/allow_overlap: true}/&, max_start_skew: 10s/' >plan.yaml

# The difference is exact: the kernel adds it to one and the same clock.
check() {
    expect '0 4' "$lockstep" run plan.yaml --json --out "result-$1"
    books_balance out
    holds out 'r.trials.length === 2 && r.trials.every((t) => t.status === "done" && t.requests.ok === 240)'
    holds out '["server", "client-1", "client-2"].every((name, i) => {
        const clock = r.hosts.find((host) => host.agent === name).clock;
        const truth = [0, 259200, 3600][i] * 1e9;
        return Math.abs(clock.offset_ns - truth) <= clock.error_ns && clock.error_ns < 1e9 &&
               clock.exchanges >= 32 && clock.steps === 0 && Math.abs(clock.wall_offset_ns) < 1e9 + clock.error_ns;
    })'
    # On our clock everything is where it belongs: a start near the agreed one, whole intervals.
    holds out 'r.trials.every((t) => t.window.start_skew_ns < 1e10 &&
        t.clients.every((c) => Math.abs(c.start_offset_ns) < 1e10 && c.start_offset_error_ns < 1e9) &&
        t.intervals.every((x) => x.at_ns > -1.3e9 && x.at_ns < 2.3e9))'
    json out 'r.hosts.map((h) => `${h.agent} ${h.clock.source} +- ${h.clock.error_ns} ns`).join("\n") + "\n" +
        r.trials.map((t) => `trial ${t.index}: skew ${t.window.start_skew_ns} +- ${t.window.start_skew_error_ns} ns`).join("\n")'
}
# By which of its exchanges a clock is known best is chance on a busy machine: of a few runs one has to show
# that datagrams are at least for one the better ones.
by_udp=false
for try in 1 2 3 4 5 6; do
    check "udp-$try"
    by_udp=$(json out 'r.hosts.some((host) => host.clock.source === "udp")')
    [ "$by_udp" = false ] || break
done
same 'clocks known by datagrams' true "$by_udp"

# The same where UDP does not pass.
cat >without.sh <<WITHOUT
ip link set lo up
nft add table inet no_udp
nft add chain inet no_udp input '{ type filter hook input priority 0; }'
nft add rule inet no_udp input meta l4proto udp drop
exec "\$@"
WITHOUT
real=$lockstep
lockstep() { unshare --net sh -e without.sh "$real" "$@"; }
lockstep=lockstep
check session
holds out 'r.hosts.every((host) => host.clock.source === "session")'
nothing_left
