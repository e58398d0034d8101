#!/bin/sh
# What does not fit is refused before anything is opened, by the name of its limit; what fits works,
# and what a connection costs is told.
# shellcheck disable=SC3045 # every sh of Debian knows ulimit -n, -S and -H
. "$(dirname -- "$0")/lib.sh"
need node

files=$(ulimit -n)
[ "$files" = unlimited ] || [ "$files" -ge 9500 ] || skip "only $files file descriptors"

responder() {
    start responder "$agent" respond --die-with-parent
    wait_until 60 grep -q '^listening on' responder.log
    port=$(sed -n 's/^listening on .*:\([0-9]*\)$/\1/p' responder.log)
}

# 9,000 connections, from the 62 addresses of a range; memory is the agent's own.
responder
expect "0 4" "$lockstep" bench "http://127.0.0.1:$port/" -c 9000 -t 1 -R 500/s -d 2s \
    --source 127.0.0.0/26 --io libev --json
holds out 'r.trials[0].connections.opened === 9000 && r.trials[0].connections.failed === 0'
holds out 'r.trials[0].clients[0].memory_per_connection_bytes > 100'
holds out 'r.trials[0].clients[0].memory_per_connection_bytes < 1024'
holds out 'r.trials[0].connect_time.count === 9000'
holds out 'r.trials[0].first_byte.count === r.trials[0].requests.ok'
books_balance out

# Fewer descriptors than connections; the soft limit alone is no limit.
(
    ulimit -Sn 300
    ulimit -Hn 1000
    expect "0 4" "$lockstep" bench "http://127.0.0.1:$port/" -c 500 -t 1 -R 500/s -d 1s --json
    holds out 'r.trials[0].connections.opened === 500'
    expect 3 "$lockstep" bench "http://127.0.0.1:$port/" -c 950 -d 1s --json
    holds out 'r.trials[0].reasons.some((x) => x.text.includes("950 connections need 1078 file") &&
        x.text.includes("may have 1000") && x.text.includes("ulimit -n"))'
) || exit 1

# An address that this host has not.
expect 3 "$lockstep" bench "http://127.0.0.1:$port/" -c 10 -d 1s --source 192.0.2.1 --json
holds out 'r.trials[0].reasons.some((x) => x.text.includes("192.0.2.1 cannot be used on this host"))'
