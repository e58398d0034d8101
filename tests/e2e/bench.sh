#!/bin/sh
# lockstep bench against a server that runs already: every request that it says it has sent has been
# received, whatever the options; every misbehaviour is counted by its own kind, the books balance,
# the load goes on, and the exit status says that something was wrong.
. "$(dirname -- "$0")/lib.sh"
need node

# responder OPTION...: starts one; its address is then in $url.
responder() {
    start respond "$agent" respond --die-with-parent "$@"
    wait_until 30 grep -q listening respond.log
    url=http://$(sed -n 's/^listening on //p' respond.log)
}

# bench STATUS OPTION...: the result is then in ./out, the responder's counters in ./counts.json.
bench() {
    wanted=$1
    shift
    expect "$wanted" "$lockstep" bench "$url/" --json "$@"
    kill "$pid"
    wait "$pid" || :
    grep '^{' respond.log | tail -n 1 >counts.json
    books_balance out
    same "requests sent and received with: $*" "$(json out '(t =>
        t.preflight.requests.sent + t.warmup.requests.sent + t.requests.sent)(r.trials[0])')" \
        "$(json counts.json r.requests)"
    holds counts.json 'r.bad_requests === 0'
}

# What is asked for is done.
responder
bench '0 4' -n 500 -c 4 -t 2 --warmup 0s
holds out '(t => t.requests.ok === 500 && t.warmup.requests.sent === 0)(r.trials[0])'
holds out '(t => t.connections.asked === 4 && t.clients[0].workers === 2)(r.trials[0])'
responder
bench '0 4' -d 400ms -c 3 -t 1 --warmup 200ms
holds out '(t => t.requests.ok > 0 && t.warmup.requests.sent > 0 && t.load === "closed")(r.trials[0])'
responder
bench '0 4' -R 500 -d 400ms --warmup 200ms
holds out '(t => t.requests.scheduled === 200 && t.warmup.requests.scheduled === 100)(r.trials[0])'
holds out 'r.trials[0].offered_per_s === 500 && r.trials[0].response_time.count === r.trials[0].requests.ok'
responder
bench '0 4' -n 800 -c 2 -p 8
holds out 'r.trials[0].requests.ok === 800 && r.trials[0].pipeline === 8'
responder --chunked --interim
bench '0 4' -n 200 -c 2 --expect-body 'Hello, World!' --expect-status 200
holds out 'r.trials[0].requests.ok === 200'
responder --close
bench '0 4' -n 200 -c 2 --warmup 0s
holds out 'r.trials[0].requests.ok === 200 && r.trials[0].connections.reopened > 0'
responder --every 1:status:404
bench '0 4' -n 100 -c 2 --expect-status 404
holds out 'r.trials[0].requests.ok === 100'

# Each way to wait for sockets that this host has; auto takes io_uring if it is one of them. Where
# the kernel stamps what it receives, every answer's service time is divided by it.
responder
bench '0 4' -n 200 -c 2
ios=$(json out 'r.trials[0].clients[0].io')
[ "$ios" = libev ] || ios="libev $ios"
holds out '(c => (c.io === "io_uring") === (c.io_reason === ""))(r.trials[0].clients[0])'
for io in $ios; do
    responder
    bench '0 4' -n 200 -c 2 --io "$io" --receive-stamps off
    holds out "r.trials[0].clients[0].io === '$io' && r.trials[0].clients[0].io_reason === ''"
    holds out '!r.trials[0].read_delay && !r.trials[0].kernel_time'
    responder
    bench '0 4' -n 2000 -c 2 -p 4 --io "$io" --receive-stamps on
    holds out '(t => t.read_delay.count > 0 && t.read_delay.count === t.kernel_time.count)(r.trials[0])'
    holds out '(t => t.kernel_time.max_ns <= t.service_time.max_ns)(r.trials[0])'
done

