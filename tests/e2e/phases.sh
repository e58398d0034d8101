# tests/e2e/phases.sh - for sourcing, behind lib.sh: a run that can be caught in any phase.
#
# Three trials: "before" and "after" are quick, "wide" stays long enough in the phase that it is made
# for. Which phase an agent has reached is read from its log.
# shellcheck shell=sh disable=SC2154 # lib.sh's
#
# phases: start preflight arm warmup measure drain collect

# Folders that a run makes for itself are made here, where nobody else's are.
mkdir tmp
TMPDIR=$LS_TMP/tmp
export TMPDIR
LOCKSTEP_AGENT_VERBOSE=1
export LOCKSTEP_AGENT_VERBOSE

# A program that takes its time: to start, to answer all but its first request, to end. It is told
# to end by WINCH, which means nothing to the server below it.
slow_target() {
    cat >slow_target.sh <<'TARGET'
start=$1 answer=$2 end=$3 agent=$4 address=$5
trap 'sleep "$end"; kill "$server"; wait "$server"; exit 0' WINCH
sleep "$start"
"$agent" respond --listen "$address" --after "1:slow:$answer" --die-with-parent &
server=$!
while :; do wait "$server" || kill -0 "$server" 2>/dev/null || exit 1; done
TARGET
}

# wide_plan PHASE: ./plan.yaml; the ports are then in $quick and $wide.
wide_plan() {
    # shellcheck disable=SC2046 # two words
    set -- "$1" $(free_port 2)
    quick=$2
    wide=$3
    start=0 answer=50ms end=0 warmup=200ms measure=300ms connections=4
    case $1 in
    start) start=${LS_WIDE:-3} ;;
    preflight | drain) answer=${LS_WIDE:-3}s ;;
    arm) connections=4000 ;;
    warmup) warmup=${LS_WIDE:-3}s ;;
    measure) measure=${LS_WIDE:-3}s ;;
    collect) end=${LS_WIDE:-2} ;; # who cannot be told to end any more has five seconds
    *) fail "no phase is called $1" ;;
    esac
    slow_target
    {
        cat <<PLAN
name: phases
fleet:
  clients: 2
  cpus: {allow_overlap: true}
  max_start_skew: 10s
targets:
  - name: quick
    command: ["$agent", respond, --listen, "{host}:{port}", --die-with-parent]
    port: $quick
  - name: wide
    files: [slow_target.sh]
    command: [sh, slow_target.sh, "$start", "$answer", "$end", "$agent", "{host}:{port}"]
    port: $wide
    ready: {request: {path: /ready}, timeout: 30s}
    stop: {signal: WINCH, grace: 30s}
workloads:
  - name: before
    targets: [quick]
    http: {requests: [{path: /, expect: {body: "Hello, World!"}}]}
    connections: 2
    load: {closed: {requests: 100}}
    warmup: 0s
    measure: 30s
  - name: slowly
    targets: [wide]
    http: {requests: [{path: /, expect: {body: "Hello, World!"}}]}
    connections: $connections
    warmup: $warmup
    measure: $measure
  - name: after
    targets: [quick]
    http: {requests: [{path: /, expect: {body: "Hello, World!"}}]}
    connections: 2
    load: {closed: {requests: 100}}
    warmup: 0s
    measure: 30s
schedule: {repetitions: 1}
PLAN
    } >plan.yaml
}

# The process below this case whose command line matches, in $found.
find_process() {
    found=$("$LS_HARNESS" find "$LS_GUARD" "$1") && [ -n "$found" ]
}

# in_phase PHASE: the run's second trial is in it, or has been.
in_phase() {
    case $1 in
    enrol) ls tmp/lockstep-*/*.log ;;
    start) find_process "^sh slow_target.sh" ;;
    preflight) agent_went client-1 prepare ;;
    collect) agent_went server collect ;;
    *) agent_went client-1 "$1" ;;
    esac
}

agent_went() {
    grep -q "session.phase trial=2 .*to=$2\b" tmp/lockstep-*/"$1.log"
}

# What must hold of any run that has ended, however it has.
all_is_tidy() {
    wait_until 5 nothing_is_left
    same 'folders left' '' "$(ls tmp)"
    for port in $quick $wide; do
        port_is_free "$port" || fail "port $port is still in use"
    done
}

# What is on the disk is what it was when it was finished: "finished_intact TRIALS", their numbers.
finished_intact() {
    (cd result && sha256sum --quiet -c SHA256SUMS) || fail 'a file is not what SHA256SUMS says'
    expect 0 "$lockstep" report result
    says out 'before'
    expect 0 "$lockstep" report result --json
    books_balance result/result.json 'r.trials.filter((t) => t.status === "done")'
    # In one go, as there are many runs and a start of node takes a while.
    holds result/result.json "(() => {
        const read = (file) => JSON.parse(fs.readFileSync(file, 'utf8'));
        const same = (a, b) => JSON.stringify(a) === JSON.stringify(b);
        const kept = fs.readdirSync('result/trials').filter((name) => !name.endsWith('.part'));

        if (r.trials[0].status !== 'done' || r.trials[0].requests.ok !== 100)
            return 'without the first trial';
        for (const trial of '$1'.split(' ').map((number) => r.trials[number - 1]))
            if (!same(trial, read('result/' + trial.folder + '/trial.json')))
                return 'different from ' + trial.folder + '/trial.json';
        if (kept.length !== r.trials.length)
            return 'different from the folders ' + kept.join();
        return same(r, read('out')) || 'different from report --json';
    })()"
}
