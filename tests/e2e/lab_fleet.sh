#!/bin/sh
# One plan, unchanged, on this machine and in a lab of four client hosts and two server hosts: all
# trials are done, their books balance, what was sent has arrived, the merged histogram is that of the
# union, and each start is told with its skew and bound. LS_E2E_LONG=1: fifty trials in the lab.
# shellcheck disable=SC2016 # JavaScript
. "$(dirname -- "$0")/lib.sh"
. "$(dirname -- "$0")/lab_lib.sh"

rounds=1
[ -z "${LS_E2E_LONG:-}" ] || rounds=25

# check_trials FOLDER TRIALS: of the document in ./out. What a crowded machine does to figures is no
# business of this case; everything else would be.
check_trials() {
    holds out "r.status === 'complete' && r.trials.length === $2 && r.trials.every((t) => t.status === 'done')"
    books_balance out
    holds out 'r.trials.every((t) => t.requests.ok === 200 && t.clients.length === 4 &&
        t.clients.every((c) => c.requests.ok === 50 && !c.lost && c.start_offset_error_ns > 0))'
    holds out 'r.trials.every((t) => !t.reasons.some((x) => ["bad_report", "books", "interval_sums", "agent_lost",
        "target_died", "no_requests", "wrong_responses", "warmup_errors", "connections_short", "connect_errors",
        "clock_step", "start_skew", "littles_law", "clipped", "shed", "not_measured"].includes(x.code)))'
    holds out 'r.trials.every((t) => t.window.start_skew_ns >= 0 && t.window.start_skew_error_ns > 0)'
    trial=0
    while [ "$trial" -lt "$2" ]; do
        folder=$1/$(json out "r.trials[$trial].folder")
        grep '^{' "$folder/target.log" | tail -n 1 >counts.json
        same "trial $trial: sent and received" "$(json out "(t => t.server.readiness_requests +
            t.preflight.requests.sent + t.warmup.requests.sent + t.requests.sent)(r.trials[$trial])")" \
            "$(json counts.json r.requests)"
        if [ -d "${LS_NODE_MODULES:-}/hdr-histogram-js" ]; then
            node "$LS_SOURCE/tests/support/hlog.mjs" sum "$folder"/client-*.hlog -- "$folder/merged.hlog" >stats ||
                fail "trial $trial: the clients' histograms do not add up to the merged one"
        fi
        trial=$((trial + 1))
    done
    # For whoever reads the log.
    json out '(() => { const worst = r.trials.map((t) => (t.window.start_skew_ns + t.window.start_skew_error_ns) / 1e3)
            .sort((a, b) => a - b);
        const at = (q) => worst[Math.min(worst.length - 1, Math.floor(q * worst.length))].toFixed(0);
        const inherent = ["shared_cores", "foreign_cpu"], cpus = '"$(nproc)"';
        const verdicts = (v) => r.trials.filter((t) => t.verdict === v).length;
        return r.trials.map((t) => `trial ${t.index}: start skew ${(t.window.start_skew_ns / 1e3).toFixed(0)} us +- ` +
                `${(t.window.start_skew_error_ns / 1e3).toFixed(0)} us`).join("\n") +
            `\nskew with its bound: median ${at(0.5)} us, p99 ${at(0.99)} us, worst ${at(1)} us; ` +
            `${verdicts("valid")} valid, ${verdicts("suspect")} suspect, ${verdicts("invalid")} invalid\n` +
            `${r.trials.filter((t) => t.reasons.every((x) => inherent.includes(x.code))).length} have no reason but ` +
                `${inherent.join(" and ")}, which are those of fewer CPUs (${cpus}) than agents (${r.hosts.length})\n` +
            Object.entries(r.trials.flatMap((t) => [...new Map(t.reasons.map((x) => [x.code, x])).values()])
                .reduce((all, x) => ({ ...all, [x.code]: { n: (all[x.code]?.n ?? 0) + 1, text: x.text } }), {}))
                .sort((a, b) => b[1].n - a[1].n)
                .map(([code, x]) => `${x.n} of ${r.trials.length} trials: ${code}, as in: ${x.text}\n`).join("") +
            r.hosts.map((h) => `${h.agent} at ${h.address}: clock +- ${h.clock.error_ns} ns by ${h.clock.source}`).join("\n");
    })()'
}

lab_plan 4 1s 'servers: 2'
target=$(sed -n '/^targets:/,/^workloads:/p' plan.yaml | sed '1d; $d')
second=$(printf '%s\n' "$target" | sed "s/name: responder/name: second/; s/port: .*/port: $(free_port)/")
{
    sed '/^targets:/,$d' plan.yaml
    printf 'targets:\n%s\n    server: server-1\n%s\n    server: server-2\n' "$target" "$second"
    sed -n '/^workloads:/,$p' plan.yaml
} | sed 's/max_start_skew: 10s/max_start_skew: 1s/' >two.yaml
mv two.yaml plan.yaml
expect '0 4' "$lockstep" run plan.yaml --json --out here
check_trials here 2

lab_up 4 2
sed -i "s/repetitions: 1/repetitions: $rounds/" plan.yaml
begin
run_ends 0 4
check_trials result $((2 * rounds))
holds out 'r.hosts.filter((h) => h.role === "client").map((h) => h.address).sort().join() ===
    "10.111.1.1,10.111.1.2,10.111.1.3,10.111.1.4"'
# By which of its exchanges a clock is known best is chance on a busy machine.
try=1
until [ "$(json out 'r.hosts.some((h) => h.clock.source === "udp")')" = true ]; do
    [ "$try" -lt 6 ] || fail 'no clock is known by datagrams'
    try=$((try + 1))
    rm -rf result
    begin
    run_ends 0 4
done
expect 0 "$lockstep" report result
says out 'start skew'
only_agents client-1 client-2 client-3 client-4 server-1 server-2

# A loopback address is another host for each of them: refused by name, before anything is started.
sed -i 's/^    port: /    host: 127.0.0.1\n    port: /' plan.yaml
expect 2 lab run plan.yaml --json --out nowhere
holds out 'r.trials.length === 0 && /would be loaded at 127.0.0.1, which agent .* takes for its own host: give the address/.test(r.error)'

lab down
nothing_left
