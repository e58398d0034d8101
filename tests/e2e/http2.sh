#!/bin/sh
# HTTP/2 end to end: the books of both sides are the same under every misbehaviour, nginx's GOAWAY is no
# error, bodies larger than the first window arrive whole in both directions from every server that is
# there, and a peer that does not speak it is named.
. "$(dirname -- "$0")/lib.sh"
need node

port=$(free_port)
start_responder() {
    start responder "$agent" respond --listen "127.0.0.1:$port" --die-with-parent "$@"
    server=$pid
    wait_until 60 grep -q listening responder.log
}
stop_server() {
    kill "$server"
    wait "$server" || :
}

# bench ARGUMENT...: a short load over HTTP/2; its result is ./out.
bench() {
    status=0
    "$lockstep" bench --http2 -q --json -t 1 -c 4 --warmup 100ms --timeout 2s "$@" >out 2>err || status=$?
    case $status in
    [0-5]) ;;
    *)
        show out err
        fail "status $status: bench $*"
        ;;
    esac
}

all_sent() {
    json out '((t) => t.preflight.requests.sent + t.warmup.requests.sent + t.requests.sent)(r.trials[0])'
}

# ---- the books of both sides, under every rule. of OUTCOME: all phases' requests that ended so.
misbehave() {
    start_responder "$@"
    bench --streams 8 -n 2000 --expect-body 'Hello, World!' "http://127.0.0.1:$port/"
    stop_server
    tail -n 1 responder.log >counts.json
    books_balance out
    same "requests that were sent and received" "$(all_sent)" "$(json counts.json r.requests)"
    holds counts.json 'r.requests === r.responses + r.unanswered && r.bad_requests === 0'
}
of() {
    json out "((t) => [t.preflight, t.warmup, t].map((p) => p.requests['$1']).reduce((a, b) => a + b, 0))(r.trials[0])"
}

# What is within the rules.
misbehave --every 53:slow:2ms --every 59:drip:2ms --every 61:ping --every 67:padding --every 71:continuation \
    --every 73:settings --every 79:trailers --every 83:bye --every 89:goaway
same 'answers as expected' "$(all_sent)" "$(of ok)"
holds counts.json 'Object.keys(r.actions).length === 9'

# Answers that are wrong end themselves alone, and each is found.
misbehave --every 53:status:503 --every 59:wrong-body --every 61:short --every 67:long \
    --every 71:both-framings --every 73:bad-length --every 79:rst --every 83:bomb
same 'wrong statuses' "$(json counts.json r.actions.status)" "$(of bad_status)"
same 'wrong bodies' "$(json counts.json 'r.actions["wrong-body"]')" "$(of bad_body)"
same 'streams reset' "$(json counts.json r.actions.rst)" "$(of reset)"
same 'wrong framings' "$(of bad_framing)" \
    "$(json counts.json 'sum(["short", "long", "both-framings", "bad-length", "bomb"].map((a) => r.actions[a]))')"
holds out 'r.trials[0].http2.resets[0].name === "INTERNAL_ERROR"'
same 'everything else' "$(all_sent)" "$(($(of ok) + $(of bad_status) + $(of bad_body) + $(of reset) + $(of bad_framing)))"

# Connections that break, and floods.
misbehave --every 53:garbage --every 59:twice --every 61:close --every 67:cut-head --every 71:endless-head \
    --every 73:push --every 79:ping-flood --every 83:settings-flood --every 89:interim-flood
for kind in closed_early bad_framing aborted; do
    [ "$(of "$kind")" -gt 0 ] || fail "nothing is $kind"
done

