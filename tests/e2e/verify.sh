#!/bin/sh
# `lockstep verify`: one byte changed anywhere in a result folder is found, and its file named. Who
# changes a figure and makes the sums anew is found out by the figure, or by the missing signature.
. "$(dirname -- "$0")/lib.sh"
need node sha256sum

mkdir -p tmp
TMPDIR=$LS_TMP/tmp
export TMPDIR
port=$(free_port)
{
    plan_head verified 2
    cat <<PLAN
targets:
  - name: responder
    command: ["$agent", respond, --listen, "{host}:{port}", --die-with-parent]
    port: $port
workloads:
  - name: count
    http: {requests: [{path: /}]}
    connections: 4
    load: {closed: {requests: 2000}}
    warmup: 0s
    measure: 60s
  - name: rate
    http: {requests: [{path: /}]}
    connections: 4
    load: {constant: {rate: 1000/s}}
    warmup: 200ms
    measure: 1500ms
    interval: 100ms
schedule: {repetitions: 1}
PLAN
} >plan.yaml

expect 0 "$lockstep" pki init
expect 0 "$lockstep" pki issue coordinator main --host 127.0.0.1
expect '0 4' "$lockstep" run plan.yaml --json --out plain
expect '0 4' "$lockstep" run plan.yaml --json --out signed --keys pki/issued/coordinator-main
nothing_left

expect 0 "$lockstep" verify plain
says out 'plain: agrees'
says out 'Not signed'
expect 0 "$lockstep" verify signed --ca pki/ca.pem --json
holds out 'r.status === "agrees" && r.exit_status === 0 && r.files > 15 && r.figures > 500'
holds out 'r.signature === "good" && r.signed_by === "lockstep:coordinator/main"'
expect 0 "$lockstep" verify signed
says out 'Signed by a key whose certificate says lockstep:coordinator/main'

# A signature by somebody else, and none where there has to be one.
expect 0 "$lockstep" pki init others
expect 4 "$lockstep" verify signed --ca others/ca.pem
says out 'others/ca.pem does not vouch for the certificate'
expect 4 "$lockstep" verify plain --ca pki/ca.pem
says out 'SHA256SUMS.sig: is missing'
expect 2 "$lockstep" verify signed --ca plan.yaml
says err 'has no certificates of an authority'

# One byte, at several places of every file.
cat >flip.js <<'JS'
const fs = require("fs"), path = require("path");
const { spawnSync } = require("child_process");
const files = (dir) => fs.readdirSync(dir, { withFileTypes: true })
    .flatMap((e) => e.isDirectory() ? files(path.join(dir, e.name)) : [path.join(dir, e.name)]);
let found = 0;
for (const file of files("signed")) {
    const good = fs.readFileSync(file);
    const places = good.length === 0 ? [] : [0, good.length >> 1, good.length - 1];
    for (const at of places) {
        const bad = Buffer.from(good);
        bad[at] ^= 1;
        fs.writeFileSync(file, bad);
        const ran = spawnSync(process.argv[2], ["verify", "signed", "--json"], { encoding: "utf8" });
        // A sum that was changed may name the file that it is of.
        const named = JSON.parse(ran.stdout).differences.some(
            (d) => path.join("signed", d.file) === file || file === "signed/SHA256SUMS");
        if (ran.status !== 4 || !named) {
            console.log(`byte ${at} of ${file}: status ${ran.status}, ${ran.stdout}`);
            process.exit(1);
        }
        found++;
    }
    fs.writeFileSync(file, good);
}
console.log(`${found} bytes changed and found`);
JS
expect 0 node flip.js "$lockstep"
expect 0 "$lockstep" verify signed --ca pki/ca.pem

