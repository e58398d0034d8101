#!/bin/sh
# The cases of run.sh, inside its namespace: cases.sh SETTINGS. Each line of $work/runs is
#   run CASE TOOL ROUND NS-PER-REQUEST REQUESTS-PER-SECOND          or
#   figure CASE NAME ROUND VALUE UNIT
# and is explained by targets.txt and table.awk.
set -eu

# shellcheck disable=SC1090 # what run.sh has written
. "$1"
runs=$work/runs
: >"$runs"
[ "$namespace" != own ] || ip link set lo up
# shellcheck disable=SC3045 # every sh that Debian has knows it
ulimit -n "$(ulimit -Hn)"
server=

say() {
    printf 'bench: %s\n' "$*" >&2
}

have() {
    command -v "$1" >/dev/null 2>&1
}

# Skipped tools and failed runs are named in the table.
note() {
    grep -qxF "note $*" "$runs" || printf 'note %s\n' "$*" >>"$runs"
}

stop_server() {
    if [ -n "$server" ]; then
        kill "$server" 2>/dev/null || :
        wait "$server" 2>/dev/null || :
        server=
    fi
}
trap stop_server EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

# start_server COMMAND...: whose first line on stdout ends in its port.
start_server() {
    stop_server
    : >"$work/server.out"
    taskset -c "$server_cpu" "$@" >"$work/server.out" 2>"$work/server.err" &
    server=$!
    tries=0
    until [ "$(wc -l <"$work/server.out")" -gt 0 ]; do
        tries=$((tries + 1))
        if [ "$tries" -gt 100 ] || ! kill -0 "$server" 2>/dev/null; then
            say "$1 did not start: $(cat "$work/server.err")"
            return 1
        fi
        sleep 0.1
    done
    port=$(head -n 1 "$work/server.out" | sed 's/.*[^0-9]//')
}

# nginx as one process, HTTP and HTTPS.
start_nginx() {
    cat >"$work/nginx.conf" <<CONF
daemon off;
master_process off;
pid nginx.pid;
error_log stderr;
events { worker_connections 4096; }
http {
    access_log off;
    client_body_temp_path body;
    proxy_temp_path proxy;
    fastcgi_temp_path fastcgi;
    uwsgi_temp_path uwsgi;
    scgi_temp_path scgi;
    keepalive_requests 1000000000;
    server {
        listen 127.0.0.1:18480 backlog=4096;
        listen 127.0.0.1:18443 ssl backlog=4096;
        listen 127.0.0.1:18482 http2 backlog=4096;
        ssl_certificate certificate.pem;
        ssl_certificate_key key.pem;
        ssl_protocols TLSv1.3;
        ssl_conf_command Ciphersuites TLS_AES_128_GCM_SHA256;
        location / { default_type text/plain; return 200 "Hello, World!"; }
    }
}
CONF
    stop_server
    taskset -c "$server_cpu" nginx -p "$work" -c "$work/nginx.conf" -e stderr 2>"$work/server.err" &
    server=$!
    port=18480
    tries=0
    defaults
    load='{closed: {requests: 1}}'
    plan 1 >"$work/plan.yaml"
    until "$bin/bench_load" "$client_cpu" "$work/plan.yaml" >/dev/null 2>&1; do
        tries=$((tries + 1))
        if [ "$tries" -gt 100 ] || ! kill -0 "$server" 2>/dev/null; then
            say "nginx did not start: $(cat "$work/server.err")"
            return 1
        fi
        sleep 0.1
    done
}

# plan SECONDS: the plan of a case, from the variables that it has set.
plan() {
    if [ "$http2" = yes ]; then
        protocol="version: http2, streams: $depth"
    else
        protocol="pipeline: $depth"
    fi
    what="http: {$protocol, requests: [{path: \"$path\"$headers, expect: {status: 200, body: \"$body\"}}]}"
    [ -z "$websocket" ] || what=$websocket
    cat <<PLAN
name: bench
fleet: {clients: 1, servers: 0}
targets: [{name: t, external: true, host: 127.0.0.1, port: $port$tls}]
workloads:
  - name: w
    $what
    connections: $connections
    ${load:+load: $load}
    warmup: 0s
    measure: ${1}s$more
PLAN
}

