#!/bin/sh
# Whole processes: timed, what they print and how they end compared with what is expected, and their
# own figures read. Targets that are not there are cells of their own. No client takes part.
. "$(dirname -- "$0")/lib.sh"
need node

mkdir tmp
TMPDIR=$LS_TMP/tmp
export TMPDIR

# plan TARGETS WORKLOADS: lists of YAML, the items of which begin with "- ".
plan() {
    {
        printf 'name: process\nschedule: {repetitions: 1}\ntargets:\n%s\nworkloads:\n%s\n' "$1" "$2"
    } >plan.yaml
    rm -rf result
}

# run STATUS: the plan ends so, and nothing is left of it.
run() {
    expect "$1" "$lockstep" run plan.yaml --out result --json
    nothing_left
    same 'folders left' '' "$(ls tmp)"
}

# Every run is in runs.csv, and the result is made of those that were measured.
plan '  - {name: hello, command: [/bin/echo, Hello]}' \
    '  - {name: w, process: {args: [World], runs: 7, warmup_runs: 2, expect: {output: "Hello World\n"}}}'
run 0
holds out 'r.hosts.every((host) => host.role === "server")'
holds out '(() => {
    const t = r.trials[0], p = t.process;
    const lines = fs.readFileSync("result/" + t.folder + "/runs.csv", "utf8").trim().split("\n");
    const names = lines.shift().split(",");
    const rows = lines.map((line) => Object.fromEntries(line.split(",").map((v, i) => [names[i], v])));
    const measured = rows.filter((row) => row.phase === "measure");
    const of = (name) => measured.map((row) => Number(row[name])).sort((a, b) => a - b);
    const agrees = (spread, name) => spread.n === 7 && spread.min === of(name)[0] &&
        spread.median === of(name)[3] && spread.max === of(name)[6] &&
        Math.abs(spread.mean - sum(of(name)) / 7) < 1e-6 * spread.mean + 1e-9;
    return t.outcome === "ran" && rows.length === 9 && measured.length === 7 && p.runs === 7 &&
        p.warmup_runs === 2 && agrees(p.wall_ns, "wall_ns") && agrees(p.user_ns, "user_ns") &&
        agrees(p.peak_bytes, "peak_bytes") && p.wall_ns.min > 0 && p.peak_bytes.min > 100000 &&
        p.outcomes.length === 1 && p.outcomes[0].outcome === "graceful" && p.outcomes[0].count === 7 &&
        r.summary.some((s) => s.metric === "wall_median_ns" && s.median === p.wall_ns.median);
})()'
expect 0 "$lockstep" report result
says out 'peak memory'
expect 0 "$lockstep" verify result

# says_metrics FILE LINE...: a script that prints these lines.
says_metrics() {
    file=$1
    shift
    printf 'cat <<LINES\n' >"$file"
    printf '%s\n' "$@" LINES >>"$file"
}
says_metrics one.sh '{"metric":"a","value":1}'
says_metrics nan.sh '{"metric":"a","value":NaN}'
says_metrics twice.sh '{"metric":"a","value":1}' '{"metric":"a","value":1}'
# shellcheck disable=SC2016 # the script's own number
says_metrics varies.sh '{"metric":"a","value":1,"checksum":"$$"}'

# What does not end, or print, as expected counts for nothing, and says why: of each line the second
# field is the workload, the others are the reason that it gets.
cat >refused <<'CASES'
runs_refused|args: ["echo Hello"], expect: {output: "Help\n"}|differs from what is expected at byte 3
runs_refused|args: ["echo Hello"], expect: {match: "^B"}|does not match
runs_refused|args: ["echo Hello"], expect: {sha256: 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08}|has SHA-256 66a045b452
runs_refused|args: ["echo oops; exit 3"]|it ended with non_zero (exit 3); it printed: oops
runs_refused|args: ["kill -SEGV $$"]|it ended with signal (signal SEGV)
runs_refused|args: ["sh one.sh"], files: [one.sh], metrics: [{name: a}, {name: b}]|did not print the metric b
runs_refused|args: ["sh nan.sh"], files: [nan.sh]|cannot be read
runs_refused|args: ["sh twice.sh"], files: [twice.sh]|printed the metric a twice
checksum_varies|args: ["sh varies.sh"], files: [varies.sh]|not the same checksum
runs_refused|args: ["echo DONE"], marker: READY|did not print the line
CASES
plan '  - {name: sh, command: [sh, -c]}' \
    "$(awk -F'|' '{ printf "  - {name: w%d, timeout: 10s, process: {runs: 2, %s}}\n", NR, $2 }' refused)"
