#!/bin/sh
# Over TLS, too: what nginx has counted is what was sent, sessions are resumed or not as the plan
# says, clients show their certificate, and a server that is not the right one gets no load.
. "$(dirname -- "$0")/lib.sh"
need node nginx openssl

# make NAME SUBJECT-ALT-NAMES: NAME.pem and NAME.key, issued by ca.pem.
make() {
    openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj "/CN=$1" \
        -keyout "$1.key" -out "$1.csr" 2>openssl.err
    printf 'subjectAltName=%s\n' "$2" >"$1.ext"
    openssl x509 -req -in "$1.csr" -CA ca.pem -CAkey ca.key -CAcreateserial -days 1 \
        -extfile "$1.ext" -out "$1.pem" 2>openssl.err
}
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 1 -subj '/CN=a CA' \
    -keyout ca.key -out ca.pem 2>openssl.err
make server DNS:example.test
make client DNS:client.test

# serve PORT VERIFY-CLIENT: what nginx is told.
serve() {
    cat <<CONF
daemon off;
worker_processes 1;
pid nginx.pid;
error_log stderr;
events { worker_connections 1024; }
http {
    access_log access.log;
    client_body_temp_path body;
    proxy_temp_path proxy;
    fastcgi_temp_path fastcgi;
    uwsgi_temp_path uwsgi;
    scgi_temp_path scgi;
    keepalive_requests 1000000000;
    log_format tls '\$ssl_session_reused \$ssl_protocol \$ssl_server_name \$ssl_client_verify';
    access_log access.log tls;
    server {
        listen 127.0.0.1:$1 ssl;
        ssl_protocols TLSv1.2 TLSv1.3;
        ssl_certificate server.pem;
        ssl_certificate_key server.key;
        ssl_session_cache shared:all:1m;
        ssl_client_certificate ca.pem;
        ssl_verify_client $2;
        location / { default_type text/plain; return 200 "Hello, World!"; }
    }
}
CONF
}
port=$(free_port)
serve "$port" on >nginx.conf

# plan TLS WORKLOADS
plan() {
    plan_head tls 1
    cat <<PLAN
targets:
  - name: nginx
    files: [nginx.conf, server.pem, server.key, ca.pem]
    command: [nginx, -p, "{dir}", -c, nginx.conf]
    port: $port
    tls: {$1}
    ready: {timeout: 6s, request: {path: /, headers: {Host: example.test}}}
workloads:
PLAN
    printf '%s\n' "$2"
}
# workload NAME HEADERS
workload() {
    cat <<PLAN
  - name: $1
    http:
      requests:
        - {path: /, headers: {Host: example.test$2}, expect: {status: 200, body: "Hello, World!"}}
    connections: 8
    warmup: 200ms
    measure: 400ms
schedule: {repetitions: 1}
PLAN
}
mutual='ca_file: ca.pem, certificate_file: client.pem, key_file: client.key'

plan "$mutual" "$(workload kept '')" >plan.yaml
expect '0 4' "$lockstep" run plan.yaml --json --out kept
books_balance out
holds out 'r.trials.every((t) => t.requests.ok > 0 && t.requests.ok === t.requests.sent)'
holds out '(t => t.tls.full + t.tls.resumed === 8 && t.tls.version === "TLSv1.3" && t.tls.verified)(r.trials[0])'
says kept/plan.yaml 'key_file: client.key'
! grep -rq 'PRIVATE KEY' kept out || fail 'a key is in the result'

for version in 1.2 1.3; do
    for resume in true false; do
        plan "$mutual, min_version: $version, max_version: $version, resume: $resume" \
            "$(workload closed ', Connection: close')" >plan.yaml
        expect '0 4' "$lockstep" run plan.yaml --json --out "closed-$version-$resume"
        books_balance out
        holds out "r.trials[0].tls.version === 'TLSv$version'"
        holds out '(t => t.tls.full + t.tls.resumed === t.connections.opened)(r.trials[0])'
        holds out 'r.trials[0].handshake_time.count > 0'
        holds out "(t => $resume ? t.tls.resumed > 0 : t.tls.resumed === 0)(r.trials[0])"
    done
done

# A server that is not trusted, or not the one that was meant, is not loaded.
plan "$mutual, server_name: other.test" "$(workload kept '')" >plan.yaml
expect 3 "$lockstep" run plan.yaml --json --out other
holds out 'r.trials[0].requests === null || r.trials[0].requests === undefined || r.trials[0].requests.sent === 0'
holds out 'JSON.stringify(r.trials[0].reasons).includes("does not verify for '"'other.test'"': hostname mismatch")'
plan '' "$(workload kept '')" >plan.yaml
expect 3 "$lockstep" run plan.yaml --json --out stranger
holds out 'JSON.stringify(r.trials[0].reasons).includes("set verify: false")'
plan 'verify: false' "$(workload kept '')" >plan.yaml
expect 3 "$lockstep" run plan.yaml --json --out unknown # nginx answers 400: no certificate

# bench, against a server that runs already.
port=$(free_port)
serve "$port" off >nginx.conf
start nginx nginx -p "$LS_TMP" -c nginx.conf
wait_until 60 test -s nginx.pid
expect '0 4' "$lockstep" bench "https://127.0.0.1:$port/" -c 4 -n 400 --warmup 100ms --insecure
says out 'the server'\''s certificate was not verified, as asked for'
expect '0 4' "$lockstep" bench "https://127.0.0.1:$port/" -c 4 -n 400 --warmup 100ms --json \
    --ca ca.pem --server-name example.test --tls-version 1.2 --no-resume -H 'Connection: close' \
    --out bench
holds out '(t => t.requests.ok === 400 && t.tls.full === t.connections.opened && t.tls.version === "TLSv1.2")(r.trials[0])'
expect 0 "$lockstep" check bench/plan.yaml # it names the same file from there, too
same 'names that were sent' example.test "$(awk '{ print $3 }' access.log | tail -n 1)"
expect 3 "$lockstep" bench "https://127.0.0.1:$port/" --ca ca.pem
tr -s '\n ' ' ' <out >flat # wherever the line is broken
says flat 'IP address mismatch'
expect 3 "$lockstep" bench "http://127.0.0.1:$port/"
expect 2 "$lockstep" bench "http://127.0.0.1:$port/" --insecure
says err 'go with an https:// URL'
kill "$pid"
wait "$pid" || :
nothing_left