# What a case starts from.
defaults() {
    tls=
    websocket=
    depth=1
    http2=no
    uris=
    path=/
    headers=
    body='Hello, World!'
    connections=64
    load='{closed: {}}'
    more=
    url=http://127.0.0.1:$port/
    limit=$((seconds + 30))
}

# The verified requests that a tool's output tells of; nothing if one of them failed.
count_of() {
    case $1 in
    *+room) sed -n 's/^requests=[0-9]* bad=0 .* received=\([0-9]*\) lost=0 .*/\1/p' ;;
    io_uring* | libev* | floor*) sed -n 's/^requests=\([0-9]*\) bad=0 .*/\1/p' ;;
    wrk*) awk '/Non-2xx|Socket errors/ { bad = 1 } /requests in/ { n = $1 } END { if (!bad) print n }' ;;
    h2load*) sed -n 's/^requests: .* \([0-9]*\) succeeded, 0 failed, 0 errored, 0 timeout$/\1/p' ;;
    s_time*) awk '/connections in .* real seconds/ { print $1 }' ;;
    hey) awk '/^Error distribution/ { bad = 1 } $1 == "[200]" { n = $2 } END { if (!bad) print n }' ;;
    bun) sed -n 's/.*"total":\([0-9]*\),"wrong":0,.*/\1/p' ;;
    autocannon) sed -n 's/.*"errors":0,.*"2xx":\([0-9]*\).*/\1/p' ;;
    esac
}

# measure CASE TOOL ROUND COMMAND...: runs it, writes down what it cost.
measure() {
    case_name=$1
    tool=$2
    round=$3
    shift 3
    status=0
    "$bin/bench_spawn" "$client_cpu" "$limit" "$work/cost" "$@" >"$work/out" 2>"$work/err" || status=$?
    count=$(count_of "$tool" <"$work/out")
    if [ "$status" -ne 0 ] || [ -z "$count" ] || [ "$count" -eq 0 ]; then
        say "$case_name $tool: failed (status $status): $(tail -n 3 "$work/err" | tr '\n' ' ')"
        note "$case_name $tool: a run failed (status $status)"
        return 0
    fi
    sed -n 's/^cpu_ns=\([0-9]*\) .*wall_ns=\([0-9]*\) .*/\1 \2/p' "$work/cost" |
        awk -v c="$case_name" -v t="$tool" -v r="$round" -v n="$count" \
            '{ printf "run %s %s %d %.1f %.0f\n", c, t, r, $1 / n, n * 1e9 / $2 }' | tee -a "$runs" |
        awk '{ printf "bench: %-12s %-16s %2d %10.0f ns/request %8d/s\n", $2, $3, $4, $5, $6 }' >&2
}

