#!/bin/sh
# Over WebSocket, too, what Lockstep says it has sent and received is what the server has counted: echoes
# in closed and open loop, plain and over TLS, rooms by one client and by two; and every way in which a
# server can be wrong is named, with what was lost, came twice or was not what was sent counted exactly.
. "$(dirname -- "$0")/lib.sh"
need node

# counters TRIAL: the responder's last words, in counts.json.
counters() {
    grep '^{' "result/$(json out "r.trials[$1].folder")/target.log" | tail -n 1 >counts.json
}
# target NAME OPTIONS...
target() {
    name=$1
    shift
    printf '  - name: %s\n    port: %s\n    command: ["%s", respond, --listen, "{host}:{port}"' \
        "$name" "$port" "$agent"
    for word in --die-with-parent "$@"; do
        printf ', "%s"' "$word"
    done
    printf ']\n'
}
# run_plan: plan.yaml, however crowded the machine is.
run_plan() {
    rm -rf result
    expect '0 4' "$lockstep" run plan.yaml --out result --json
    books_balance out
}
port=$(free_port)

# ---- echoes

{
    plan_head echo 2
    printf 'targets:\n'
    target echo
    cat <<PLAN
workloads:
  - name: closed
    websocket: {path: /chat, pipeline: 3}
    connections: 6
    warmup: 100ms
    measure: 1s
  - name: fixed
    websocket: {message: {size: 100KiB, binary: true}, fragment: 30KiB}
    connections: 4
    load: {closed: {requests: 100}}
    warmup: 100ms
    measure: 20s
  - name: open
    websocket: {message: {text: "Grüße"}, subprotocol: chat, headers: {X-A: b}}
    connections: 8
    load: {poisson: {rate: 200/s}}
    warmup: 100ms
    measure: 1s
schedule: {repetitions: 1}
PLAN
} >plan.yaml
run_plan
for trial in 0 1 2; do
    counters $trial
    holds out "(t => t.requests.ok > 0 && t.requests.ok === t.requests.sent && t.messages.lost === 0 &&
        t.messages.sent === t.requests.sent + t.warmup.requests.sent &&
        t.messages.received === t.messages.sent && t.messages.duplicated === 0)(r.trials[$trial])"
    same "trial $trial: messages sent and received" \
        "$(json out "(t => t.server.readiness_requests + t.preflight.requests.sent +
                      t.messages.sent)(r.trials[$trial])")" "$(json counts.json r.requests)"
    holds counts.json 'r.bad_requests === 0 && r.responses === r.requests'
done

# One by one, what a server can do to an echo, and what that is called. Pings are answered.
# fault ACTION OUTCOME WORDS...
fault() {
    start responder "$agent" respond --listen "127.0.0.1:$port" --every "20:$1"
    wait_until 60 "$LS_HARNESS" get "$port" /
    # What is answered must not take too long on a slow machine.
    limit=20s
    [ "$2" != timeout ] || limit=1s
    expect '0 4' "$lockstep" bench "ws://127.0.0.1:$port/" -c 2 -t 1 -n 100 --warmup 0 --timeout "$limit" --json
    if [ "$2" = ok ]; then
        holds out 'r.trials[0].requests.ok === 100'
    else
        holds out "(q => q.ok + q.$2 + q.aborted === 100 && q.$2 >= 4)(r.trials[0].requests)"
        books_balance out
    fi
    kill -TERM "$pid"
    wait "$pid" || fail "the responder ended with $?"
    shift 2
    for words in "$@"; do
        says out "$words"
    done
}
fault masked bad_framing
fault reserved-bits bad_framing
fault bad-utf8 bad_framing
fault giant bad_framing
fault wrong-body bad_body
fault short bad_body
fault long bad_body
fault garbage bad_framing
fault close-code:1011 closed_early '"close_code": 1011'
fault close closed_early
fault half reset
fault no-answer timeout
fault fragments ok
fault ping ok
holds out 'r.trials[0].messages.pings >= 5'

# What does not speak WebSocket, or not well, gets no load.
# refused WORDS OPTIONS...
refused() {
    says=$1
    shift
    start responder "$agent" respond --listen "127.0.0.1:$port" "$@"
    wait_until 60 "$LS_HARNESS" get "$port" /
    expect 3 "$lockstep" bench "ws://127.0.0.1:$port/" -c 2 -d 200ms --warmup 0
    says err "$says"
    kill -TERM "$pid"
    wait "$pid" || :
}
refused 'sec-websocket-accept is not the answer to our key' --after 0:bad-accept
expect 2 "$lockstep" bench "ws://127.0.0.1:$port/" --body x
expect 2 "$lockstep" bench "http://127.0.0.1:$port/" --size 5

# ---- rooms

# room CLIENTS-OF-THE-FLEET RESPONDER-OPTIONS WORKLOAD
room() {
    {
        plan_head room "$1"
        printf 'targets:\n'
        # shellcheck disable=SC2086
        target room --websocket-room --clients 12 $2
        printf 'workloads:\n%s\nschedule: {repetitions: 1}\n' "$3"
    } >plan.yaml
    run_plan
    counters 0
}
said='websocket: {path: "/?name={name}", message: {size: 20}, '
times='connections: 12
    warmup: 100ms
    measure: 500ms
    timeout: 3s'

# All of it arrives, in rounds and otherwise, also what other clients say.
for clients in 1 2; do
    room $clients '' "  - name: rounds
    $said room: {round: 16, ready: ready, delivery: '{name}: {message}'}}
    $times
  - name: closed
    $said pipeline: 2, room: {ready: ready, delivery: '{name}: {message}'}}
    $times"
    for trial in 0 1; do
        counters $trial
        holds out "(m => m.sent > 0 && m.expected === 12 * m.sent && m.received === m.expected &&
            m.lost + m.duplicated + m.out_of_order + m.corrupted === 0 &&
            m.received_per_s > 0)(r.trials[$trial].messages)"
        holds out "(t => t.delivery_time.count > 0 && t.requests.ok === t.requests.sent)(r.trials[$trial])"
        same "clients $clients, trial $trial: messages" \
            "$(json out "r.trials[$trial].messages.sent + ($clients > 1 ? 12 : 0)")" \
            "$(json counts.json r.requests)"
    done
done
room 1 --plain "  - name: open
    $said room: {ready: ready}}
    load: {constant: {rate: 300/s}}
    $times"
holds out '(m => m.sent > 0 && m.received === 12 * m.sent)(r.trials[0].messages)'

# What the server loses, says twice, changes or puts behind a later one is found, and nothing else.
room 1 '--every 97:no-answer --every 101:twice --every 103:wrong-body' "  - name: faults
    $said pipeline: 8, room: {ready: ready, delivery: '{name}: {message}'}}
    $times"
for kind in lost duplicated corrupted; do
    case $kind in
    lost) count='(a["no-answer"] || 0) + (a["wrong-body"] || 0)' ;;
    duplicated) count='a.twice || 0' ;;
    *) count='a["wrong-body"] || 0' ;;
    esac
    same "$kind" "$(json counts.json "(a => $count)(r.actions)")" "$(json out "r.trials[0].messages.$kind")"
done
holds out 'r.trials[0].verdict === "invalid" && r.trials[0].reasons.some((why) => why.code === "messages") &&
    !r.trials[0].reasons.some((why) => why.code === "books")'
room 1 '--every 50:swap' "  - name: swaps
    $said room: {round: 16, ready: ready, delivery: '{name}: {message}'}}
    $times"
holds out '(m => m.out_of_order > 0 && m.lost === 0 && m.received === m.expected)(r.trials[0].messages)'
nothing_left
