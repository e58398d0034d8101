# tests/e2e/agents.sh - for sourcing, behind lib.sh: agents that dial, and plans for them.
# shellcheck shell=sh disable=SC2154,SC2034 # lib.sh's, and for others

# Folders that agents and runs make for themselves are made here, where nobody else's are.
mkdir tmp
TMPDIR=$LS_TMP/tmp
export TMPDIR

# The coordinator's port, one for a relay, one for the target.
# shellcheck disable=SC2046 # three words
set -- $(free_port 3)
control=$1
through=$2
target=$3
url=tcp://127.0.0.1:$control

# This host runs what the plans of these cases name, and loads itself.
cat >policy.yaml <<POLICY
programs:
  - name: responder
    path: "/**"
    arguments: ["..."]
    version: ["..."]
    user: $(id -un)
load: {targets: [loopback]}
POLICY

# agent_at URL NAME ROLE [OPTION...]: begins one, with its log in ./NAME.log; its pid is then in $pid.
agent_at() {
    at=$1
    who=$2
    role=$3
    shift 3
    start "$who" "$agent" --dial "$at" --name "$who" --role "$role" --policy policy.yaml "$@"
}

# The usual three: a server and two clients.
three_agents() {
    agent_at "$url" s1 server
    server=$pid
    agent_at "$url" c1 client
    first=$pid
    agent_at "$url" c2 client
    second=$pid
}

# fleet_plan REPETITIONS MEASURE [LINES OF fleet]: ./plan.yaml, whose target counts what it gets.
fleet_plan() {
    cat >plan.yaml <<PLAN
name: fleet
fleet:
  clients: 2
  cpus: {allow_overlap: true}
  max_start_skew: 10s
$(printf '%s\n' "${3:-}")
targets:
  - name: responder
    command: ["$agent", respond, --listen, "{host}:{port}", --die-with-parent]
    port: $target
    stop: {grace: 2s}
workloads:
  - name: steady
    http: {requests: [{path: /, expect: {body: "Hello, World!"}}]}
    connections: 4
    load: {constant: {rate: 400/s}}
    warmup: 100ms
    measure: $2
    interval: 100ms
    timeout: 2s
schedule: {repetitions: $1}
PLAN
}

# What Lockstep says that it has sent in these trials (an expression), and what the target has
# received, is the same number: "counts_agree FOLDER 'r.trials'".
counts_agree() {
    for index in $(json "$1/result.json" "$2.map((t) => t.index).join(' ')"); do
        folder=$1/$(json "$1/result.json" "r.trials.find((t) => t.index === $index).folder")
        grep '^{' "$folder/target.log" | tail -n 1 >counts.json
        same "requests of trial $index, sent and received" \
            "$(json "$folder/trial.json" 'r.server.readiness_requests + r.preflight.requests.sent +
                r.warmup.requests.sent + r.requests.sent')" "$(json counts.json r.requests)"
    done
}

# measuring AGENT [TRIAL]: its log says that it is in the measure window of that trial (1).
measuring() {
    grep -q "session.phase trial=${2:-1} .*to=measure" "$1.log"
}

# Ends the agents in order, and sees that they leave nothing behind.
end_agents() {
    for one in "$@"; do
        kill -TERM "$one" 2>/dev/null || :
    done
    wait_until 30 nothing_is_left
    same 'folders left' '' "$(ls tmp)"
    port_is_free "$target" || fail "port $target is still in use"
}
