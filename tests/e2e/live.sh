#!/bin/sh
# The live page of a run in a real browser: figures, charts and warnings as they come, again after a
# cut, for those who come late and despite one who never reads; the button ends the run, and no
# browser holds it up. LS_SCREENSHOTS names a folder that keeps the pictures.
. "$(dirname -- "$0")/lib.sh"
need node "${CHROMIUM:-chromium}"

port=$(free_port)
{
    plan_head live 2
    cat <<PLAN
targets:
  - name: one
    command: ["$agent", respond, --listen, "{host}:{port}", --die-with-parent]
    port: $port
workloads:
  - name: steady
    http: {requests: [{path: /}]}
    connections: 4
    load: {constant: {rate: 200/s}}
    warmup: 0s
    measure: 4s
    interval: 100ms
schedule: {repetitions: 40}
PLAN
} >plan.yaml
mkdir shots
node "$LS_SOURCE/tests/e2e/live_page.mjs" "$LS_TMP/shots" "$lockstep" run plan.yaml --ui --out result >page.out 2>page.err || {
    show page.out page.err
    fail 'the live page'
}
nothing_left
holds result/result.json 'r.status === "interrupted" && r.trials.length >= 1'
if [ -n "${LS_SCREENSHOTS:-}" ]; then
    mkdir -p "$LS_SCREENSHOTS/live"
    cp shots/*.png "$LS_SCREENSHOTS/live/"
fi

# An address that is none, or taken, is said before anything is run.
expect 2 "$lockstep" run plan.yaml --ui=nonsense
says err 'is no address to listen at'
start holder "$agent" respond --listen "127.0.0.1:$port"
wait_until 60 grep -q listening holder.log
expect 2 "$lockstep" run plan.yaml --ui="$port"
says err "cannot listen at 127.0.0.1, port $port"
kill "$pid"
wait
nothing_left