# Starts a tool on the case that the variables describe.
run_tool() {
    case_name=$1
    tool=$2
    round=$3
    header=
    case $case_name in tls-resumed | tls-full) header='Connection: close' ;; esac
    case $tool in
    io_uring* | libev*)
        plan "$seconds" >"$work/plan.yaml"
        set -- "workloads[0].io=${tool%%+*}"
        case $tool in
        *+stamps) set -- "$@" 'workloads[0].receive_stamps=on' ;;
        *+bare) set -- "$@" 'workloads[0].receive_stamps=off' ;;
        *+min-wait) set -- "$@" 'workloads[0].min_wait=100us' ;;
        esac
        measure "$case_name" "$tool" "$round" "$bin/bench_load" "$client_cpu" "$work/plan.yaml" "$@"
        ;;
    floor*)
        set -- http1:"$depth"
        [ -z "$websocket" ] || set -- websocket:"$message"
        [ "$tool" = floor ] || set -- "$@" 100
        measure "$case_name" "$tool" "$round" "$bin/bench_floor" "$port" "$connections" "$seconds" "$@"
        ;;
    wrk)
        set -- -t1 "-c$connections" "-d${seconds}s"
        [ -z "$header" ] || set -- "$@" -H "$header"
        [ "$depth" -eq 1 ] || set -- "$@" -s "$work/pipeline.lua"
        measure "$case_name" wrk "$round" wrk "$@" "$url"
        ;;
    h2load)
        # With -D it never ends where the server closes each connection: a number that takes as long.
        if [ "$http2" = yes ]; then
            set -- -t1 "-c$connections" -m "$depth" -D "$seconds"
        elif [ -n "$header" ]; then
            set -- --h1 -t1 "-c$connections" -n $((seconds * 2000)) -H "$header"
        else
            set -- --h1 -t1 "-c$connections" -m "$depth" -D "$seconds"
        fi
        if [ -z "$uris" ]; then
            measure "$case_name" h2load "$round" h2load "$@" "$url"
        else
            measure "$case_name" h2load "$round" h2load "$@" -i "$uris"
        fi
        ;;
    s_time)
        measure "$case_name" s_time "$round" openssl s_time -connect "127.0.0.1:$port" -new \
            -time "$seconds" -www /
        ;;
    bun) # its own warm-up of half a second is within
        measure "$case_name" bun "$round" env CLIENTS="$connections" MESSAGES="$depth" PIPELINE="$bun_pipeline" \
            SIZE="$message" SECONDS="$seconds" URL="$url" "$bun" "$root/deploy/suites/websocket/client.mjs"
        ;;
    hey) measure "$case_name" hey "$round" hey -z "${seconds}s" -c "$connections" -cpus 1 "$url" ;;
    autocannon)
        measure "$case_name" autocannon "$round" "$autocannon" -c "$connections" -d "$seconds" \
            --json --no-progress "$url"
        ;;
    esac
}

# available TOOL...: those that are there; the others are noted.
available() {
    for tool in "$@"; do
        there=no
        case $tool in
        io_uring* | floor*) there=$has_uring ;;
        libev*) there=yes ;;
        bun) [ ! -x "$bun" ] || there=yes ;;
        s_time) ! have openssl || there=yes ;;
        autocannon) [ ! -x "$autocannon" ] || there=yes ;;
        *) ! have "$tool" || there=yes ;;
        esac
        if [ "$there" = yes ]; then printf '%s ' "$tool"; else note "$tool is not available here: skipped"; fi
    done
}

# compare CASE TOOL...: rounds of all tools in turn, each other one backwards, so that neither the
# first nor what grows slower or faster with time is favoured.
compare() {
    compared=$1
    shift
    tools=$(available "$@")
    backwards=
    for tool in $tools; do
        backwards="$tool $backwards"
    done
    round=1
    while [ "$round" -le "$pairs" ]; do
        if [ $((round % 2)) -eq 1 ]; then order=$tools; else order=$backwards; fi
        for tool in $order; do
            case $tool in hey | autocannon) [ "$round" -le 3 ] || continue ;; esac
            run_tool "$compared" "$tool" "$round"
        done
        round=$((round + 1))
    done
}

# figure CASE NAME ROUND VALUE UNIT
figure() {
    printf 'figure %s\n' "$*" >>"$runs"
    printf 'bench: %-12s %-24s %2d %12s %s\n' "$1" "$2" "$3" "$4" "$5" >&2
}

# field NAME: of the line of key=value in $work/out.
field() {
    sed -n "s/^\(.* \)\{0,1\}$1=\([^ ]*\).*/\2/p" "$work/out"
}

# lockstep ROUND IO SECONDS: the plan of the variables, for its figures rather than its costs.
lockstep() {
    plan "$3" >"$work/plan.yaml"
    "$bin/bench_spawn" "$client_cpu" "$limit" "$work/cost" "$bin/bench_load" "$client_cpu" \
        "$work/plan.yaml" "workloads[0].io=$2" >"$work/out" 2>"$work/err" || {
        say "lockstep failed: $(cat "$work/err")"
        return 1
    }
}

# ---- the cases: a comment "## NAME  what it is" stands before each

