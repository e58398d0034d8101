#!/bin/sh
# WebSocket with real servers, Bun, Deno and ws on Node: echoes, compressed ones where they can, and
# rooms in which everything arrives. On request only, for it installs them: LS_SUITES names the folder
# that deploy/suites/npm.sh fills.
. "$(dirname -- "$0")/lib.sh"
[ -n "${LS_SUITES:-}" ] || skip 'LS_SUITES is not set'
need node npm
modules=$(sh "$LS_SOURCE/deploy/suites/npm.sh") || skip 'the suites cannot be installed'
PATH=$modules/.bin:$PATH
servers=$LS_SOURCE/deploy/suites/websocket
export HOST=127.0.0.1 NODE_ENV=production NODE_PATH="$modules" NO_COLOR=1
PORT=$(free_port)
export PORT

# check URL-REST OPTIONS...
check() {
    rest=$1
    shift
    expect '0 4' "$lockstep" bench "ws://127.0.0.1:$PORT/$rest" -t 2 -d 500ms --warmup 100ms "$@" --json
    books_balance out
    holds out '(t => t.requests.ok > 0 && t.requests.ok === t.requests.sent &&
        t.messages.received === t.messages.expected && t.messages.duplicated + t.messages.corrupted === 0)(r.trials[0])'
}
for server in bun deno node; do
    case $server in
    bun) start "$server" bun "$servers/server-bun.mjs" ;;
    deno) start "$server" deno run -A "$servers/server-deno.mjs" ;;
    node) start "$server" node "$servers/server-node.cjs" ;;
    esac
    wait_until 60 sh -c "! \"$LS_HARNESS\" get $PORT / 2>&1 | grep -q refused"
    check echo -c 8 -p 2
    check echo -c 4 --size 70000 --binary
    check echo -c 4 --deflate --message 'Grüße, Grüße, Grüße'
    check '?name={name}&clients=12' --room 12 --round 4 --ready ready --delivery '{name}: {message}'
    check '?name={name}&clients=12' --room 12 -R 200/s --ready ready --delivery '{name}: {message}'
    kill -TERM "$pid"
    wait "$pid" || :
done
