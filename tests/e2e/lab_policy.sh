#!/bin/sh
# "servers" in a policy, between hosts: a client loads the host of the run's server agent, which has
# consented by running one, and no other, whoever asks and although it could be reached; connections
# come from where the policy says.
# shellcheck disable=SC2016 # JavaScript
. "$(dirname -- "$0")/lib.sh"
. "$(dirname -- "$0")/lab_lib.sh"

lab up --clients 1 --servers 1 --owner $$ 2>up.err || {
    case $(cat up.err lab/lab.log 2>/dev/null) in
    *'not permitted'* | *'not supported'* | *'Invalid argument'*) skip "no lab here: $(cat up.err)" ;;
    esac
    show up.err
    fail 'there is no lab'
}
cat >lab/policy.yaml <<YAML
programs:
  - {name: responder, path: "$agent", arguments: [respond, --listen, "*:*", --die-with-parent], user: root}
load: {targets: [servers], sources: [10.111.1.0/24], max_rate: 1k/s}
YAML
lab agents start

lab_plan 1 300ms
begin
run_ends 0 4
holds out 'r.trials[0].status === "done" && r.trials[0].requests.ok > 0'
holds out 'r.hosts.every((host) => host.limits.max_rate_per_s === 1000 && host.limits.targets[0] === "servers")'
tap_equals 0

victim=$(free_port)
start_victim() {
    start victim sh "$LS_SOURCE/deploy/lab/lab.sh" exec coordinator "$agent" respond \
        --listen "10.111.0.1:$victim" --die-with-parent
    wait_until 30 grep -q listening victim.log
}

# Ends it; what it had is then in ./counts.json.
stop_victim() {
    lab processes coordinator | awk '/ respond / { print $1 }' | xargs -r kill
    wait_until 30 grep -q '^{' victim.log
    grep '^{' victim.log >counts.json
}

start_victim
lab_plan 1 300ms
sed -i "/^    command:/d; s|^    port:.*|    external: true\n    host: 10.111.0.1\n    port: $victim|" plan.yaml
rm -rf result
begin
run_ends 5
holds out "r.trials[0].reasons.some((x) => x.code === 'policy' &&
    x.text.includes('load.targets: 10.111.0.1 port $victim is not in any of them'))"
stop_victim
holds counts.json 'r.connections === 0'

for source in 127.0.0.1/32 10.111.1.1; do
    lab_plan 1 300ms
    sed -i "s|^    connections:.*|&\n    source_addresses: [$source]|" plan.yaml
    rm -rf result
    begin
    case $source in
    127*)
        run_ends 5
        holds out 'r.trials[0].reasons.some((x) => x.code === "policy" && x.text.includes("load.sources: 127.0.0.1"))'
        ;;
    *) run_ends 0 4 ;;
    esac
done

# It could have been reached: with an entry of its own it is.
lab agents stop
sed -i 's/servers\]/servers, "10.111.0.1:1-65535"]/' lab/policy.yaml
lab agents start
start_victim
lab_plan 1 300ms
sed -i "/^    command:/d; s|^    port:.*|    external: true\n    host: 10.111.0.1\n    port: $victim|" plan.yaml
rm -rf result
begin
run_ends 0 4
stop_victim
holds counts.json 'r.requests > 0'
lab agents stop
lab down