# An answer that takes too long is given up alone; a connection that is silent, as a whole.
start_responder --every 100:slow:10s
bench --streams 8 -n 2000 --timeout 2s "http://127.0.0.1:$port/"
stop_server
tail -n 1 responder.log >counts.json
books_balance out
slow=$(json counts.json r.actions.slow)
same 'everything' "$(all_sent)" "$(($(of ok) + $(of timeout) + $(of aborted)))"
[ "$(($(of timeout) + $(of aborted)))" -ge "$slow" ] || fail 'a slow answer was taken'
# Without that, each would take the seven others of its connection with it.
[ "$(of aborted)" -le "$slow" ] || fail "$(of aborted) requests were given up for $slow slow answers"
start_responder --after 100:no-answer
bench --streams 8 -d 1200ms --timeout 500ms "http://127.0.0.1:$port/"
stop_server
books_balance out
holds out 'r.trials[0].connections.reopened > 0'
[ "$(of timeout)" -gt 0 ] || fail 'nothing took too long'

# ---- in an open loop as well, with what is behind a GOAWAY sent again
# Whether there is any at a GOAWAY is chance: with as many as these, only very seldom never.
retried=0
for rate in 4k 8k 12k 16k; do
    start_responder --every 40:goaway
    bench --streams 8 -R "$rate/s" -d 500ms "http://127.0.0.1:$port/"
    stop_server
    tail -n 1 responder.log >counts.json
    holds out '((t) => t.requests.ok === t.requests.sent)(r.trials[0])'
    retried=$((retried + $(json out 'r.trials[0].http2.retried')))
    [ "$retried" -eq 0 ] || break
done
[ "$retried" -gt 0 ] || fail 'nothing was sent again'
holds out 'r.trials[0].http2.goaways[0].name === "NO_ERROR"'
same "requests that were sent and received" "$(all_sent)" "$(json counts.json r.requests)"

# ---- fewer streams than asked for; TLS by ALPN; a server that never opens its window
start_responder --streams 3
bench --streams 50 -n 500 "http://127.0.0.1:$port/"
stop_server
holds out '((t) => t.protocol === "http2" && t.requests.ok === 500 && t.http2.streams_asked === 50 && t.http2.streams_granted === 3)(r.trials[0])'
# Who opens more of them before it knows better is refused those, and gets the others.
cat >eager.mjs <<'JS'
import http2 from 'node:http2';
const session = http2.connect(`http://127.0.0.1:${process.argv[2]}`);
const ended = [];
for (let i = 0; i < 5; i++) {
    const s = session.request({ ':path': '/' });
    s.on('error', () => {});
    s.on('close', () => {
        if (ended.push(s.rstCode) === 5) session.close();
    });
    s.resume();
}
session.on('close', () => console.log(ended.sort().join(' ')));
JS
start_responder --streams 3 --every 1:slow:300ms
same 'how five streams of three end' '0 0 0 7 7' "$(node eager.mjs "$port")"
stop_server
start_responder --tls-self-signed
bench --streams 8 -n 500 --insecure "https://127.0.0.1:$port/"
stop_server
holds out 'r.trials[0].requests.ok === 500 && r.trials[0].tls.version === "TLSv1.3"'
head -c 100000 /dev/zero >large
start_responder --no-window-updates
bench -n 10 -m POST --body @large "http://127.0.0.1:$port/"
stop_server
says out 'no complete answer within 2s'

# ---- peers that do not speak it
cat >peers.mjs <<'JS'
import http from 'node:http';
import net from 'node:net';
const answers = ['SSH-2.0-x\r\n', Buffer.from('00000807000000000000000000' + '00000002', 'hex'), ''];
const up = (s) => new Promise((done) => s.listen(0, '127.0.0.1', () => done(s.address().port)));
const ports = [await up(http.createServer((q, r) => r.end('x')))];
for (const text of answers)
    ports.push(await up(net.createServer((s) => { s.on('error', () => {}); s.on('data', () => s.end(text)); })));
console.log(ports.join(' '));
JS
start peers node peers.mjs
wait_until 60 test -s peers.log
read -r plain garbage goaway silent <peers.log
bench -n 1 "http://127.0.0.1:$plain/"
says out 'does not speak h2c (HTTP/2 without TLS): it answers in HTTP/1'
bench -n 1 "http://127.0.0.1:$garbage/"
says out 'does not speak h2c (HTTP/2 without TLS): what it says first is not SETTINGS'
bench -n 1 "http://127.0.0.1:$goaway/"
says out 'refuses HTTP/2: it answers the preface with GOAWAY'
bench -n 1 "http://127.0.0.1:$silent/"
says out 'does not speak HTTP/2: it hung up on the preface'
server=$(cat peers.pid)
stop_server

