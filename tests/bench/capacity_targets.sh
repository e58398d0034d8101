#!/bin/sh
# The capacity of real servers, beside what other testers make of them: nginx, Node, Bun and Deno, one
# thread each, on the first CPU that this process may use; clients are on the second.
#
#   sh tests/bench/capacity_targets.sh [--p99 TIME] [--budget TIME] [--repetitions N] [--only 'nginx node'] [--out DIR]
#
# Searches (twice, on fresh servers), then a closed loop of 64 connections by wrk and by h2load, and
# h2load at the rate that was found and 10 % above it. A tool or server that is not there is skipped by
# name; wrk2 is not in Debian. Prints a Markdown table. Bun and Deno come from build/suites
# (deploy/suites/npm.sh). LOCKSTEP_BUILD names a build folder to use instead of building the release.
. "$(dirname -- "$0")/capacity_lib.sh"
PATH=$PATH:/usr/sbin:/sbin
export PATH

p99=10ms
budget=3m
repetitions=2
only='nginx node bun deno'
options 'p99 budget repetitions only' "$@"
begin_work
modules=${LS_SUITES:-$root/build/suites}/node_modules
fixtures=$root/deploy/suites/fixtures
port=18480

# program NAME: what starts it, or nothing.
program() {
    case $1 in
    nginx) command -v nginx || : ;;
    node) command -v node || : ;;
    bun | deno) [ ! -x "$modules/.bin/$1" ] || printf '%s\n' "$modules/.bin/$1" ;;
    esac
}

# target NAME PROGRAM: its lines of a plan.
target() {
    case $1 in
    nginx)
        sed "s/listen 18080;.*/listen 127.0.0.1:$port;/" "$root/deploy/targets/hello/nginx.conf" >"$work/nginx.conf"
        printf '    files: [nginx.conf]\n    command: ["%s", -p, "{dir}", -c, nginx.conf, -e, stderr]\n' "$2"
        ;;
    node)
        cp "$fixtures/hello-node.mjs" "$work"
        printf '    files: [hello-node.mjs]\n    command: ["%s", hello-node.mjs]\n    env: {HOST: "{host}", PORT: "{port}"}\n' "$2"
        ;;
    bun)
        cp "$fixtures/hello-fetch.mjs" "$work"
        printf '    files: [hello-fetch.mjs]\n    command: ["%s", hello-fetch.mjs]\n    env: {HOST: "{host}", PORT: "{port}"}\n' "$2"
        ;;
    deno)
        cp "$fixtures/hello-fetch.mjs" "$work"
        printf '    files: [hello-fetch.mjs]\n    command: ["%s", serve, -A, --port, "{port}", --host, "{host}", hello-fetch.mjs]\n    env: {NO_COLOR: "1"}\n' "$2"
        ;;
    esac
}

# search_target NAME PROGRAM: $work/NAME.json
search_target() {
    {
        printf 'name: %s\nfleet: {cpus: {server: "%s", client: "%s"}}\ntargets:\n  - name: %s\n    port: %s\n' \
            "$1" "$server_cpu" "$client_cpu" "$1" "$port"
        target "$1" "$2"
        cat <<PLAN
workloads:
  - name: hello
    connections: 64
    http: {requests: [{path: /, expect: {status: 200, body: "Hello, World!"}}]}
    load: {capacity: {limits: {p99: $p99}, start: 5k/s, budget: $budget}}
schedule: {repetitions: $repetitions, seed: 1}
PLAN
    } >"$work/plan.yaml"
    search "$1"
    [ -z "$out" ] || {
        rm -rf "${out:?}/$1"
        mv "$work/result" "$out/$1"
    }
}

# begin NAME PROGRAM: the same server, for the others.
begin() {
    case $1 in
    nginx) set -- nginx "$2" -p "$work" -c "$work/nginx.conf" -e stderr ;;
    node) set -- node "$2" "$fixtures/hello-node.mjs" ;;
    bun) set -- bun "$2" "$fixtures/hello-fetch.mjs" ;;
    deno) set -- deno "$2" serve -A --port "$port" --host 127.0.0.1 "$fixtures/hello-fetch.mjs" ;;
    esac
    shift
    start "$work/server.log" env HOST=127.0.0.1 PORT="$port" "$@"
    tries=100
    until "$lockstep" bench "http://127.0.0.1:$port/" -c 1 -t 1 -n 1 --warmup 0s -q >/dev/null 2>&1; do
        tries=$((tries - 1))
        [ "$tries" -gt 0 ] || return 0
        sleep 0.1
    done
}

# loaded PERCENTILE_FILE...: p99 in ms of h2load's log: start, status, microseconds.
h2load_p99() {
    sort -n -k3,3 "$1" | awk '{ t[NR] = $3 } END { if (NR) printf "%.2f ms", t[int(NR * 0.99) + 1] / 1000; else printf "-" }'
}

