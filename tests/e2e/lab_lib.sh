# tests/e2e/lab_lib.sh - for sourcing, behind lib.sh: a lab of several hosts (deploy/lab) that ends with
# the case, and runs in it.
# shellcheck shell=sh disable=SC2154 # lib.sh's

need node ip nft unshare nsenter setpriv
[ "$(id -u)" -eq 0 ] || skip 'namespaces are for root to make'
LOCKSTEP_LAB=$LS_TMP/lab
export LOCKSTEP_LAB

lab() {
    sh "$LS_SOURCE/deploy/lab/lab.sh" "$@"
}

# lab_up CLIENTS SERVERS [OPTION...]: with an agent on each host, which gets the options.
lab_up() {
    lab up --clients "$1" --servers "$2" --owner $$ 2>up.err || {
        case $(cat up.err lab/lab.log 2>/dev/null) in
        *'not permitted'* | *'not supported'* | *'Invalid argument'*) skip "no lab here: $(cat up.err)" ;;
        esac
        show up.err
        fail 'there is no lab'
    }
    shift 2
    lab agents start "$@"
}

# lab_plan CLIENTS MEASURE [FLEET_FIELD]: ./plan.yaml, for here and there.
lab_plan() {
    cat >plan.yaml <<PLAN
name: lab
fleet: {clients: $1, cpus: {allow_overlap: true}, max_start_skew: 10s${3:+, $3}}
targets:
  - name: responder
    command: ["$agent", respond, --listen, "{host}:{port}", --die-with-parent]
    port: $(free_port)
workloads:
  - name: w
    http: {requests: [{path: /, expect: {body: "Hello, World!"}}]}
    connections: $((2 * $1))
    load: {constant: {rate: 200/s}}
    warmup: 300ms
    measure: $2
    interval: 250ms
    timeout: 20s
schedule: {repetitions: 1}
PLAN
}

# begin OPTION...: a run in the background; run_ends STATUS... waits for it, stdout is in ./out.
begin() {
    lab run plan.yaml --json --out result "$@" >out 2>err &
    run=$!
}

run_ends() {
    code=0
    wait "$run" || code=$?
    case " $* " in
    *" $code "*) ;;
    *)
        [ ! -s out ] || summary out
        show err lab/log/*.log
        fail "status $code, not $*"
        ;;
    esac
}

# in_phase HOST PHASE: its agent has said so.
in_phase() {
    grep -q "session.phase .* to=$2" "lab/log/$1.log"
}

in_phase_or_over() {
    in_phase "$1" "$2" || ! kill -0 "$run" 2>/dev/null
}

# reaches HOST PHASE: waits until the run has come so far; one that has ended before says why.
reaches() {
    wait_until 120 in_phase_or_over "$@"
    in_phase "$@" || {
        show err lab/log/*.log
        fail "the run has ended before: $*"
    }
}

# The pid, out here, of a host's agent.
agent_of() {
    lab processes "$1" | awk '/lockstep-agent/ && !/ respond / && !/supervisor/ { print $1; exit }'
}

# Nothing but its agent, if that, lives on any of these hosts.
only_agents() {
    for host in "$@"; do
        lab processes "$host" | grep -v -e '[0-9] [^ ]*lockstep-agent --dial ' && return 1
    done
    return 0
}

# What the responder says it had in trial N (from 0): ./counts.json.
tap() {
    grep '^{' "result/$(json out "r.trials[$1].folder")/target.log" | tail -n 1 >counts.json
    holds counts.json 'r.bad_requests === 0'
}

# Everything of trial N (from 0) that was sent, has arrived, once: readiness, preflight, load.
tap_equals() {
    tap "$1"
    same 'requests sent and received' "$(json out "(t => t.server.readiness_requests +
        t.preflight.requests.sent + t.warmup.requests.sent + t.requests.sent)(r.trials[$1])")" \
        "$(json counts.json r.requests)"
}
