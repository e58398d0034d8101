#!/bin/sh
# Who runs where, as the kernel has it while the load runs: lists are obeyed by target and workers,
# auto divides what this process may use, overlap is refused unless the plan allows it, and the
# verdict says when CPUs are shared.
. "$(dirname -- "$0")/lib.sh"
need node taskset

# The CPUs that may be used here, one a line.
taskset -cp $$ | sed 's/.*: //' | tr ',' '\n' | awk -F- '
    { for (cpu = $1; cpu <= (NF > 1 ? $2 : $1); cpu++) print cpu }' >usable
first=$(sed -n 1p usable)
second=$(sed -n 2p usable)
count=$(grep -c '' usable)

port=$(free_port)
# plan CPUS: a plan with that fleet.cpus, ./plan.yaml.
plan() {
    cat >plan.yaml <<PLAN
name: cpus
fleet: {clients: 2, servers: 1, cpus: {$1}}
targets:
  - name: responder
    command: ["$agent", respond, --listen, "{host}:{port}", --die-with-parent]
    env: {CPUS: "{cpus}"}
    port: $port
workloads:
  - name: hello
    http: {requests: [{path: /}]}
    connections: 8
    load: {constant: {rate: 100/s}}
    warmup: 0s
    measure: 30s
schedule: {repetitions: 1}
PLAN
}

# allowed PID: what the kernel allows it.
allowed() {
    sed -n 's/^Cpus_allowed_list:[[:space:]]*//p' "/proc/$1/status"
}

pid_of() {
    "$LS_HARNESS" find "$LS_GUARD" "$1"
}

# places COMMAND...: runs the plan by that command, and once the load runs, notes where everybody is:
# target server client-1 client-2 coordinator. A client's place is that of its workers, "1 1".
places() {
    rm -rf result
    : >err
    "$@" "$lockstep" run plan.yaml --out result --json >out 2>err &
    run=$!
    wait_until 60 grep -q measure err
    target=$(allowed "$(pid_of ' respond --listen ')")
    server=$(allowed "$(pid_of '--name server ')")
    coordinator=$(allowed "$run")
    for client in client-1 client-2; do
        for task in "/proc/$(pid_of "--name $client ")/task"/*; do
            case $(cat "$task/comm") in
            load-*) allowed "${task#/proc/}" ;;
            esac
        done | tr '\n' ' ' | sed 's/ $//' >"$client"
    done
    kill -INT "$run"
    wait "$run" || [ $? -eq 130 ] || fail 'the run did not end by the signal'
    # An interrupted run has its hosts all the same.
    for host in "server:$server" "client-1:$(cat client-1)" "client-2:$(cat client-2)"; do
        same "what the result says of ${host%%:*}" \
            "$(json out "r.hosts.find((host) => host.agent === '${host%%:*}').cpus")" \
            "$(printf '%s' "${host#*:}" | tr ' ' '\n' | sort -nu | awk '
                NR == 1 { from = to = $1; next }
                $1 == to + 1 { to = $1; next }
                { printf "%s%s,", from, (to > from ? "-" to : ""); from = to = $1 }
                END { printf "%s%s", from, (to > from ? "-" to : "") }')"
    done
}

# refused STATUS TEXT COMMAND...
refused() {
    text=$1
    shift
    rm -rf result
    expect 2 "$@" "$lockstep" run plan.yaml --out result --json
    says err "$text"
    [ ! -e result ] || fail 'there is a result folder'
}

plan "server: '$first', client: '9999'"
refused '9999' env
plan "server: '$first', client: '$first'"
refused overlap env

# One CPU for everybody, by the plan's leave and by taskset.
plan "server: '$first', client: '$first', allow_overlap: true"
places env
same 'target' "$first" "$target"
same 'client-1' "$first" "$(cat client-1)"
same 'client-2' "$first" "$(cat client-2)"
holds out 'r.hosts.every((host) => host.cpus_shared)'
plan 'server: auto, client: auto'
places taskset -c "$first"
same 'target' "$first" "$target"
same 'client-1' "$first" "$(cat client-1)"
holds out "r.hosts.every((host) => host.cpus_shared && host.facts.cpus_allowed === '$first')"
expect '0 4' taskset -c "$first" "$lockstep" run plan.yaml --out shared --json \
    --set 'workloads[0].measure=300ms'
holds out 'r.trials[0].reasons.some((reason) => reason.code === "shared_cores")'
nothing_left

[ "$count" -ge 2 ] || exit 0
plan "server: '$second', client: '$first'"
places env
same 'target' "$second" "$target"
same 'server agent' "$second" "$server"
same 'client-1' "$first" "$(cat client-1)"
same 'client-2' "$first" "$(cat client-2)"
[ "$coordinator" != "$second" ] || fail 'the coordinator is where the target is'
holds out 'r.hosts.map((host) => host.cpus_shared).join() === "false,true,true"'
refused 'not within' taskset -c "$first"

# One list given: the other is what it leaves.
plan "server: '$first'"
places taskset -c "$first,$second"
same 'target' "$first" "$target"
same 'clients' "$second $second" "$(cat client-1) $(cat client-2)"

# Nobody shares with the server when both are auto and there are two cores; the agents start from all
# that this process may use, whatever the coordinator keeps to.
plan 'server: auto, client: auto'
places taskset -c "$first,$second"
holds out "r.hosts.every((host) => host.facts.cpus_allowed.split(/[-,]/).join() === '$first,$second')"
[ "$target" = "$first,$second" ] || [ "$target" != "$(cat client-1)" ] ||
    fail "server and client are both on $target"
nothing_left
port_is_free "$port" || fail "port $port is still in use"
