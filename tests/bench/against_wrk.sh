#!/bin/sh
# Does "lockstep bench" say the same as wrk of the same server? Runs both in turn and compares the
# medians: with the server as the limit they should agree within a few percent.
#
#   sh tests/bench/against_wrk.sh [PAIRS] [SECONDS]        7 pairs of 5 s, unless given
#
# nginx with one worker has the first CPU that this process may use, the clients the second.
set -eu

root=$(CDPATH='' cd -- "$(dirname -- "$0")/../.." && pwd)
pairs=${1:-7}
seconds=${2:-5}
PATH=$PATH:/usr/sbin:/sbin
export PATH
sh "$root/deploy/install.sh" build run bench >&2
sh "$root/deploy/build.sh" release >&2

folder=$(mktemp -d)
trap 'kill "$nginx" 2>/dev/null || :; rm -rf "$folder"' EXIT
trap 'exit 130' INT TERM HUP

# The first two CPUs of the affinity list, "0-3,8" and the like; one twice if there is only one.
# shellcheck disable=SC2046 # two words
set -- $(taskset -cp $$ | sed 's/.*: //' | tr ',' '\n' | awk -F- '
    { for (cpu = $1; cpu <= (NF > 1 ? $2 : $1) && n < 2; cpu++) { last = cpu; n++; print cpu } }
    END { if (n == 1) print last }')
server_cpu=$1
client_cpu=$2

port=18480
cat >"$folder/nginx.conf" <<CONF
daemon off;
worker_processes 1;
pid nginx.pid;
error_log stderr;
events { worker_connections 1024; }
http {
    access_log off;
    client_body_temp_path body;
    proxy_temp_path proxy;
    fastcgi_temp_path fastcgi;
    uwsgi_temp_path uwsgi;
    scgi_temp_path scgi;
    keepalive_requests 1000000000;
    server {
        listen 127.0.0.1:$port;
        location / { default_type text/plain; return 200 "Hello, World!"; }
    }
}
CONF
taskset -c "$server_cpu" nginx -p "$folder" -c "$folder/nginx.conf" &
nginx=$!
tries=0
until wrk -t1 -c1 -d1s "http://127.0.0.1:$port/" >/dev/null 2>&1; do
    kill -0 "$nginx" 2>/dev/null || { echo "nginx did not start" >&2; exit 1; }
    tries=$((tries + 1))
    [ "$tries" -lt 10 ] || exit 1
done

pair=0
while [ "$pair" -lt "$pairs" ]; do
    taskset -c "$client_cpu" wrk -t1 -c64 "-d${seconds}s" "http://127.0.0.1:$port/" |
        awk '/^Requests\/sec:/ { print "wrk", $2 }'
    "$root/build/release/coordinator/lockstep" bench -t 1 -c 64 -d "${seconds}s" --warmup 1s \
        --cpus "$client_cpu" --json "http://127.0.0.1:$port/" 2>/dev/null |
        node -e 'const r = JSON.parse(require("fs").readFileSync(0));
                 console.log("lockstep", r.trials[0].throughput_per_s, r.trials[0].verdict)'
    pair=$((pair + 1))
done | tee "$folder/runs" | sed 's/^/bench: /' >&2

# Medians, of numbers that sort has put into order.
median() {
    awk -v who="$1" '$1 == who { print $2 }' "$folder/runs" | sort -n |
        awk '{ v[NR] = $1 } END { print (v[int((NR + 1) / 2)] + v[int(NR / 2) + 1]) / 2 }'
}
awk -v wrk="$(median wrk)" -v ours="$(median lockstep)" -v pairs="$pairs" -v s="$seconds" 'BEGIN {
    printf "| 13-byte GET, 64 connections, one client CPU, nginx with one | requests/s (median of %d x %d s) | to wrk |\n", pairs, s
    print "| --- | ---: | ---: |"
    printf "| wrk | %.0f | 1.000 |\n| lockstep bench | %.0f | %.3f |\n", wrk, ours, ours / wrk
}'
