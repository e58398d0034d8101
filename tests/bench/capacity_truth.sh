#!/bin/sh
# Searches for capacities that are known by formula, against the responder's queue: M/M/1, M/D/1 and a
# hard ceiling (arrivals and services as even as can be), once for each seed.
#
#   sh tests/bench/capacity_truth.sh [--seeds N] [--budget TIME] [--rate PER_S] [--jobs N] [--only mm1|md1|dd1] [--out DIR]
#
# Prints a Markdown table: how many searches came within 3 % of the truth, how often the interval that
# they state held it, and how many said that they were settled. The server has the first CPU that this
# process may use, the client the second; with something else on them, p99 is theirs. The limit is 50
# service times, so with a --rate of some hundreds it is far above what a shared machine does to a
# request, and --jobs searches can run at the same time; --budget has to grow as the rate falls.
# LOCKSTEP_BUILD names a build folder to use instead of building the release.
# shellcheck disable=SC2016,SC2030,SC2031 # JavaScript; a search has a $work of its own
. "$(dirname -- "$0")/capacity_lib.sh"

seeds=20
budget=3m
rate=4000
jobs=1
only='mm1 md1 dd1'
options 'seeds budget rate jobs only' "$@"
begin_work

# one NAME SERVICE ARRIVALS SEED: $work/NAME-SEED.json, and a line about it; in a folder of its own.
one() (
    work=$work/$1-$4
    mkdir -p "$work"
    start "$work/responder.log" "$agent" respond --queue "$2" --seed "$4" --die-with-parent
    until grep -q '^listening on' "$work/responder.log" 2>/dev/null; do sleep 0.05; done
    port=$(sed -n 's/^listening on .*:\([0-9]*\)$/\1/p' "$work/responder.log")
    cat >"$work/plan.yaml" <<PLAN
name: $1
fleet: {servers: 0, cpus: {client: "$client_cpu"}}
targets: [{name: $1, host: 127.0.0.1, port: $port, external: true}]
workloads:
  - name: w
    connections: 64
    http: {requests: [{path: /}]}
    pacing: frugal
    warmup: ${warmup_ms}ms
    load: {capacity: {limits: {p99: ${limit_us}us}, arrivals: $3, start: $((rate / 3))/s, budget: $budget}}
schedule: {repetitions: 1, seed: $4}
PLAN
    search found
    stop
    mv "$work/found.json" "$work.json"
    printf '%s %s of %s: %s\n' "$1" "$4" "$seeds" "$(node -e '
        const c = JSON.parse(require("fs").readFileSync(process.argv[1])).trials[0].capacity;
        console.log(`${c.rate_per_s.toFixed(1)} (${c.low_per_s.toFixed(1)} to ${c.high_per_s.toFixed(1)})` +
            ` settled ${c.settled} in ${(c.took_ns / 1e9).toFixed(0)} s: ${c.why}`)' "$work.json")" >&2
)

service_ns=$((1000000000 / rate))
limit_us=$((50 * service_ns / 1000))
warmup_ms=$((2000 * service_ns / 1000000)) # until a queue that was empty is as long as it gets
running=0
for seed in $(seq "$seeds"); do
    for kind in $only; do
        case $kind in
        mm1) one mm1 "exponential:${service_ns}ns" poisson "$seed" & ;;
        md1) one md1 "constant:${service_ns}ns" poisson "$seed" & ;;
        dd1) one dd1 "constant:${service_ns}ns" constant "$seed" & ;;
        esac
        running=$((running + 1))
        [ $((running % jobs)) -ne 0 ] || wait
    done
done
wait

node - "$work" "$rate" "$limit_us" "$seeds" "$only" <<'SCRIPT'
const fs = require('fs');
const [work, rate, limitUs, seeds, only] = process.argv.slice(2);
const mu = Number(rate), limit = Number(limitUs) / 1e6;

// M/D/1: P(W <= t) by the queue's length at an arrival (Franx, 2001); response time is W + D.
function within(lambda) {
    const d = 1 / mu, wait = limit - d, rho = lambda * d, n = 400;
    const a = [Math.exp(-rho)], p = [1 - rho], queue = [];
    for (let i = 1; i < n; i++) a[i] = a[i - 1] * rho / i;
    for (let i = 0; i + 1 < n; i++) {
        let rest = p[i] - p[0] * a[i];
        for (let k = 1; k <= i; k++) rest -= p[k] * a[i - k + 1];
        p[i + 1] = rest / a[0];
    }
    let sum = p[0];
    for (let m = 0; m + 1 < n; m++) { sum += p[m + 1]; queue[m] = sum; }
    const k = Math.floor(wait / d) + 1, x = lambda * (k * d - wait);
    let term = Math.exp(-x), total = 0;
    for (let j = 0; j < k; j++) { total += queue[k - 1 - j] * term; term *= x / (j + 1); }
    return total;
}
function md1() {
    let low = 0, high = mu;
    for (let i = 0; i < 60; i++) { const mid = (low + high) / 2; if (within(mid) >= 0.99) low = mid; else high = mid; }
    return low;
}
const truths = { mm1: mu - Math.log(100) / limit, md1: md1(), dd1: mu };
const names = { mm1: 'M/M/1', md1: 'M/D/1', dd1: 'hard ceiling' };
console.log(`| server of ${mu}/s, p99 ${(limit * 1e3).toFixed(1)} ms | truth | found, median | largest error | within 3 % | interval holds the truth | settled | seconds |`);
console.log('| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |');
for (const name of only.split(' ')) {
    const truth = truths[name], all = [];
    for (let seed = 1; seed <= Number(seeds); seed++) {
        try {
            all.push(JSON.parse(fs.readFileSync(`${work}/${name}-${seed}.json`)).trials[0].capacity);
        } catch { /* a run that did not end counts as one that found nothing */ }
    }
    const rates = all.map((c) => c.rate_per_s).sort((x, y) => x - y);
    const errors = rates.map((r) => Math.abs(r / truth - 1));
    const of = (test) => `${all.filter(test).length} of ${seeds}`;
    console.log(`| ${names[name]} | ${truth.toFixed(1)} | ${(rates[rates.length >> 1] ?? 0).toFixed(1)} | ` +
        `${(100 * Math.max(...errors)).toFixed(1)} % | ${of((c) => Math.abs(c.rate_per_s / truth - 1) <= 0.03)} | ` +
        `${of((c) => c.low_per_s <= truth && (truth <= c.high_per_s || c.high_per_s === 0))} | ${of((c) => c.settled)} | ` +
        `${Math.max(...all.map((c) => c.took_ns / 1e9)).toFixed(0)} |`);
}
SCRIPT