# A file too many, one too few, and a link in a file's place.
echo more >signed/more
expect 4 "$lockstep" verify signed
says out 'more: is not in SHA256SUMS'
rm signed/more
mv signed/trials/001-responder-count-r1/intervals.csv moved
expect 4 "$lockstep" verify signed
says out 'trials/001-responder-count-r1/intervals.csv: is missing'
ln -s "$LS_TMP/moved" signed/trials/001-responder-count-r1/intervals.csv
expect 4 "$lockstep" verify signed
says out 'is not a regular file'
rm signed/trials/001-responder-count-r1/intervals.csv
mv moved signed/trials/001-responder-count-r1/intervals.csv

# forge FOLDER EXPRESSION: a figure of the last trial t is changed wherever it stands, and the sums
# are made to fit.
# shellcheck disable=SC2016 # for node
forge() {
    node -e '
        const fs = require("fs");
        const [folder, expression] = process.argv.slice(1);
        const r = JSON.parse(fs.readFileSync(`${folder}/result.json`, "utf8"));
        const t = r.trials[r.trials.length - 1];
        eval(expression);
        fs.writeFileSync(`${folder}/result.json`, JSON.stringify(r));
        fs.writeFileSync(`${folder}/${t.folder}/trial.json`, JSON.stringify(t));
    ' "$1" "$2"
    (cd "$1" && find . -type f ! -name 'SHA256SUMS*' -printf '%P\n' | LC_ALL=C sort |
        xargs sha256sum >SHA256SUMS)
}

# found FIGURE EXPRESSION: it is found out.
found() {
    rm -rf forged
    cp -r plain forged
    forge forged "$2"
    expect 4 "$lockstep" verify forged --json
    holds out "r.differences.some((d) => d.figure.endsWith('$1'))"
    holds out 'r.differences.every((d) => d.text.length > 10)'
}

# A row whose interval has a number far beyond all others is one row, and no reason to allocate more.
cp -r plain far
rows=$(ls -d far/trials/002-*)/intervals.csv
awk -F, 'NR == 1 { for (i = 1; i <= NF; i++) if ($i == "index") at = i } NR > 1 { last = $0 } { print }
    END { n = split(last, cell, ","); cell[at] = 3999999
          for (i = 1; i <= n; i++) printf "%s%s", cell[i], i < n ? "," : "\n" }' "$rows" >more.csv
cp more.csv "$rows"
forge far ''
expect 4 "$lockstep" verify far --json
holds out 'r.differences.some((d) => d.figure.endsWith("intervals"))'

found response_time.p99_ns 't.response_time.p99_ns -= 1000'
found response_time.mean_ns 't.response_time.mean_ns *= 0.99'
found 'clients[client-2].service_time.p50_ns' 't.clients[1].service_time.p50_ns--'
found throughput_per_s 't.throughput_per_s *= 1.01'
found requests.ok 't.requests.ok++'
found requests.bad_status 't.clients[0].requests.bad_status = 1'
found 'intervals[2].completed' 't.intervals[2].completed++'
found 'intervals[1].p99_ns' 't.intervals[1].p99_ns = 1'
found server.cpu_ns_per_request 't.server.cpu_ns_per_request /= 2'
found server.rss_peak_bytes 't.server.rss_peak_bytes--'
found verdict 't.verdict = t.verdict === "invalid" ? "valid" : "invalid"'
found median 'r.summary[0].median += 1' # it is 0 if a busy machine made that trial invalid
found ci95_low 'r.summary[0].ci95_low += 1'
found hosts 'r.hosts.pop()'
found status 'r.trials_planned++; r.status = "complete"'

# ... and without the key nobody can make it look signed.
rm -rf forged
cp -r signed forged
forge forged 't.response_time.p99_ns -= 1000'
expect 4 "$lockstep" verify forged --ca pki/ca.pem
says out 'SHA256SUMS.sig: it does not fit what is signed'
says out 'response_time.p99_ns'

# What is no result at all.
expect 2 "$lockstep" verify nowhere
says err 'nowhere'
expect 2 "$lockstep" verify tmp --json
holds out 'r.status === "failed" && r.error.includes("not a lockstep result")'
printf '{"run_id": ' >plain/result.json
expect 4 "$lockstep" verify plain
says out 'result.json: was changed'
says out 'cannot be read as a result'