## h1-64       13-byte GET, 64 connections, a server faster than the client
case_h1_64() {
    start_server "$bin/bench_fast_server" 13
    defaults
    if [ "$quick" = yes ]; then
        compare h1-64 io_uring libev floor wrk h2load
    else
        compare h1-64 io_uring libev floor wrk h2load hey autocannon
    fi
}

## h1-256      the same with 256 connections
case_h1_256() {
    start_server "$bin/bench_fast_server" 13
    defaults
    connections=256
    compare h1-256 io_uring libev floor wrk h2load
}

## h1-pipeline 16 requests in flight on each of 64 connections, 4096 URLs, each answer verified
case_h1_pipeline() {
    start_server "$bin/bench_fast_server" 13
    defaults
    depth=16
    path='/item/{seq:0-4095}'
    # wrk's users prepare batches; as many as there are URLs
    cat >"$work/pipeline.lua" <<'LUA'
local batches, at = {}, 0
init = function(args)
    for i = 0, 255 do
        local batch = {}
        for j = 0, 15 do batch[j + 1] = wrk.format("GET", "/item/" .. i * 16 + j) end
        batches[i] = table.concat(batch)
    end
end
request = function()
    at = (at + 1) % 256
    return batches[at]
end
LUA
    awk -v url="$url" 'BEGIN { for (i = 0; i < 4096; i++) print url "item/" i }' >"$work/uris"
    uris=$work/uris
    compare h1-pipeline io_uring libev floor wrk h2load
}

## h1-body     64 KiB bodies, 64 connections; Lockstep compares every byte, wrk none
case_h1_body() {
    start_server "$bin/bench_fast_server" 65536
    defaults
    body=$(awk 'BEGIN { for (i = 0; i < 65536; i++) printf "%d", i % 10 }')
    compare h1-body io_uring libev wrk
}

## h1-nginx    13-byte GET, 64 connections, nginx: the server is the limit, clients wait
case_h1_nginx() {
    start_nginx
    defaults
    compare h1-nginx io_uring io_uring+min-wait libev floor floor+min-wait wrk h2load
}

# Bun's server of the suites, echo and chat room.
start_bun() {
    [ -x "$bun" ] || {
        note "bun is not available here: no WebSocket"
        return 1
    }
    start_server env PORT=0 NODE_ENV=production "$bun" "$root/deploy/suites/websocket/server-bun.mjs"
}

# 64 connections, messages of 64 bytes, against the server that was started.
echo_case() {
    defaults
    url=ws://127.0.0.1:$port/echo
    bun_pipeline=1
    message=64
    websocket='websocket: {path: /echo, message: {size: 64}, echo: {}}'
    compare "$1" io_uring io_uring+min-wait libev floor bun
}

## ws-echo     WebSocket, 64 connections, messages of 64 bytes, there and back to the responder
case_ws_echo() {
    start_server "$root/build/bench/agent/lockstep-agent" respond
    echo_case ws-echo
}

## ws-echo-bun  the same to Bun's server, which is the limit: clients wait
case_ws_echo_bun() {
    start_bun
    echo_case ws-echo-bun
}

# A room of $1 whose rounds are $2 messages of each: what is counted is messages received.
room() {
    start_bun
    defaults
    connections=$1
    depth=$2
    url=ws://127.0.0.1:$port/
    bun_pipeline=0
    message=16
    load=
    websocket="websocket: {path: \"/?name={name}&clients=$1\", message: {size: 16}, room: {round: $2, ready: ready, delivery: '{name}: {message}'}}"
    compare "ws-room-$1" io_uring+room libev+room bun
}

## ws-room-32  chat room of 32, 64 messages of each a round: cost of a message received
case_ws_room_32() {
    room 32 64
}

## ws-room-64  chat room of 64, 16 messages of each a round
case_ws_room_64() {
    room 64 16
}

## ws-room-128  chat room of 128, 4 messages of each a round
case_ws_room_128() {
    room 128 4
}

