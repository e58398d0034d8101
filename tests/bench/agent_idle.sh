#!/bin/sh
# What an agent costs that has nothing to do: from start to enrolled, memory, CPU and wake-ups, over TLS, as a
# release. Prints a line for each, wake-ups also by the name of the thread (nng:... are nng's own), and how many
# of them the heartbeats and clock exchanges account for that there were meanwhile.
#
#   sh tests/bench/agent_idle.sh [SECONDS]          of watching (30)
#
# LS_BUILD is the build folder. Runs in a network namespace of its own, whose counters are of nobody else.
set -eu

if [ -z "${LS_IDLE_INSIDE:-}" ]; then
    LS_IDLE_INSIDE=1
    export LS_IDLE_INSIDE
    [ "$(id -u)" -eq 0 ] || exec unshare --map-root-user --net sh "$0" "$@"
    exec unshare --net sh "$0" "$@"
fi
ip link set lo up
root=$(CDPATH='' cd -- "$(dirname -- "$0")/../.." && pwd)
build=${LS_BUILD:-$root/build/release}
seconds=${1:-30}
work=$(mktemp -d)
agent=
coordinator=
clean_up() {
    [ -z "$agent" ] || kill "$agent" 2>/dev/null || :
    [ -z "$coordinator" ] || kill "$coordinator" 2>/dev/null || :
    wait
    rm -rf "$work"
}
trap clean_up EXIT
trap 'exit 130' INT TERM HUP
cd "$work"
{
    "$build/coordinator/lockstep" pki init
    "$build/coordinator/lockstep" pki issue coordinator main --host 127.0.0.1
    "$build/coordinator/lockstep" pki issue agent idle
} >/dev/null 2>&1
cat >plan.yaml <<'PLAN'
name: idle
fleet: {clients: 2}
targets: [{name: nobody, external: true, host: 127.0.0.1, port: 9}]
workloads: [{name: w, http: {requests: [{path: /}]}, measure: 1s}]
PLAN

# It waits for two, and there will be one.
"$build/coordinator/lockstep" run plan.yaml --listen tls+tcp://127.0.0.1:0 --keys pki/issued/coordinator-main \
    --wait 1h --out result >/dev/null 2>coordinator.log &
coordinator=$!
until url=$(sed -n 's/.*waiting for agents at \(tls[^ ]*\).*/\1/p' coordinator.log 2>/dev/null) && [ -n "$url" ]; do sleep 0.05; done

now_ms() { echo $(($(date +%s%N) / 1000000)); }
begin() {
    "$build/agent/lockstep-agent" --dial "$url" --keys pki/issued/agent-idle >agent.log 2>&1 &
    agent=$!
}
times=
for round in 1 2 3 4 5 6 7 8 9; do
    : >agent.log
    from=$(now_ms)
    begin
    until grep -q agent.enrolled agent.log; do sleep 0.005; done
    times="$times $(($(now_ms) - from))"
    [ "$round" -eq 9 ] || {
        kill "$agent"
        wait "$agent" || :
    }
done
echo "start to enrolled, ms, nine times (looked at each 5 ms):$times"

# All threads': clock ticks of CPU, voluntary switches, each of which is a wake-up; and how many there are.
counters() {
    cat "/proc/$agent"/task/*/stat | sed 's/.*) //' | awk '{ ticks += $12 + $13 } END { printf "%d ", ticks }'
    cat "/proc/$agent"/task/*/status | awk '/^voluntary_ctxt/ { n += $2; threads++ } END { print n, threads }'
}
# Messages from and to the coordinator, each of them a segment, and datagrams of both: an exchange is two.
traffic() {
    ss -tniH "dport = :${url##*:}" | sed -n 's/.*data_segs_out:\([0-9]*\) data_segs_in:\([0-9]*\).*/in \2\nout \1/p'
    awk '$1 == "Udp:" && $2 + 0 > 0 { print "exchanges", $2 / 2 }' /proc/net/snmp
}
by_name() {
    for task in "/proc/$agent"/task/*; do
        printf '%s\t%s\n' "$(cat "$task/comm")" "$(sed -n 's/^voluntary_ctxt_switches:[[:space:]]*//p' "$task/status")"
    done | awk -F '\t' '{ n[$1] += $2 } END { for (name in n) printf "%s\t%d\n", name, n[name] }'
}
# kib FILE FIELD...: their sum.
kib() {
    file=/proc/$agent/$1
    shift
    awk -v fields=" $* " 'index(fields, " " $1 " ") { n += $2 } END { printf "%d", n }' "$file"
}
watch() {
    sleep 3
    counters >before
    by_name >names_before
    traffic >traffic_before
    sleep "$seconds"
    counters >after
    by_name >names_after
    traffic >traffic_after
    echo "$1: RSS $(kib status VmRSS:) KiB, PSS $(kib smaps_rollup Pss:) KiB, of its own $(kib smaps_rollup Private_Clean: Private_Dirty:) KiB;" \
        "$(paste before after | awk -v s="$seconds" -v hz="$(getconf CLK_TCK)" '{
            printf "CPU %.1f ms/s; %.1f wake-ups a second; %d threads", 1000 * ($4 - $1) / hz / s, ($5 - $2) / s, $3 }')"
    awk -F '\t' -v s="$seconds" 'NR == FNR { before[$1] = $2; next }
        $2 > before[$1] { printf "    %-16s %.2f\n", $1, ($2 - before[$1]) / s }' names_before names_after
}
# Nothing wakes the control thread more than once: a heartbeat that comes, one that is due, a clock exchange. Two that
# fall together wake it once: below 0, that is what there was more of than of anything else.
account_for() {
    awk '{ side = FILENAME ~ /before/ ? -1 : 1; n[$1] += side * $2 } END { for (what in n) print what, n[what] }' \
        traffic_before traffic_after >happened
    awk -F '[\t ]' -v s="$seconds" '
        FILENAME == "happened" { n[$1] = $2; next }
        { wakes[$1 ~ /^nng:/ ? "nng" : "own"] += (FILENAME ~ /before/ ? -1 : 1) * $2 }
        END {
            beyond = wakes["own"] - n["in"] - n["out"] - n["exchanges"]
            printf "    of heartbeats: %.2f received, %.2f sent a second; clock exchanges in datagrams: %.2f\n",
                n["in"] / s, n["out"] / s, n["exchanges"] / s
            printf "    beyond these the agent itself woke up %.2f times a second; nng %.1f times for each message\n",
                beyond / s, wakes["nng"] / (n["in"] + n["out"])
        }' happened names_before names_after
}
watch enrolled
account_for
kill "$coordinator"
wait "$coordinator" || :
coordinator=
watch 'nobody to dial'
