#!/bin/sh
# B12: which client receives most messages in a room of C, against one and the same server: the
# responder. Best of three; Lockstep's own driver is in the last row.
#   sh deploy/suites/websocket/clients.sh [SECONDS]
set -eu
here=$(cd "$(dirname -- "$0")" && pwd)
modules=$(sh "$here/../npm.sh")
build=${LS_BUILD:-$here/../../../build/release}
seconds=${1:-3}
folder=$(mktemp -d)
server=
trap 'test -z "$server" || kill "$server" 2>/dev/null || :; rm -rf "$folder"' EXIT

# serve CLIENTS: sets $port.
serve() {
    "$build/agent/lockstep-agent" respond --websocket-room --clients "$1" --die-with-parent >"$folder/server" &
    server=$!
    until port=$(sed -n 's/^listening on .*://p' "$folder/server") && [ -n "$port" ]; do sleep 0.05; done
}
# received CLIENT CLIENTS MESSAGES: messages per second, once.
received() {
    serve "$2"
    url=ws://127.0.0.1:$port/
    case $1 in
    lockstep)
        "$build/coordinator/lockstep" bench "$url?name={name}" --room "$2" --round "$3" --ready ready \
            --delivery '{name}: {message}' --size 16 -t 1 -d "${seconds}s" --warmup 500ms --json 2>"$folder/err" |
            sed -n 's/^ *"received_per_s": \([0-9]*\).*/\1/p' | head -n 1
        ;;
    *)
        case $1 in
        bun) set -- "$@" bun ;;
        deno) set -- "$@" deno run -A ;;
        node) set -- "$@" node ;;
        esac
        clients=$2 messages=$3
        shift 3
        CLIENTS=$clients MESSAGES=$messages SECONDS=$seconds URL=$url NODE_PATH=$modules PATH=$modules/.bin:$PATH \
            "$@" "$here/client.mjs" 2>"$folder/err" | sed -n 's/.*"received_per_s":\([0-9]*\).*/\1/p'
        ;;
    esac
    kill "$server" 2>/dev/null || :
    wait "$server" 2>/dev/null || :
    server=
}
printf '%-10s %12s %12s %12s   messages received per second, best of 3\n' client C=32 C=64 C=128
for client in bun deno node lockstep; do
    printf '%-10s' "$client"
    for shape in '32 64' '64 16' '128 4'; do
        best=0
        for _ in 1 2 3; do
            # shellcheck disable=SC2086
            now=$(received "$client" $shape)
            [ "${now:-0}" -le "$best" ] || best=$now
        done
        printf ' %12s' "$best"
    done
    printf '\n'
done