# Answers are collected before they are read, and the result says so, and whose wait it was; where
# that has no effect, why.
responder
bench '0 4' -n 2000 -c 8 --min-wait 200us
holds out 'r.trials[0].requests.ok === 2000 && r.trials[0].min_wait === "200us"'
holds out '(t => t.clients[0].io_reason === ""
    ? t.read_delay.count === t.requests.ok : /min_wait has no effect/.test(t.clients[0].io_reason))(r.trials[0])'

# misbehaves ACTION KIND: of 200 requests four get that, and nothing else is wrong, however slow the
# machine is. One is of the preflight.
misbehaves() {
    limit=20s
    [ "$2" != timeout ] || limit=2s
    responder --every "50:$1"
    if [ "$2" = ok ]; then
        bench '0 4' --io "$io" -n 200 -c 2 --warmup 0s --timeout "$limit" --expect-body 'Hello, World!'
        holds out 'r.trials[0].requests.ok === 200'
        return
    fi
    bench 4 --io "$io" -n 200 -c 2 --warmup 0s --timeout "$limit" --expect-body 'Hello, World!'
    holds out "r.trials[0].requests.ok === 196 && r.trials[0].requests.$2 === 4"
    holds out 'r.trials[0].reasons.some((reason) => reason.code === "wrong_responses")'
    holds out '(t => t.service_time.count === t.requests.ok + t.requests.timeout)(r.trials[0])'
}

# Several at a time, each in a folder of its own: "ACTION KIND". After long, twice, bye and
# unasked-408 the answer itself was as it should be; what follows costs the connection only.
while read -r line; do
    case $line in
    '') # what has been begun until here
        for each in $begun; do
            wait "$each" || fail 'see above'
        done
        begun=
        ;;
    *)
        for io in $ios; do
            folder=$(printf '%s' "$line-$io" | tr ' :' '--')
            mkdir "$folder"
            (
                cd "$folder" || exit 1
                # shellcheck disable=SC2086 # two words
                misbehaves $line
            ) &
            begun="${begun:-} $!"
        done
        ;;
    esac
done <<'LINES'
close closed_early
cut-head closed_early
short closed_early
reset reset
half reset

no-answer timeout
slow:8s timeout
status:500 bad_status
wrong-body bad_body
garbage bad_framing

both-framings bad_framing
bad-length bad_framing
endless-head bad_framing
interim-flood bad_framing
drip:20ms ok

long ok
twice ok
bye ok
unasked-408 ok

LINES

# The request is what the options say, and comes from the file that they name.
cat >echo.mjs <<'JS'
import http from 'node:http';
http.createServer((request, response) => {
    let body = '';
    request.on('data', (piece) => (body += piece));
    request.on('end', () => response.end(
        [request.method, request.url, request.headers.host, request.headers['x-word'], body].join(' ')));
}).listen(Number(process.argv[2]), '127.0.0.1', () => console.log('listening'));
JS
port=$(free_port)
start echo node echo.mjs "$port"
wait_until 30 grep -q listening echo.log
printf 'some words' >words
printf 'PUT /path?query=1 localhost:%s b some words' "$port" >wanted
expect '0 4' "$lockstep" bench "http://localhost:$port/path?query=1" -n 20 -c 2 --warmup 0s -m PUT \
    -H 'X-Word: b' -b @words --expect-body @wanted --json
holds out 'r.trials[0].requests.ok === 20'
printf 'GET / example.net  ' >wanted
expect '0 4' "$lockstep" bench "http://127.0.0.1:$port" -n 20 -c 2 --warmup 0s -H 'Host: example.net' \
    --expect-body @wanted --out kept
says out 'requests/s'
holds kept/result.json 'r.trials[0].requests.ok === 20'
expect '0 4' "$lockstep" run kept/plan.yaml --out again --json
holds out 'r.trials[0].requests.ok === 20'
kill "$pid"
wait "$pid" || :

# Nobody is there.
expect 3 "$lockstep" bench "http://127.0.0.1:$port/" -n 20 --json
holds out 'r.exit_status === 3 && r.trials[0].status === "failed"'
says err 'refused'
nothing_left