## h1-stamps   what the kernel's receive stamps cost, on io_uring (where they are on) and libev (where not)
case_h1_stamps() {
    start_server "$bin/bench_fast_server" 13
    defaults
    compare h1-stamps io_uring io_uring+stamps io_uring+bare libev+stamps libev+bare
}

h2() {
    defaults
    http2=yes
    depth=16
}

## h2-light    HTTP/2 without TLS, 64 connections with 16 streams each, a server faster than the client
case_h2_light() {
    start_server "$bin/bench_fast_server" 13
    h2
    compare h2-light io_uring libev h2load
}

## h2-urls     the same with 4096 URLs
case_h2_urls() {
    start_server "$bin/bench_fast_server" 13
    h2
    path='/item/{seq:0-4095}'
    awk -v url="$url" 'BEGIN { for (i = 0; i < 4096; i++) print url "item/" i }' >"$work/uris"
    uris=$work/uris
    compare h2-urls io_uring libev h2load
}

## h2-tls      the same over TLS by ALPN
case_h2_tls() {
    certificate
    start_server "$bin/bench_fast_server" 13 "$work/certificate.pem" "$work/key.pem"
    h2
    tls=', tls: {verify: false}'
    url=https://127.0.0.1:$port/
    compare h2-tls io_uring libev h2load
}

## h2-nghttpd  64 connections with 16 streams each, nghttpd
case_h2_nghttpd() {
    have nghttpd || {
        note "nghttpd is not available here: h2-nghttpd is left out"
        return 0
    }
    mkdir -p "$work/www"
    printf 'Hello, World!' >"$work/www/index.html"
    stop_server
    port=18482
    taskset -c "$server_cpu" nghttpd --no-tls -n1 -a 127.0.0.1 -d "$work/www" "$port" 2>"$work/server.err" &
    server=$!
    sleep 0.3
    h2
    compare h2-nghttpd io_uring io_uring+min-wait libev h2load
}

## h2-nginx    64 connections with 16 streams each, nginx
case_h2_nginx() {
    start_nginx
    port=18482
    h2
    compare h2-nginx io_uring libev h2load
}

certificate() {
    [ -e "$work/key.pem" ] || openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes \
        -subj /CN=localhost -days 2 -keyout "$work/key.pem" -out "$work/certificate.pem" 2>/dev/null
}

## tls-keep    TLS 1.3 with AES-128, 64 connections kept, 13-byte GET
case_tls_keep() {
    start_server "$bin/bench_fast_server" 13 "$work/certificate.pem" "$work/key.pem"
    defaults
    tls=', tls: {verify: false}'
    url=https://127.0.0.1:$port/
    compare tls-keep io_uring libev wrk h2load
}

tls_connections() {
    start_nginx
    port=18443
    defaults
    connections=8
    url=https://127.0.0.1:$port/
    # As the others do it: the server closes. Whoever closes first wakes the other once more.
    headers=', headers: {Connection: close}'
}

## tls-resumed a TLS connection per request, resumed (as wrk and h2load do without saying so), nginx
case_tls_resumed() {
    tls_connections
    tls=', tls: {verify: false}'
    compare tls-resumed io_uring libev wrk h2load
}

## tls-full    a full TLS handshake per request, P-256, nginx, beside openssl s_time -new
case_tls_full() {
    tls_connections
    tls=', tls: {verify: false, resume: false}'
    compare tls-full io_uring libev s_time
}

## open-20k    error of the send instants at 20,000/s on 64 connections, as Lockstep itself sees it
case_open_20k() {
    start_server "$bin/bench_fast_server" 13
    defaults
    load='{constant: {rate: 20k/s}}'
    round=1
    while [ "$round" -le "$pairs" ]; do
        for io in $(available io_uring libev); do
            for pacing in precise frugal; do
                more="
    pacing: $pacing"
                lockstep "$round" "$io" "$seconds" || continue
                for p in p50 p99; do
                    figure open-20k "$io:$pacing:$p" "$round" \
                        "$(field "send_lag_$p" | awk '{ print $1 / 1000 }')" us
                done
            done
        done
        round=$((round + 1))
    done
}

