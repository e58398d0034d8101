#!/bin/sh
# Where local ports run out: one client is refused by the limit's name, two clients that fit one by one
# but not together say EADDRNOTAVAIL and what helps, and more source addresses do help.
. "$(dirname -- "$0")/lib.sh"
need node unshare ip sysctl

if [ -z "${LS_FEW_PORTS:-}" ]; then
    unshare -n true 2>/dev/null || skip "network namespaces are not allowed here"
    LS_FEW_PORTS=1 exec unshare -n sh "$0"
fi
ip link set lo up
sysctl -qw net.ipv4.ip_local_port_range="40000 40063" || skip "the port range cannot be set"

start responder "$agent" respond --listen 127.0.0.1:39000 --die-with-parent
wait_until 60 grep -q '^listening on' responder.log

expect 3 "$lockstep" bench http://127.0.0.1:39000/ -c 70 -d 500ms --json
holds out 'r.trials[0].reasons.some((x) => x.text.includes("70 connections from 1 address") &&
    x.text.includes("64 local ports") && x.text.includes("ip_local_port_range"))'
expect "0 4" "$lockstep" bench http://127.0.0.1:39000/ -c 120 -R 100/s -d 500ms --json \
    --source 127.0.0.2 --source 127.0.0.3
holds out 'r.trials[0].connections.opened === 120'
{
    cat <<PLAN
name: few_ports
fleet: {clients: 2}
targets: [{name: there, external: true, port: 39000}]
workloads:
  - name: crowd
    http: {requests: [{}]}
    load: {constant: {rate: 100/s}}
    connections: 90
    warmup: 100ms
    measure: 500ms
schedule: {repetitions: 1}
PLAN
} >plan.yaml
expect "4" "$lockstep" run plan.yaml --json
holds out 'r.trials[0].connections.failures.some((x) => x.name === "EADDRNOTAVAIL")'
holds out 'r.trials[0].reasons.some((x) => x.text.includes("ran out of local ports"))'