# ---- real servers: 64 KiB is a byte more than the first window
awk 'BEGIN { for (i = 0; i < 65536; i++) printf "%d", i % 10 }' >body
cat >server.mjs <<'JS'
import http2 from 'node:http2';
import fs from 'node:fs';
const body = fs.readFileSync('body');
const s = http2.createServer();
s.on('stream', (st, h) => {
    st.on('error', () => {});
    st.respond({ ':status': 200 });
    if (h[':method'] === 'POST') st.pipe(st);
    else if (h[':path'].startsWith('/item/')) st.end('item ' + h[':path'].slice(6));
    else st.end(body);
});
s.listen(0, '127.0.0.1', () => console.log(s.address().port));
JS
start node node server.mjs
server=$pid
wait_until 60 test -s node.log
# What a crowded machine makes of a single request's figures is of no interest here.
answers() {
    "$lockstep" bench --http2 -q --json -t 1 -c 1 -n 1 --warmup 0s "http://127.0.0.1:$1/body" >out 2>err || :
    [ "$(json out 'r.trials[0].requests.ok')" = 1 ]
}
whole() { # NAME PORT [ARGUMENT...]: every answer is the whole body
    name=$1
    at=$2
    shift 2
    bench --streams 4 -n 200 --expect-body @body "$@" "http://127.0.0.1:$at/body"
    holds out 'r.trials[0].requests.ok === 200' || fail "$name"
}
whole node "$(cat node.log)"
whole node "$(cat node.log)" -m POST --body @body
# Requests that vary: made beforehand, and as they are sent; headers and bodies with them.
for range in seq:0-99 seq:0-99999999; do
    bench --streams 8 -n 500 --expect-body 'item {seq}' -H 'X-Number: {seq}' \
        "http://127.0.0.1:$(cat node.log)/item/{$range}"
    holds out 'r.trials[0].requests.ok === 500'
    bench --streams 8 -n 500 -m POST --body "{\"n\": {$range}, \"m\": {rand:0-9}}" \
        --expect-body '{"n": {seq}, "m": {rand}}' "http://127.0.0.1:$(cat node.log)/"
    holds out 'r.trials[0].requests.ok === 500'
done
# Connections that are replaced after some requests.
bench --streams 4 -n 500 --lifetime 50 "http://127.0.0.1:$(cat node.log)/item/1"
holds out '((t) => t.requests.ok === 500 && t.connections.retired > 0)(r.trials[0])'
stop_server
if command -v nginx >/dev/null 2>&1; then
    cat >nginx.conf <<CONF
daemon off;
master_process off;
pid nginx.pid;
error_log stderr;
events {}
http {
    access_log off;
    client_body_temp_path b; proxy_temp_path p; fastcgi_temp_path f; uwsgi_temp_path u; scgi_temp_path s;
    server { listen 127.0.0.1:$port http2; root .; }
}
CONF
    start nginx nginx -p . -c nginx.conf -e stderr
    server=$pid
    wait_until 60 answers "$port"
    whole nginx "$port"
    # GOAWAY each 1,000 requests, at full rate.
    printf x >small
    bench --streams 16 -n 20000 "http://127.0.0.1:$port/small"
    holds out '((t) => t.requests.ok === 20000 && t.http2.goaways[0].count >= 15)(r.trials[0])'
    stop_server
fi
if command -v nghttpd >/dev/null 2>&1; then
    start nghttpd nghttpd --no-tls -a 127.0.0.1 -d . "$port"
    server=$pid
    wait_until 60 answers "$port"
    whole nghttpd "$port"
    stop_server
fi
nothing_left
