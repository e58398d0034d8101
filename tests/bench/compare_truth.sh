#!/bin/sh
# Is `lockstep compare` to be believed? Real runs, most of them of the same thing.
#
#   sh tests/bench/compare_truth.sh [PAIRS] [REPETITIONS]     200 pairs out of 60 + 60 trials, unless given
#
# One plan is run once: two responders of known latency, 1 ms and 1.05 ms, closed loop, trials of 2 s,
# interleaved. Each 0.2 s of a trial is a run of its own here: ten a trial. Of them come pairs of results:
#
#   a/a    both sides from the same responder: any finding is a false alarm. 5 % of the comparisons may
#          have one, for that is the level of all tests of a comparison together.
#   a/b    one side from each: 5 % less throughput is true. Found in at least 80 %, at the number of
#          runs that compare itself asks for (runs_needed of the a/a pairs before).
#
# The sides are drawn without replacement from all runs, as interleaved repetitions are, so that what
# the machine does in the meantime is the same for both; the last line says what becomes of it when one
# side is all before the other. LS_RESULT=DIR asks about a run of this plan that was made before. Prints a table, and fails if a limit is missed. Takes three to
# four seconds a trial.
set -eu

pairs=${1:-200}
repetitions=${2:-60}
root=$(CDPATH='' cd -- "$(dirname -- "$0")/../.." && pwd)
build=${LS_BUILD:-$root/build/release}
lockstep=$build/coordinator/lockstep
agent=$build/agent/lockstep-agent
[ -x "$lockstep" ] || sh "$root/deploy/build.sh" release lockstep lockstep-agent
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
trap 'exit 130' INT TERM

cat >"$tmp/plan.yaml" <<PLAN
name: compare-truth
fleet: {clients: 1, servers: 1, cpus: {server: auto, client: auto, allow_overlap: true}}
targets:
  - name: first
    command: ["$agent", respond, --listen, "{host}:{port}", --latency, "constant:1ms", --die-with-parent]
    port: 18394
  - name: second
    command: ["$agent", respond, --listen, "{host}:{port}", --latency, "constant:1.05ms", --die-with-parent]
    port: 18395
workloads:
  - name: load
    http: {requests: [{path: /}]}
    connections: 8
    load: {closed: {}}
    warmup: 100ms
    measure: 2s
    interval: 100ms
    timeout: 1s
schedule: {repetitions: $repetitions, order: interleaved}
PLAN
if [ -n "${LS_RESULT:-}" ]; then
    ln -s "$(CDPATH='' cd -- "$LS_RESULT" && pwd)" "$tmp/result"
else
    "$lockstep" run "$tmp/plan.yaml" --quiet --json --out "$tmp/result" >/dev/null ||
        echo "compare_truth: not every trial was measured (status $?)" >&2
fi

exec_node() { node - "$@" <<'JS'
const fs = require("fs"), path = require("path");
const { spawnSync } = require("child_process");
const [lockstep, tmp, wanted] = process.argv.slice(2);
const pairs = Number(wanted);
const whole = JSON.parse(fs.readFileSync(path.join(tmp, "result/result.json"), "utf8"));
// All that was measured counts: the windows are too short for a verdict on them.
const trials = { first: [], second: [] };
for (const t of whole.trials) {
    const inside = t.intervals.filter((i) => i.at_ns >= 0 && i.at_ns + i.length_ns <= t.window.duration_ns);
    for (let i = 0; t.status === "done" && i + 1 < inside.length; i += 2) {
        const [x, y] = [inside[i], inside[i + 1]];
        trials[t.target].push({ ...t, server: null, clients: [], intervals: [], reasons: [],
            throughput_per_s: (x.completed + y.completed) * 1e9 / (x.length_ns + y.length_ns),
            service_time: { ...t.service_time, p50_ns: Math.round((x.p50_ns + y.p50_ns) / 2),
                            p99_ns: Math.max(x.p99_ns, y.p99_ns) } });
    }
}
let state = 12345; // the same pairs each time that the trials are the same
const random = (n) => { // xorshift32 (Marsaglia 2003)
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
    return Math.floor((state >>> 0) / 4294967296 * n);
};
const shuffled = (list) => {
    const out = [...list];
    for (let i = out.length - 1; i > 0; i--) {
        const k = random(i + 1);
        [out[i], out[k]] = [out[k], out[i]];
    }
    return out;
};
let made = 0;
const write = (list) => {
    const dir = path.join(tmp, `r${made++ % 2}`);
    fs.mkdirSync(dir, { recursive: true });
    const copy = list.map((t, i) => ({ ...t, target: "responder", verdict: "valid", repetition: i + 1 }));
    fs.writeFileSync(path.join(dir, "result.json"), JSON.stringify({ ...whole, trials: copy }));
    return dir;
};
const compare = (a, b) => {
    const ran = spawnSync(lockstep, ["compare", "--json", "--metric", "throughput_per_s", "--metric",
        "service_time_p50_ns", "--metric", "service_time_p99_ns", write(a), write(b)],
        { encoding: "utf8", maxBuffer: 1 << 26 });
    const got = JSON.parse(ran.stdout);
    if (got.status !== "compared") throw new Error(got.error);
    return got.comparisons[0].metrics;
};
const found = (metrics) => metrics.some((m) => m.finding === "better" || m.finding === "worse");
const share = (n, of) => (100 * n / of).toFixed(1) + " %";
// How many runs compare asks for, having seen ten a side.
let asked = [];
for (let i = 0; i < 20; i++) {
    const some = shuffled(trials.first);
    asked.push(compare(some.slice(0, 10), some.slice(10, 20)).find((m) => m.metric === "throughput_per_s").runs_needed);
}
asked.sort((a, b) => a - b);
const runs = asked[Math.floor(asked.length / 2)];
const limit = Math.floor(Math.min(trials.first.length, trials.second.length) / 2);
const n = Math.min(runs, limit);
let alarms = 0, hits = 0, sequential = 0, better = 0;
for (let i = 0; i < pairs; i++) {
    const some = shuffled(trials.first), other = shuffled(trials.second);
    alarms += found(compare(some.slice(0, n), some.slice(n, 2 * n)));
    const k = random(Math.max(1, trials.first.length - 2 * n));
    sequential += found(compare(trials.first.slice(k, k + n), trials.first.slice(k + n, k + 2 * n)));
    const judged = compare(some.slice(0, n), other.slice(0, n));
    const m = judged.find((one) => one.metric === "throughput_per_s");
    hits += m.finding === "worse";
    better += m.finding === "better";
}
console.log(`| ${trials.first.length} + ${trials.second.length} runs of 0.2 s, ${pairs} pairs of ${n} runs a side (asked for: ${runs}) | |`);
console.log("| --- | ---: |");
console.log(`| a/a, drawn at random: pairs with any finding | ${share(alarms, pairs)} |`);
console.log(`| a/b, 5 % less throughput: found | ${share(hits, pairs)} |`);
console.log(`| a/b: found, but the wrong way round | ${share(better, pairs)} |`);
console.log(`| a/a, one side all before the other: pairs with any finding | ${share(sequential, pairs)} |`);
// Of so many pairs at a level of 5 %, more than this come with a chance of 1 %.
const most = 0.05 * pairs + 2.33 * Math.sqrt(pairs * 0.05 * 0.95);
if (alarms > most || hits < 0.8 * pairs || n < runs) process.exit(1);
JS
}
exec_node "$lockstep" "$tmp" "$pairs"
