#!/bin/sh
# What the published pages got wrong is refused or flagged, with the reason: another body, another
# checksum, half of the connections, bodies of different size in one table, 2 % called a win. And the
# plans of the suites are in order, whatever is installed.
. "$(dirname -- "$0")/lib.sh"
need node

for suite in elide esrun elysia-vs-fastify rune; do
    expect 0 "$lockstep" check "$LS_SOURCE/deploy/suites/$suite"
done

# shellcheck disable=SC2046 # two words
set -- $(free_port 2)
one=$1 two=$2
# A server that answers with what BODY says, and takes no more than MOST connections.
cat >server.mjs <<'SERVER'
import http from 'node:http';
const server = http.createServer((request, response) => response.end(process.env.BODY));
server.maxConnections = Number(process.env.MOST ?? 1000);
server.listen(Number(process.env.PORT), '127.0.0.1');
SERVER
# write_plan BODY_OF_TWO MOST_OF_TWO EXPECTED_OF_TWO
write_plan() {
    {
        plan_head pages 1
        cat <<PLAN
targets:
  - name: one
    files: [server.mjs]
    command: [node, server.mjs]
    env: {PORT: "{port}", BODY: Hello Elysia}
    port: $one
  - name: two
    files: [server.mjs]
    command: [node, server.mjs]
    env: {PORT: "{port}", BODY: '$1', MOST: "$2"}
    ready: {request: {path: /, expect: {status: 200}}}
    port: $two
workloads:
  - {name: one, targets: [one], connections: 8, warmup: 100ms, measure: 400ms, http: {requests: [{path: /, expect: {body: Hello Elysia}}]}}
  - {name: two, targets: [two], connections: 8, warmup: 100ms, measure: 400ms, http: {requests: [{path: /, expect: {body: '$3'}}]}}
schedule: {repetitions: 1}
tables:
  - title: The page
    columns: [{title: rate}, {title: bytes/response, metric: response_bytes}, {title: connections, metric: connections_opened}]
PLAN
    } >plan.yaml
    rm -rf result
}

# Another body than the plan expects: refused before any load.
write_plan '{"hello":"World"}' 1000 '{"hello":"world"}'
expect 3 "$lockstep" run plan.yaml --out result --json -q
holds out 'r.trials[1].reasons.some((reason) => reason.code === "preflight" && reason.text.includes("body differs"))'
holds out 'r.pages[0].rows[1].cells[0].text === "failed" && !r.pages[0].rows[1].cells[0].measured'

# Half of the connections: the server cuts off the others. The figure does not count, and why is said.
write_plan 'Hello Elysia' 4 'Hello Elysia'
expect "3 4" "$lockstep" run plan.yaml --out result --json -q
holds out 'r.trials[1].verdict === "invalid" && r.trials[1].reasons.some((reason) =>
    ["connections_short", "wrong_responses", "preflight", "connect"].includes(reason.code) && reason.text !== "")'
holds out '!r.pages[0].rows[1].cells[0].measured'

# Bodies of different size stand in one table: flagged, and nobody is called the faster one.
write_plan '{"hello":"world"}' 1000 '{"hello":"world"}'
expect "0 4" "$lockstep" run plan.yaml --out result --json -q
holds out 'r.trials.every((t) => t.status === "done")'
if [ "$(json out 'r.trials.every((t) => t.verdict !== "invalid")')" = true ]; then
    holds out 'r.pages[0].notes.some((note) => note.startsWith("The bodies differ: 12 to 17 bytes"))'
    holds out '!r.pages[0].notes.some((note) => note.includes("x ("))'
fi

# Scripts that compute different things are not compared: another checksum is refused.
cat >rows.mjs <<'ROWS'
console.log(JSON.stringify({ metric: 'sum', value: 1, unit: 'ms', checksum: process.env.SUM }));
ROWS
cat >rows.yaml <<PLAN
$(plan_head rows 1)
targets:
  - {name: one, files: [rows.mjs], command: [node, rows.mjs], env: {SUM: "42"}}
  - {name: two, files: [rows.mjs], command: [node, rows.mjs], env: {SUM: "43"}}
workloads: [{name: rows, process: {runs: 2, metrics: [{name: sum, checksum: "42"}]}}]
schedule: {repetitions: 1}
tables: [{title: Rows, rows: metrics}]
PLAN
rm -rf result
expect "3 4" "$lockstep" run rows.yaml --out result --json -q
holds out 'r.pages[0].rows[0].cells[0].measured && r.pages[0].rows[0].cells[0].text.endsWith(" ms")'
holds out '!r.pages[0].rows[0].cells[1].measured'
says out 'checksum'

# The tables follow from the plan and the trials again, and a cell that does not is found.
expect 0 "$lockstep" verify result --json
holds out 'r.status === "agrees" && !r.notes.some((note) => note.includes("not made again"))'
# shellcheck disable=SC2016 # for node
node -e '
    const fs = require("fs"), r = JSON.parse(fs.readFileSync("result/result.json"));
    r.pages[0].rows[0].cells[0].text = "0.001 ms";
    fs.writeFileSync("result/result.json", JSON.stringify(r));
'
expect 4 "$lockstep" verify result --figures-only --json
holds out "r.differences.length === 1 && r.differences[0].figure.startsWith('pages[') && r.differences[0].figure.endsWith('.text')"
nothing_left
