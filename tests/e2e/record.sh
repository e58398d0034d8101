#!/bin/sh
# `run --record`: what went to the terminal is in the recording, piece by piece, at times that never
# go back; stdout and stderr are as without it.
. "$(dirname -- "$0")/lib.sh"
need node

mkdir -p tmp
TMPDIR=$LS_TMP/tmp
export TMPDIR
port=$(free_port)
{
    plan_head recorded 1
    cat <<PLAN
targets:
  - name: responder
    command: ["$agent", respond, --listen, "{host}:{port}", --die-with-parent]
    port: $port
workloads:
  - name: count
    http: {requests: [{path: /}]}
    connections: 2
    load: {closed: {requests: 200}}
    warmup: 100ms
    measure: 60s
schedule: {repetitions: 2}
PLAN
} >plan.yaml

cat >play.js <<'JS'
// play.js FILE: checks every line, and prints what a terminal would have shown.
const fs = require("fs");
const text = fs.readFileSync(process.argv[2], "utf8");
if (!text.endsWith("\n")) throw new Error("the last line is not whole");
const lines = text.trimEnd().split("\n").map((line) => JSON.parse(line));
const head = lines.shift();
if (head.version !== 2 || !(head.width > 0) || !(head.height > 0) || !(head.timestamp > 1e9))
    throw new Error("header " + JSON.stringify(head));
let last = 0, out = "";
for (const event of lines) {
    const [time, kind, data] = event;
    if (event.length !== 3 || !(time >= last) || !["o", "r"].includes(kind) || typeof data !== "string")
        throw new Error("event " + JSON.stringify(event));
    if (/[^\r]\n/.test(data)) throw new Error("a line end without a carriage return");
    last = time;
    if (kind === "o") out += data;
}
process.stdout.write(out.replaceAll("\r\n", "\n"));
JS

expect '0 4' "$lockstep" run plan.yaml --out result --record run.cast
mv out text
mv err progress
expect 0 node play.js run.cast
mv out played
cat progress text | LC_ALL=C sort >wanted
LC_ALL=C sort played >got
cmp wanted got || { show wanted got; fail 'the recording is not what was shown'; }
if [ ! -s text ] || [ ! -s progress ]; then fail "nothing was shown"; fi

# With --json, stdout is one document all the same.
expect '0 4' "$lockstep" run plan.yaml --out json --json --quiet --record json.cast
holds out 'r.status === "complete"'
expect 0 node play.js json.cast
holds out 'r.status === "complete"'

# A plan with a mistake is recorded, too; a place that cannot be written to is refused.
echo 'nonsense: 1' >bad.yaml
expect 2 "$lockstep" run bad.yaml --record bad.cast
expect 0 node play.js bad.cast
says out 'nonsense'
expect 2 "$lockstep" run plan.yaml --out none --record nowhere/x.cast
says err 'cannot write the recording'
[ ! -e none ] || fail 'something was run'

# A disk that is full costs the recording, not the run.
expect '0 4' "$lockstep" run plan.yaml --out full --json --record /dev/full
holds out 'r.status === "complete"'
says err 'the recording is not whole'
nothing_left
