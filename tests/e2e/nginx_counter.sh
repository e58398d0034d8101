#!/bin/sh
# The servers' own counters, nginx's and one of a Node.js program, equal what Lockstep says it has
# sent: exactly, in every trial of ten runs, and the books of all of them balance.
#
# LS_E2E_LONG=1: three repetitions, as long as the quickstart's.
. "$(dirname -- "$0")/lib.sh"
need node nginx

repetitions=1 warmup=200ms measure=300ms
[ -z "${LS_E2E_LONG:-}" ] || repetitions=3 warmup=3s measure=5s

# Two ports with one between them: see counting_nginx.sh.
until port=$(free_port) && port_is_free $((port + 2)); do :; done
until other=$(free_port) && [ "$other" -ne "$port" ] && [ "$other" -ne $((port + 2)) ]; do :; done
{
    plan_head counted 2
    cat <<PLAN
targets:
  - name: nginx
    files: [counting_nginx.sh]
    command: [sh, counting_nginx.sh, "{dir}", "{port}", "$LS_HARNESS"]
    env: {PATH: "/usr/sbin:/usr/bin:/sbin:/bin"}
    version: [nginx, -v]
    port: $port
    stop: {signal: USR1}
  - name: node
    files: [counting.mjs]
    command: [node, counting.mjs, "{port}"]
    version: [node, --version]
    port: $other
workloads:
  - name: hello
    http:
      requests:
        - {path: /, expect: {status: 200, body: "Hello, World!"}}
        - {path: /other, expect: {status: 200, body: "Hello, World!"}}
    connections: 32
    warmup: $warmup
    measure: $measure
schedule: {repetitions: $repetitions}
PLAN
} >plan.yaml
cp "$LS_SOURCE/tests/e2e/counting_nginx.sh" .
cat >counting.mjs <<'JS'
import http from 'node:http';
let count = 0;
http.createServer((request, response) => {
    count++;
    response.end('Hello, World!');
}).listen(Number(process.argv[2]), '127.0.0.1');
process.on('SIGTERM', () => {
    console.log('node counted', count);
    process.exit();
});
JS

# The books, and what the servers have counted, of the run in result/.
check_run() {
    books_balance out
    same 'trials' $((2 * repetitions)) "$(json out 'r.trials.filter((t) => t.status === "done").length')"
    json out 'r.trials.map((t) => [t.folder, t.target, t.server.readiness_requests +
        t.preflight.requests.sent + t.warmup.requests.sent + t.requests.sent].join(" ")).join("\n")' >sent
    while read -r folder target count; do
        same "$folder: requests sent and counted" "$target counted $count" \
            "$(grep "$target counted" "result/$folder/target.log")"
    done <sent
    nothing_left
    for each in "$port" "$other"; do
        port_is_free "$each" || fail "port $each is still in use"
    done
}

run=0
while [ "$run" -lt 10 ]; do
    rm -rf result
    expect '0 4' "$lockstep" run plan.yaml --out result --json
    check_run
    run=$((run + 1))
done
