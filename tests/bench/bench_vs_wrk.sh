#!/bin/sh
# Does "lockstep bench" say the same as wrk of the same server? Both in turn, in one order and then
# in the other. Where nginx's one process is the limit, a page that costs it a regular expression,
# the medians should agree within 5 %; with the cheapest page there is on one machine, the client's
# CPU is the limit as much, and who needs less of it gets more. Nothing is asserted: this is for a
# quiet machine and for people.
#
#   sh tests/bench/bench_vs_wrk.sh [PAIRS] [SECONDS]        7 pairs of 5 s, unless given
#
# The server has the first CPU that this process may use, the clients the second.
set -eu

root=$(CDPATH='' cd -- "$(dirname -- "$0")/../.." && pwd)
pairs=${1:-7}
seconds=${2:-5}
PATH=$PATH:/usr/sbin:/sbin
export PATH
sh "$root/deploy/install.sh" build run bench >&2
sh "$root/deploy/build.sh" release >&2
lockstep=$root/build/release/coordinator/lockstep

# The first two CPUs of the affinity list, "0-3,8" and the like; one twice if there is only one.
# shellcheck disable=SC2046 # two words
set -- $(taskset -cp $$ | sed 's/.*: //' | tr ',' '\n' | awk -F- '
    { for (cpu = $1; cpu <= (NF > 1 ? $2 : $1) && n < 2; cpu++) { last = cpu; n++; print cpu } }
    END { if (n == 1) print last }')
server_cpu=$1
client_cpu=$2

folder=$(mktemp -d)
nginx=
end() {
    [ -z "$nginx" ] || { kill "$nginx" && wait "$nginx"; } 2>/dev/null || :
    rm -rf "$folder"
}
trap end EXIT
trap 'exit 130' INT TERM HUP

# A port that was free a moment ago.
"$root/build/release/agent/lockstep-agent" respond >"$folder/port" &
responder=$!
until grep -q listening "$folder/port"; do sleep 0.02; done
kill "$responder"
wait "$responder" || :
port=$(sed -n 's/^listening on .*://p' "$folder/port")

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
        default_type text/plain;
        location / { return 200 "Hello, World!"; }
        location /costly {
            set \$text aaaaaaaaaaaab;
            if (\$text ~ "^(a+)+\$") { return 500; }
            return 200 "Hello, World!";
        }
    }
}
CONF
taskset -c "$server_cpu" nginx -p "$folder" -c "$folder/nginx.conf" -e stderr &
nginx=$!
tries=0
until "$lockstep" bench "http://127.0.0.1:$port/" -n 1 -c 1 --warmup 0s -q >"$folder/first" 2>&1; do
    kill -0 "$nginx" 2>/dev/null || { echo 'nginx did not start' >&2; exit 1; }
    tries=$((tries + 1))
    [ "$tries" -lt 10 ] || { cat "$folder/first" >&2; exit 1; }
done

# run_wrk PATH, run_lockstep PATH: "TOOL PATH REQUESTS-PER-SECOND ...".
run_wrk() {
    taskset -c "$client_cpu" wrk -t1 -c64 "-d${seconds}s" "http://127.0.0.1:$port$1" |
        awk -v path="$1" '/^Requests\/sec:/ { print "wrk", path, $2 }'
}

# A run that is not valid has its figure all the same; the reasons stand beside it.
run_lockstep() {
    "$lockstep" bench -t 1 -c 64 -d "${seconds}s" --warmup 1s --expect-body 'Hello, World!' \
        --cpus "$client_cpu" --json -q "http://127.0.0.1:$port$1" >"$folder/result" || :
    node -e '
        const r = JSON.parse(require("fs").readFileSync(process.argv[1]));
        const t = r.trials[0];
        console.log("lockstep", process.argv[2], t.throughput_per_s, t.verdict,
                    t.reasons.map((x) => x.code).join());
    ' "$folder/result" "$1"
}

pair=0
while [ "$pair" -lt "$pairs" ]; do
    for path in / /costly; do
        if [ $((pair % 2)) -eq 0 ]; then
            run_wrk "$path"
            run_lockstep "$path"
        else
            run_lockstep "$path"
            run_wrk "$path"
        fi
    done
    pair=$((pair + 1))
done | tee "$folder/runs" | sed 's/^/bench: /' >&2

# The median of column N of a tool's runs, and of the ratios of neighbouring runs: what disturbs one
# of a pair disturbs the other as well.
median() {
    sort -n | awk '{ v[NR] = $1 } END { print (v[int((NR + 1) / 2)] + v[int(NR / 2) + 1]) / 2 }'
}
figures() {
    awk -v who="$1" -v path="$2" '$1 == who && $2 == path { print $3 }' "$folder/runs"
}
echo "| nginx, one process, 64 connections, one client CPU; medians of $pairs pairs of $seconds s | wrk, requests/s | lockstep bench, requests/s | ratio in a pair |"
echo '| --- | ---: | ---: | ---: |'
for path in / /costly; do
    figures wrk "$path" >"$folder/wrk"
    figures lockstep "$path" >"$folder/lockstep"
    ratio=$(paste "$folder/lockstep" "$folder/wrk" | awk '{ print $1 / $2 }' | median)
    printf '| %s | %.0f | %.0f | %.3f |\n' "$path" "$(median <"$folder/wrk")" \
        "$(median <"$folder/lockstep")" "$ratio"
done
