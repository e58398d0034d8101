#!/bin/sh
# Agents that dial: waited for by name and number, refused for a reason that both sides see, used by
# run after run, and all of it over TLS, too.
. "$(dirname -- "$0")/lib.sh"
. "$(dirname -- "$0")/agents.sh"
need node

# Nobody is there: it says who is missing and gives up.
fleet_plan 1 300ms
expect 3 "$lockstep" run plan.yaml --listen "$url" --wait 300ms --out nobody --json
says err 'missing: 1 server, 2 clients'
holds out 'r.exit_status === 3 && r.trials.length === 0 && r.error.includes("1 server, 2 clients")'

# They come one by one; what is missing is said as it changes. The same agents serve the next run.
start run "$lockstep" run plan.yaml --listen "$url" --out one --json
run=$pid
wait_until 60 grep -q 'waiting for agents' run.log
three_agents
wait "$run" || :
says run.log 'here: '
holds one/result.json 'r.trials.length === 1 && r.trials[0].status === "done" &&
    r.trials[0].address === "127.0.0.1:'"$target"'" &&
    r.hosts.map((h) => h.agent).join() === "s1,c1,c2" && r.hosts.every((h) => h.address === "127.0.0.1" &&
        h.clock.error_ns > 0 && h.host_id === r.hosts[0].host_id)'
books_balance one/result.json
counts_agree one 'r.trials'
says c1.log agent.run_ended

# Names, labels and CPUs of its own; the agent that does not fit is told so and goes on dialling.
agent_at "$url" c3 client --label zone=b
third=$pid
fleet_plan 1 300ms "  agents: [{name: c2}, {labels: {zone: b}}]"
expect '0 4' "$lockstep" run plan.yaml --listen "$url" --out two --json
says err 'client c2'
holds out 'r.trials[0].clients.map((c) => c.agent).join() === "c2,c3" &&
    r.hosts[2].labels.join() === "zone=b"'
wait_until 60 grep -q 'agent.refused agent=c1 .*no_seat' c1.log
fleet_plan 1 300ms "  agents: [{name: elsewhere}]"
expect 3 "$lockstep" run plan.yaml --listen "$url" --out three --wait 3s --json
holds out 'r.error.includes("missing: client elsewhere") && r.error.includes("no_seat")'

# A second one of the same name is turned away, and nothing is executed twice.
agent_at "$url" c3 client --work-dir other
twin=$pid
expect '0 3' "$lockstep" agents --listen "$url" --expect 5 --wait 10s --json
holds out 'r.hosts.map((h) => h.agent).join() === "c1,c2,c3,s1" && r.exit_status === 3 &&
    r.hosts.every((h) => h.version.startsWith("lockstep ") && h.clock.error_ns > 0 && h.facts.cpu_threads > 0)'
says err 'name_taken'
expect 0 "$lockstep" agents --listen "$url" --expect 4
says out s1
kill -TERM "$twin"

# The same plan runs with local agents.
fleet_plan 1 300ms
expect '0 4' "$lockstep" run plan.yaml --out local --json
holds out 'r.trials[0].status === "done" && r.hosts.every((h) => h.address === "local")'

# Two servers: each target is kept by the one that it names, in the lab as on one host.
agent_at "$url" s2 server
other=$pid
fleet_plan 1 300ms "  agents: [{name: s1, role: server}, {name: s2, role: server}]"
sed "s/^workloads:/  - name: second\n    server: s2\n    command: [\"$(printf '%s' "$agent" | sed 's|/|\\/|g')\", respond, --listen, \"{host}:{port}\", --die-with-parent]\n    port: $target\nworkloads:/" plan.yaml >two.yaml
expect '0 4' "$lockstep" run two.yaml --listen "$url" --out both --json
holds out 'r.trials.map((t) => t.server.agent).join() === "s1,s2" && r.trials.every((t) => t.status === "done")'
counts_agree both 'r.trials'
expect '0 4' "$lockstep" run two.yaml --json --out both-local
holds out 'r.trials.map((t) => t.server.agent).join() === "s1,s2" && r.trials.every((t) => t.status === "done")'

end_agents "$server" "$first" "$second" "$third" "$twin" "$other"

# Whom nobody can be sure of is not talked to: exit status 5, and what to do about it.
expect 5 "$agent" --dial tcp://192.0.2.1:1 --once
says err 'lockstep pki'
expect 5 "$lockstep" run plan.yaml --listen tcp://0.0.0.0:0
expect 5 "$lockstep" agents --listen tls+tcp://0.0.0.0:0
expect 5 "$lockstep" run plan.yaml --listen "$url" --keys nowhere

# The same over TLS, with names by certificates.
url=tls+tcp://127.0.0.1:$control
fleet_plan 1 300ms
expect 0 "$lockstep" pki init
expect 0 "$lockstep" pki issue coordinator lab --host 127.0.0.1
for name in s1 c1 c2; do
    expect 0 "$lockstep" pki issue agent $name
    role=client
    [ $name != s1 ] || role=server
    start $name "$agent" --dial "$url" --role $role --policy policy.yaml --keys pki/issued/agent-$name
    eval "$name=\$pid"
done
expect '0 4' "$lockstep" run plan.yaml --listen "$url" --keys pki/issued/coordinator-lab --out tls --json
holds out 'r.trials[0].status === "done" && r.hosts.map((h) => h.agent).join() === "s1,c1,c2"'
holds out 'r.hosts.every((h) => h.identity === "lockstep:agent/" + h.agent && /^[0-9a-f]{64}$/.test(h.fingerprint))'
counts_agree tls 'r.trials'
expect 0 "$lockstep" report tls
says out 's1 has proven to be lockstep:agent/s1'

# Another process with the keys of one that waits (a copy: one folder is one agent's), which the plan has no
# place for: the one that waits is told that its seat was asked for, comes again, and is in the run.
# shellcheck disable=SC2154 # set by eval
kill -TERM "$c2"
wait "$c2" || :
start c2 "$agent" --dial "$url" --role client --label zone=b --policy policy.yaml --keys pki/issued/agent-c2
c2=$pid
fleet_plan 1 300ms "  agents: [{labels: {zone: b}}, {name: late}]"
expect 0 "$lockstep" pki issue agent late
start run "$lockstep" run plan.yaml --listen "$url" --keys pki/issued/coordinator-lab --out twins
run=$pid
wait_until 60 grep -q 'agent.enrolled agent=c2' c2.log
cp -r pki/issued/agent-c2 copy
expect 5 "$agent" --dial "$url" --role client --policy policy.yaml --keys copy --wait 20s
says err no_seat
start late "$agent" --dial "$url" --role client --policy policy.yaml --keys pki/issued/agent-late
late=$pid
wait "$run" || :
holds twins/result.json 'r.trials[0].status === "done" && r.hosts.map((h) => h.agent).join() === "s1,c2,late"'
end_agents "$s1" "$c1" "$c2" "$late"

# A coordinator that was killed when it had all trials and had not said so yet: resuming waits for nobody.
sed -i 's/"finished_at": "[^"]*"/"finished_at": ""/' one/result.json
sum=$(sha256sum <one/result.json | cut -d' ' -f1)
sed -i "s/^[0-9a-f]*\(  result.json\)\$/$sum\1/" one/SHA256SUMS
expect '0 4' "$lockstep" run --resume one --wait 1h --json
holds out 'r.trials.length === 1 && r.trials[0].status === "done" && r.finished_at !== "" &&
    r.hosts.map((h) => h.agent).join() === "s1,c1,c2" && r.hosts.every((h) => h.facts.cpu_threads > 0)'