# seen NAME ROUND COMMAND...: how late the server got what the command sent at 20,000/s.
seen() {
    name=$1
    round=$2
    shift 2
    "$bin/bench_spawn" "$client_cpu" "$limit" "$work/cost" "$@" >"$work/client" 2>&1 || :
    kill "$server"
    wait "$server" || :
    server=
    tail -n +2 "$work/server.out" >"$work/out"
    if [ -n "$(field p50_ns)" ]; then
        figure open-seen "$name" "$round" "$(field p50_ns | awk '{ print $1 / 1000 }')" us
        figure open-seen "$name:p99" "$round" "$(field p99_ns | awk '{ print $1 / 1000 }')" us
    else
        note "open-seen $name: a run failed: $(head -c 200 "$work/client" | tr '\n' ' ')"
    fi
}

## open-seen   the same as a recording server sees it, beside wrk2 and h2load --rps; server polls
case_open_seen() {
    length=$((seconds + 1))
    round=1
    while [ "$round" -le "$pairs" ] && [ "$round" -le 5 ]; do
        for tool in $(available io_uring libev h2load wrk2); do
            start_server "$bin/bench_arrivals" 20000 1000
            defaults
            load='{constant: {rate: 20k/s}}'
            case $tool in
            io_uring | libev)
                plan "$length" >"$work/plan.yaml"
                seen "$tool" "$round" "$bin/bench_load" "$client_cpu" "$work/plan.yaml" \
                    "workloads[0].io=$tool"
                ;;
            h2load) seen h2load "$round" h2load --h1 -t1 -c64 --rps=312.5 -D "$length" "$url" ;;
            wrk2) seen wrk2 "$round" wrk2 -t1 -c64 -R20000 "-d$((length + 10))s" "$url" ;; # 10 s of calibration
            esac
        done
        round=$((round + 1))
    done
}

## open-100k   100,000/s from one core: the share that was answered within the window, and the send lag
case_open_100k() {
    start_server "$bin/bench_fast_server" 13
    defaults
    load='{constant: {rate: 100k/s}}'
    round=1
    while [ "$round" -le "$pairs" ] && [ "$round" -le 5 ]; do
        for io in $(available io_uring libev); do
            lockstep "$round" "$io" "$seconds" || continue
            figure open-100k "$io:held" "$round" "$(field in_window | awk -v s="$seconds" \
                '{ print $1 / s / 1000 }')" %
            figure open-100k "$io:lag-p50" "$round" \
                "$(field send_lag_p50 | awk '{ print $1 / 1000 }')" us
            figure open-100k "$io:lag-p99" "$round" \
                "$(field send_lag_p99 | awk '{ print $1 / 1000 }')" us
        done
        round=$((round + 1))
    done
}

# truth_of NAME: percentiles of Lockstep's response time, in ms.
truth_of() {
    for p in p50 p95 p99 p999; do
        figure truth "$1:$p" 1 "$(field "response_time_$p" | awk '{ print $1 / 1e6 }')" ms
    done
}

# Its pace with 256 connections that never let it rest, by wrk: what a backlog is worked off with.
measure_pace() {
    pace=
    have wrk || return 0
    start_server "$root/build/bench/agent/lockstep-agent" respond --latency constant:1ms --spin 200us
    "$bin/bench_spawn" "$client_cpu" 30 "$work/cost" wrk -t1 -c256 -d2s "http://127.0.0.1:$port/" >"$work/client" 2>&1 || :
    pace=$(awk '$1 == "Requests/sec:" { print $2 }' "$work/client")
    [ -z "$pace" ] || figure truth pace 1 "$pace" /s
}

start_known() {
    start_server "$root/build/bench/agent/lockstep-agent" respond --latency constant:1ms \
        --stall 10s:1s --spin 200us
    sleep 1.2 # so that a window of whole periods holds whole stalls: the first one ends after 11 s
    defaults
    connections=256
}

