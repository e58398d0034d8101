#!/bin/sh
# A server of exactly known latency, frozen 1 s of every 10, under a constant rate: what is published
# is what it did. A generator that is kept from its CPU is called invalid; a slow server is not.
. "$(dirname -- "$0")/lib.sh"
need node

# 40 s hold exactly four freezes, evenly met by the arrivals: a tenth of the requests, of which each
# waits for what is left of the freeze. p90 is the border, and not looked at. Measured times are for a
# quiet machine, and so on request only; tests/agent/test_engine_truth.c is the same on invented time.
if [ "${LS_TRUTH_LONG:-0}" = 1 ]; then
    start frozen "$agent" respond --latency constant:1ms --stall 10s:1s --die-with-parent
    wait_until 60 grep -q '^listening on' frozen.log
    port=$(sed -n 's/^listening on .*:\([0-9]*\)$/\1/p' frozen.log)
    expect "0 4" "$lockstep" bench "http://127.0.0.1:$port/" -c 256 -t 1 -R 200/s -d 40s \
        --timeout 10s --json
    books_balance out
    holds out 'r.trials[0].requests.ok === 8000'
    json out '(t => ["p50_ns", "p99_ns", "p999_ns", "max_ns"].map((k) =>
        k + " " + t.response_time[k] / 1e6 + " ms").join(", "))(r.trials[0])'
    # The machine's own delays are on top, so only what they cannot explain is a failure: the send
    # lag and the responder's lateness, both measured, bound them.
    cat >check.js <<'JS'
const t = JSON.parse(require("fs").readFileSync("out", "utf8")).trials[0];
const truth = { p50_ns: 1e6, p99_ns: 901e6, p999_ns: 991e6 };
const slack = 0.3e6 + t.send_lag.p99_ns;
for (const [name, ns] of Object.entries(truth)) {
    const off = t.response_time[name] - ns;
    if (off < -Math.max(ns * 0.005, 0.3e6) || off > Math.max(ns * 0.005, slack)) {
        console.error(`${name}: ${t.response_time[name]} ns, not ${ns}`);
        process.exit(1);
    }
}
JS
    node check.js || {
        summary out
        fail 'what was measured is not what the server did'
    }
fi

# A generator that is stopped half of the time, in an open and in a closed loop.
start slow "$agent" respond --latency constant:20ms --die-with-parent
wait_until 60 grep -q '^listening on' slow.log
port=$(sed -n 's/^listening on .*:\([0-9]*\)$/\1/p' slow.log)
for load in '-R 500/s' ''; do
    # shellcheck disable=SC2086 # words
    "$lockstep" bench "http://127.0.0.1:$port/" -c 32 -t 1 $load -d 4s --json >out 2>err &
    bench=$!
    wait_until 60 pgrep -P "$bench" lockstep-agent
    victim=$(pgrep -P "$bench" lockstep-agent)
    while kill -STOP "$victim" 2>/dev/null; do
        sleep 0.15
        kill -CONT "$victim" 2>/dev/null || break
        sleep 0.15
    done
    status=0
    wait "$bench" || status=$?
    same "status of a generator that was stopped half of the time ($load)" 4 "$status"
    holds out 'r.trials[0].reasons.some((x) => x.verdict === "invalid" &&
        ["generator_stalled", "send_lag", "generator_limited", "not_achieved"].includes(x.code))'
    holds out 'r.trials[0].clients[0].cpu.stalled > 0.2'
done

# The same server, slow as it is, does not make the generator suspect. What others do to this machine
# may, so some runs are allowed, of which one has to be quiet.
for try in 1 2 3 4 5 6 7 8 9 10 11 12; do
    expect "0 4" "$lockstep" bench "http://127.0.0.1:$port/" -c 32 -t 1 -d 2s --json
    holds out 'r.trials[0].service_time.p50_ns > 19e6'
    holds out '!r.trials[0].reasons.some((x) => x.code === "generator_limited" ||
        x.code === "not_achieved")'
    [ "$(json out 'r.exit_status')" = 4 ] || exit 0
done
summary out
fail "a slow server was called invalid $try times"
