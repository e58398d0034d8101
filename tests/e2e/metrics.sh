#!/bin/sh
# Figures out of a run that goes on, and of the last result, as Prometheus takes them: its own
# checker, a server of it that scrapes, and every expression of the dashboard.
. "$(dirname -- "$0")/lib.sh"
need node

mkdir -p tmp
TMPDIR=$LS_TMP/tmp
export TMPDIR
port=$(free_port)
{
    plan_head metrics 1
    cat <<PLAN
targets:
  - name: responder
    command: ["$agent", respond, --listen, "{host}:{port}", --die-with-parent]
    port: $port
workloads:
  - name: first
    http: {requests: [{path: /}]}
    connections: 2
    load: {closed: {requests: 300}}
    think: {mean: 5ms}
    receive_stamps: off
    warmup: 0s
    measure: 60s
  - name: long
    http: {requests: [{path: /}]}
    connections: 2
    load: {constant: {rate: 500/s}}
    warmup: 0s
    measure: 300s
    interval: 100ms
schedule: {repetitions: 1}
PLAN
} >plan.yaml

cat >get.js <<'JS'
// get.js URL [HEADER:VALUE]: the body; fails unless it is a 200.
const http = require("http");
const headers = {};
for (const h of process.argv.slice(3)) headers[h.split(":")[0]] = h.slice(h.indexOf(":") + 1);
http.get(process.argv[2], { headers }, (r) => {
    let body = "";
    r.on("data", (d) => body += d).on("end", () => {
        console.error(r.headers["content-type"]);
        process.stdout.write(body);
        process.exit(r.statusCode === 200 ? 0 : 1);
    });
}).on("error", (e) => { console.error(e.message); process.exit(1); });
JS

expect 2 "$lockstep" run plan.yaml --metrics nonsense
says err 'is no address to listen at'

now_says() { node get.js "$url" >scrape 2>kind && grep -q "$1" scrape; }
measures() { now_says 'workload="long",phase="measure"' && grep -q '^lockstep_now_requests_per_second ' scrape; }
end_run() {
    kill -TERM "$(cat run.pid)"
    wait "$(cat run.pid)" || :
}

# While it runs. A trial that is not believed has no part in medians: where a busy machine has brought that
# about for the only one that has ended by then, another run is made.
for try in 1 2 3 4 5 6; do
    rm -rf result
    start run "$lockstep" run plan.yaml --out result --metrics 0
    wait_until 60 grep -q 'metrics: http' run.log
    url=$(sed -n 's/^metrics: //p' run.log)
    wait_until 60 measures
    [ "$(json result/result.json 'r.trials[0].verdict')" = invalid ] || break
    [ "$try" -eq 6 ] || end_run
done
says kind 'application/openmetrics-text; version=1.0.0'
says scrape 'lockstep_run_active 1'
says scrape 'lockstep_now_info{target="responder"'
says scrape 'lockstep_throughput_per_second{workload="first",target="responder",stat="median"}'
same 'the last line' '# EOF' "$(tail -n 1 scrape)"
! node get.js "$url" Host:evil.example >rebound 2>&1 || fail 'it answers to the name of another site'
! node get.js "${url%metrics}other" >other 2>&1 || fail 'it answers what it has not got'

if ! command -v promtool >/dev/null || ! command -v prometheus >/dev/null; then
    end_run
    skip 'the rest needs prometheus and promtool'
fi
promtool check metrics <scrape >checked 2>&1 || { show checked; fail 'promtool refuses the metrics'; }

# A server that scrapes it.
prom=$(free_port)
cat >prometheus.yml <<PROM
scrape_configs:
  - job_name: lockstep
    scrape_interval: 500ms
    static_configs: [{targets: ["${url#http://}"]}]
PROM
sed -i 's|/metrics"|"|' prometheus.yml
start prometheus prometheus --config.file=prometheus.yml --storage.tsdb.path=tsdb \
    --web.listen-address="127.0.0.1:$prom"
cat >ask.js <<'JS'
// ask.js PORT: every expression of the dashboard has an answer.
const fs = require("fs"), http = require("http");
const board = JSON.parse(fs.readFileSync(process.argv[3], "utf8"));
const expressions = board.panels.flatMap((p) => p.targets.map((t) => t.expr));
const ask = (expr) => new Promise((resolve, reject) => http.get(
    `http://127.0.0.1:${process.argv[2]}/api/v1/query?query=` +
    encodeURIComponent(expr.replaceAll("$instance", ".*")), (r) => {
        let body = "";
        r.on("data", (d) => body += d).on("end", () => resolve(JSON.parse(body)));
    }).on("error", reject));
(async () => {
    for (const expr of expressions) {
        const got = await ask(expr);
        if (got.status !== "success" || got.data.result.length === 0) {
            console.error(expr, JSON.stringify(got));
            process.exit(1);
        }
    }
    console.log(`${expressions.length} expressions`);
})().catch((e) => { console.error(e.message); process.exit(1); });
JS
wait_until 60 node ask.js "$prom" "$LS_SOURCE/deploy/grafana/lockstep.json"
kill -TERM "$(cat prometheus.pid)"
wait "$(cat prometheus.pid)" || :
end_run

# Of the last result: on stdout, and served.
expect 0 "$lockstep" metrics result
says out 'lockstep_run_active 0'
promtool check metrics <out >checked 2>&1 || { show checked; fail 'promtool refuses the metrics'; }
start serve "$lockstep" metrics . --listen 0
wait_until 60 grep -q '^http' serve.log
url=$(cat serve.log)
wait_until 60 now_says '^lockstep_run_active 0'
kill -TERM "$(cat serve.pid)"
wait "$(cat serve.pid)" || fail 'it does not end well when it is told to'
expect 2 "$lockstep" metrics tmp
says err 'is no result, and has none in it'
nothing_left