## truth       latency of a server that takes 1 ms and freezes for 1 s every 10 s, 256 connections
case_truth() {
    length=20
    rates='200 1000'
    [ "$quick" = no ] || { length=10 rates=1000; }
    # At 1000/s there is a backlog, and its 500th answer is the p95.
    measure_pace
    [ -z "$pace" ] || echo "$pace" |
        awk '{ printf "truth truth lockstep-1000/s:p95 %.2f\n", 500 + 500 * 1000 / $1 }' >>"$runs"
    for rate in $rates; do
        start_known
        load="{constant: {rate: $rate/s}}"
        if lockstep 1 auto "$length"; then truth_of "lockstep-$rate/s"; fi
    done
    [ "$quick" = no ] || return 0
    if have h2load; then
        start_known
        rm -f "$work/h2load.log"
        "$bin/bench_spawn" "$client_cpu" "$limit" "$work/cost" h2load --h1 -t1 -c256 --rps=3.90625 \
            -D "$length" --log-file="$work/h2load.log" "$url" >"$work/client" 2>&1 || :
        sort -n -k3,3 "$work/h2load.log" | awk '{ us[NR] = $3 } END {
            split("50 95 99 999", q)
            for (i = 1; i <= 4; i++) {
                at = NR * (q[i] > 100 ? q[i] / 1000 : q[i] / 100)
                print q[i], us[at == int(at) ? at : int(at) + 1] / 1000
            }
        }' >"$work/quantiles"
        while read -r q value; do
            figure truth "h2load-1000/s:p$q" 1 "$value" ms
        done <"$work/quantiles"
    fi
    for tool in $(available wrk wrk2); do
        start_known
        set -- -t1 -c256 "-d${length}s" --latency
        name=wrk-closed
        [ "$tool" = wrk ] || { set -- "$@" -R1000; name=wrk2-1000/s; }
        "$bin/bench_spawn" "$client_cpu" "$limit" "$work/cost" "$tool" "$@" "$url" >"$work/client" 2>&1 || :
        awk '$1 ~ /^(50|99)(\.000)?%$/ {
            ms = $2 + 0
            if ($2 ~ /us$/) ms /= 1000
            else if ($2 !~ /ms$/) ms *= 1000
            print int($1), ms
        }' "$work/client" >"$work/quantiles"
        while read -r q value; do
            figure truth "$name:p$q" 1 "$value" ms
        done <"$work/quantiles"
    done
}

## memory      user memory per idle connection, from the difference of two numbers of them
case_memory() {
    # shellcheck disable=SC3045
    most=$(ulimit -n)
    if [ "$most" -gt 8300 ]; then most=8000; else most=$((most - 300)); fi
    for kind in plain tls; do
        few=500
        many=$most
        if [ "$kind" = tls ]; then
            many=2500
            start_server "$bin/bench_fast_server" 13 "$work/certificate.pem" "$work/key.pem"
        else
            start_server "$bin/bench_fast_server" 13
        fi
        defaults
        [ "$kind" = plain ] || tls=', tls: {verify: false}'
        limit=120
        load='{constant: {rate: 1000/s}}'
        for io in $(available io_uring libev); do
            connections=$few
            lockstep 1 "$io" 1 || continue
            least=$(field armed_kib)
            connections=$many
            if ! lockstep 1 "$io" 1 || [ -z "$least" ]; then
                note "memory $io:$kind: not measured"
                continue
            fi
            figure memory "$io:$kind" 1 \
                $((($(field armed_kib) - least) * 1024 / (many - few))) bytes
        done
    done
}

## micro       parts of the load by themselves: recording, merging, encoding, schedules, HTTP/1
case_micro() {
    round=1
    while [ "$round" -le 3 ]; do
        "$bin/bench_spawn" "$client_cpu" "$limit" "$work/cost" "$bin/bench_micro" >"$work/out"
        while read -r name value; do
            case $name in hist_bytes*) unit=bytes ;; *) unit=ns ;; esac
            figure micro "$name" "$round" "$value" "$unit"
        done <"$work/out"
        round=$((round + 1))
    done
}

