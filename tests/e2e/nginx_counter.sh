#!/bin/sh
# nginx's own counter equals what Lockstep says it has sent, exactly, in every trial.
. "$(dirname -- "$0")/lib.sh"
need node nginx

# Two ports with one between them: see counting_nginx.sh.
until port=$(free_port) && port_is_free $((port + 2)); do :; done
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
workloads:
  - name: hello
    http:
      requests:
        - {path: /, expect: {status: 200, body: "Hello, World!"}}
        - {path: /other, expect: {status: 200, body: "Hello, World!"}}
    connections: 32
    warmup: 300ms
    measure: 700ms
schedule: {repetitions: ${LS_REPETITIONS:-10}}
PLAN
} >plan.yaml
cp "$LS_SOURCE/tests/e2e/counting_nginx.sh" .

status=0
"$lockstep" run plan.yaml --out result --json >out 2>err || status=$?
[ "$status" -eq 0 ] || [ "$status" -eq 4 ] || {
    show err out
    fail "status $status"
}
books_balance out
trials=$(json out 'r.trials.length')
same 'trials' "${LS_REPETITIONS:-10}" "$trials"
trial=0
while [ "$trial" -lt "$trials" ]; do
    folder=result/$(json out "r.trials[$trial].folder")
    sent=$(json out "(t => t.server.readiness_requests + t.preflight.requests.sent +
                           t.warmup.requests.sent + t.requests.sent)(r.trials[$trial])")
    same "trial $((trial + 1)): requests sent and counted by nginx" "nginx counted $sent" \
        "$(grep 'nginx counted' "$folder/target.log")"
    trial=$((trial + 1))
done
nothing_left
port_is_free "$port" || fail "port $port is still in use"