run 4
n=0
while IFS='|' read -r code _ text; do
    holds out "r.trials[$n].verdict === 'invalid' &&
        r.trials[$n].reasons.some((reason) => reason.code === '$code' && reason.text.includes('$text'))"
    n=$((n + 1))
done <refused

# What it may end with is what the plan says; each is counted under its name. What is killed takes
# along what it has started, however it has got away.
cat >ends.sh <<'SH'
n=$(cat count 2>/dev/null || echo 0)
echo $((n + 1)) >count
case $n in
0) echo fine ;;
1) echo caught RangeError ;;
2) exit 3 ;;
3) kill -ABRT $$ ;;
*)
    setsid sh -c 'setsid sleep 1000 & sleep 1000' &
    sleep 1000
    ;;
esac
SH
plan '  - {name: sh, command: [sh]}' '  - name: w
    timeout: 2s
    process:
      args: [ends.sh]
      files: [ends.sh]
      runs: 5
      warmup_runs: 0
      expect: {handled: "^caught", outcomes: [graceful, handled, non_zero, signal, timeout]}'
run 0
holds out 'r.trials[0].process.outcomes.map((o) => o.outcome + " " + o.detail + " " + o.count).join(", ") ===
    "graceful exit 0 1, handled exit 0 1, non_zero exit 3 1, signal signal ABRT 1, timeout after 2 s 1"'
holds out 'r.trials[0].process.left_over >= 1'

# It reads its input, and prints more than anybody keeps: all of it is taken, and counted.
plan '  - {name: cat, command: [cat]}' '  - {name: w, process: {runs: 2, stdin: "from the plan\n", expect: {output: "from the plan\n"}}}'
run 0
plan '  - {name: sh, command: [sh, -c]}' '  - {name: w, process: {args: ["head -c 200000000 /dev/zero"], runs: 1, expect: {handled: caught}}}'
run 0
holds out 'fs.readFileSync("result/" + r.trials[0].folder + "/runs.csv", "utf8").includes(",200000000,")'

# A script says itself what it has measured, and what it has when it is at a line of its choice.
cat >script.mjs <<'JS'
const say = (line) => console.log(JSON.stringify(line));
const held = Buffer.alloc(64 << 20, 1);
console.log('not a figure');
say({ metric: 'sha256', value: 1.5, unit: 'ms', checksum: 'abc' });
say({ metric: 'ops', value: 2000, unit: '/s', better: 'higher' });
say({ metric: 'none', not_applicable: 'not here' });
console.log('READY');
setTimeout(() => held, 500); // time to look at what it holds
JS
plan '  - {name: node, command: [node]}
  - {name: other, command: [node], published: [{workload: w, metric: script/ops, value: 2500, unit: /s, source: a page, date: 2026-05-01}]}' \
    '  - {name: w, process: {args: [script.mjs], files: [script.mjs], runs: 2, marker: READY, metrics: [{name: sha256}, {name: ops}]}}'
run 0
holds out '(() => {
    const p = r.trials[0].process;
    const figure = (name) => p.metrics.find((m) => m.name === name);
    return figure("sha256").value.median === 1.5 && figure("sha256").better === "lower" &&
        figure("sha256").checksum === "abc" && figure("ops").better === "higher" &&
        figure("none").not_applicable === "not here" && p.marker_rss_bytes.min > 64 << 20 &&
        r.summary.some((s) => s.metric === "script/ops" && s.median === 2000) &&
        r.published[0].value === 2500;
})()'
expect 0 "$lockstep" report result --format markdown
says out '2500 /s'