## fleet       a coordinator of 100, 1000 and 5000 simulated agents, over TLS
case_fleet() {
    # shellcheck disable=SC3045
    descriptors=$(ulimit -n)
    for agents in 100 1000 5000; do
        if [ "$descriptors" -lt $((3 * agents)) ]; then # both ends, and the agent's log
            note "fleet $agents: needs $((3 * agents)) descriptors, there are $descriptors: skipped"
            continue
        fi
        rm -rf "$work/fleet"
        "$bin/bench_spawn" "$client_cpu" 400 "$work/cost" "$bin/bench_fleet" "$server_cpu" \
            "$client_cpu" "$root/build/bench/coordinator/lockstep" "$work/fleet" "$agents" \
            >"$work/out" 2>"$work/err" || {
            note "fleet $agents: $(tail -n 1 "$work/err" | cut -c1-160)"
            continue
        }
        figure fleet "$agents:report" 1 "$(field report_us)" us
        figure fleet "$agents:session" 1 "$(field session_kib)" KiB
        figure fleet "$agents:memory" 1 "$(field load_kib)" KiB
        figure fleet "$agents:barrier" 1 "$(field barrier_ms)" ms
        figure fleet "$agents:connect" 1 "$(field session_cpu_us)" us
    done
    rm -rf "$work/fleet"
}

## start       from the command to the prompt for a single request, by hyperfine
case_start() {
    have hyperfine || {
        note "hyperfine is not available here: no start-up times"
        return 0
    }
    # -i: one request is too few for a verdict, which the exit status says
    start_server "$bin/bench_fast_server" 13
    defaults
    set -- -n 'lockstep bench' "$root/build/bench/coordinator/lockstep bench -q --warmup 0s -c1 -t1 -n1 $url"
    for tool in $(available h2load hey); do
        case $tool in
        h2load) set -- "$@" -n h2load "h2load --h1 -n1 -c1 $url" ;;
        hey) set -- "$@" -n hey "hey -n 1 -c 1 $url" ;;
        esac
    done
    "$bin/bench_spawn" "$client_cpu" 60 "$work/cost" hyperfine -N -i -w 2 -r "$((pairs + 1))" \
        --export-csv "$work/start.csv" "$@" >"$work/out" 2>"$work/err" || {
        note "start: hyperfine failed: $(tail -n 1 "$work/err")"
        return 0
    }
    tail -n +2 "$work/start.csv" | sed 's/lockstep bench/lockstep-bench/' |
        awk -F, '{ print $1, $4 * 1000 }' >"$work/quantiles"
    while read -r name value; do
        figure start "$name" 1 "$value" ms
    done <"$work/quantiles"
}

# ---- all of them, or those that were asked for

wanted() {
    [ -n "$cases" ] || {
        [ "$quick" = no ] || case $1 in h1-256 | h1-stamps | memory | fleet) return 1 ;; esac
        return 0
    }
    for prefix in $cases; do
        case $1 in "$prefix"*) return 0 ;; esac
    done
    return 1
}

stolen() {
    awk '$1 == "cpu" { print $9; exit }' /proc/stat
}

port=0
cut -d' ' -f1-3 /proc/loadavg >"$work/loadavg"
stolen_before=$(stolen)
began=$(date +%s)
certificate
start_server "$bin/bench_fast_server" 13
defaults
has_uring=yes
plan 1 >"$work/plan.yaml"
"$bin/bench_load" "$client_cpu" "$work/plan.yaml" 'workloads[0].io=io_uring' >/dev/null 2>&1 ||
    has_uring=no
names=$(sed -n 's/^## \([a-z0-9-]*\) .*/\1/p' "$0")
for name in $names; do
    wanted "$name" || continue
    "case_$(echo "$name" | tr - _)" || note "$name: not measured"
done
stop_server
took=$(($(date +%s) - began))
echo "$(stolen) $stolen_before $took $(getconf CLK_TCK) $(getconf _NPROCESSORS_ONLN)" |
    awk '{ printf "%.1f\n", 100 * ($1 - $2) / (($3 > 0 ? $3 : 1) * $4 * $5) }' >"$work/stolen"