# others NAME PROGRAM RATE: $work/NAME.others, one line a tool: name, requests/s, p99 as it says.
others() {
    : >"$work/$1.others"
    begin "$1" "$2"
    if command -v wrk >/dev/null; then
        taskset -c "$client_cpu" wrk -t1 -c64 -d10s --latency "http://127.0.0.1:$port/" >"$work/wrk.log" 2>&1 || :
        printf 'wrk, closed|%s|%s\n' "$(sed -n 's/^Requests\/sec: *//p' "$work/wrk.log")" \
            "$(sed -n 's/^ *99% *//p' "$work/wrk.log")" >>"$work/$1.others"
    else
        echo 'wrk|not installed|' >>"$work/$1.others"
    fi
    if command -v h2load >/dev/null; then
        for share in 0 100 110; do
            rm -f "$work/h2load.req"
            rps=$(node -p "Math.max(1, Math.round($3 * $share / 6400))")
            paced="--rps=$rps"
            [ "$share" -ne 0 ] || paced=
            # shellcheck disable=SC2086 # none or one
            taskset -c "$client_cpu" h2load --h1 -t1 -c64 -D10 $paced --log-file="$work/h2load.req" \
                "http://127.0.0.1:$port/" >"$work/h2load.log" 2>&1 || :
            name='h2load, closed'
            [ "$share" -eq 0 ] || name="h2load at $share %"
            printf '%s|%s|%s\n' "$name" "$(sed -n 's/^finished in .*, \([0-9.]*\) req\/s.*/\1/p' "$work/h2load.log")" \
                "$(h2load_p99 "$work/h2load.req")" >>"$work/$1.others"
        done
    else
        echo 'h2load|not installed|' >>"$work/$1.others"
    fi
    if command -v wrk2 >/dev/null; then
        for share in 100 110; do
            taskset -c "$client_cpu" wrk2 -t1 -c64 -d10s -R "$(node -p "Math.round($3 * $share / 100)")" --latency \
                "http://127.0.0.1:$port/" >"$work/wrk2.log" 2>&1 || :
            printf 'wrk2 at %s %%|%s|%s\n' "$share" "$(sed -n 's/^Requests\/sec: *//p' "$work/wrk2.log")" \
                "$(sed -n 's/^ *99.000% *//p' "$work/wrk2.log")" >>"$work/$1.others"
        done
    else
        echo 'wrk2|not installed|' >>"$work/$1.others"
    fi
    stop
}

for name in $only; do
    path=$(program "$name")
    if [ -z "$path" ]; then
        printf 'capacity: %s is not there: skipped\n' "$name" >&2
        continue
    fi
    printf 'capacity: %s\n' "$name" >&2
    search_target "$name" "$path"
    found=$(node -p 'JSON.parse(require("fs").readFileSync(process.argv[1])).trials[0]?.capacity?.rate_per_s ?? 0' "$work/$name.json")
    others "$name" "$path" "$found"
done

node - "$work" "$p99" "$only" <<'SCRIPT'
const fs = require('fs');
const [work, p99, only] = process.argv.slice(2);
const k = (n) => (n >= 1000 ? `${(n / 1000).toFixed(2)} k` : n.toFixed(0));

console.log(`| server, p99 ${p99} | capacity/s (95 % interval) | again | they agree | held, 10 % above | limited by | seconds | others: requests/s, p99 as they say it |`);
console.log('| --- | ---: | ---: | --- | --- | --- | ---: | --- |');
for (const name of only.split(' ')) {
    if (!fs.existsSync(`${work}/${name}.json`))
        continue;
    const found = JSON.parse(fs.readFileSync(`${work}/${name}.json`)).trials.map((t) => t.capacity).filter(Boolean);
    if (found.length === 0) {
        console.log(`| ${name} | none | | | | | | |`);
        continue;
    }
    const show = (c) => (c ? `${k(c.rate_per_s)} (${k(c.low_per_s)} to ${c.high_per_s > 0 ? k(c.high_per_s) : '?'})` : '');
    const [a, b] = found;
    const agree = !b ? '' : a.low_per_s <= b.high_per_s && b.low_per_s <= a.high_per_s ? 'yes' : 'no';
    const last = (c, kind) => c.probes.filter((p) => p.kind === kind).pop();
    const held = found.map((c) => {
        const confirm = last(c, 'confirm'), above = last(c, 'above');
        return `${confirm ? (100 * confirm.share).toFixed(2) : '-'} %, ${above ? (100 * above.share).toFixed(2) : '-'} %`;
    }).join('; ');
    const others = fs.readFileSync(`${work}/${name}.others`, 'utf8').trim().split('\n').map((line) => line.split('|'))
        .map(([tool, rate, tail]) => `${tool} ${Number(rate) ? k(Number(rate)) : rate}${tail ? `, ${tail}` : ''}`).join('; ');
    console.log(`| ${name} | ${show(a)} | ${show(b)} | ${agree} | ${held} | ${found.map((c) => c.limited_by).join(', ')} | ` +
        `${Math.max(...found.map((c) => c.took_ns / 1e9)).toFixed(0)} | ${others} |`);
}
SCRIPT