# A program beside it is started before it, awaited, and stopped after it; one that does not come up
# ends the trial, and so does one that goes away.
port=$(free_port)
serve="'$agent', respond, --listen, '{host}:{port}', --die-with-parent"
cat >ask.mjs <<'JS'
console.log(await (await fetch(`http://127.0.0.1:${process.env.SERVICE}/`)).text());
JS
plan '  - {name: node, command: [node]}' "  - name: w
    services: [{name: web, command: [$serve], port: $port}]
    process: {args: [ask.mjs], files: [ask.mjs], env: {SERVICE: '$port'}, runs: 2, expect: {output: \"Hello, World!\n\"}}"
run 0
holds out 'r.trials[0].services.length === 1 && r.trials[0].services[0].name === "web" &&
    r.trials[0].services[0].stopped_by_us && r.trials[0].services[0].up_after_ns > 0'
port_is_free "$port" || fail "port $port is still in use"
# service COMMAND TIMEOUT TEXT: the trial ends with that service, and these words.
service() {
    other=$(free_port)
    plan '  - {name: "true", command: ["true"]}' "  - name: w
    services: [{name: web, command: [$serve], port: $port}, {name: bad, command: $1, port: $other, timeout: $2}]
    process: {runs: 2}"
    run 3
    holds out "r.trials[0].reasons[0].code === 'service' && r.trials[0].reasons[0].text.includes('$3')"
}
service '[sh, -c, "exit 5"]' 60s 'service bad: the target ended before it was ready: exit 5'
service '[sleep, "1000"]' 500ms 'service bad: it did not accept a connection'

# Two that should compute the same, and do not: the later one is refused.
sed 's/abc/xyz/' script.mjs >other.mjs
plan '  - {name: a, command: [node, script.mjs], files: [script.mjs]}
  - {name: b, command: [node, other.mjs], files: [other.mjs]}' \
    '  - {name: w, process: {runs: 1, warmup_runs: 0}}'
run 4
holds out 'r.trials[0].verdict !== "invalid" && r.trials[1].reasons[0].code === "checksum_differs"'

# Who is not there, or somebody else, is skipped with the reason; who is of another version runs, and
# is not ranked; what does not apply is said by the plan. None of this is a failure of the run.
unset LS_TEST_PROGRAM
plan '  - {name: absent, command: [no-such-program], probe: {}}
  - {name: unset, command: ["{program}"], program_variable: LS_TEST_PROGRAM, probe: {}}
  - {name: other, command: ["true"], probe: {command: [echo, "Another 1.0"], expect: "^Elide"}}
  - {name: hangs, command: ["true"], probe: {command: [sh, -c, "setsid sleep 1000 & sleep 1000"], timeout: 200ms}}
  - {name: newer, command: ["true"], version: [echo, "2.0"], probe: {expect: "^[0-9.]+$", version: "^1"}}
  - {name: unable, command: ["true"], not_applicable: [{workloads: [w], reason: has no arms}]}
  - {name: fine, command: ["true"], probe: {}}' \
    '  - {name: w, process: {runs: 2}}'
run 0
# A busy machine is a reason to be suspect.
holds out 'r.trials.map((t) => t.target + " " + t.outcome + " " + t.verdict.replace("suspect", "valid")).join(", ") ===
    "absent skipped none, unset skipped none, other skipped none, hangs skipped none, " +
    "newer version_differs valid, unable not_applicable none, fine ran valid"'
holds out '[0, 1, 2, 3, 4, 5].every((i) => r.trials[i].outcome_reason.includes(
    ["no-such-program", "LS_TEST_PROGRAM", "Another 1.0", "no end within 0.2 s", "2.0", "no arms"][i]))'
expect 0 "$lockstep" verify result
expect 0 "$lockstep" report result
says out '1 skipped'
says out 'n/a: has no arms'
LS_TEST_PROGRAM=true
export LS_TEST_PROGRAM
rm -rf result
expect 0 "$lockstep" run plan.yaml --out result --only unset --json
holds out 'r.trials[0].outcome === "ran"'
# Where nothing at all could be run, that is one.
rm -rf result
expect 3 "$lockstep" run plan.yaml --out result --only absent --json
holds out 'r.error.includes("nothing was run")'
