# tests/e2e/lib.sh - for sourcing: what the cases share. README.md shows a case line by line.
#
# A case is run by "harness guard": it has a private folder, $LS_TMP, which is its working
# directory, no stdin, and nothing that it starts outlives it. Given by ctest: LS_SOURCE (root of
# the tree), LS_BUILD (root of the build), LS_HARNESS.
# shellcheck shell=sh disable=SC2034,SC2016
set -eu

lockstep=$LS_BUILD/coordinator/lockstep
agent=$LS_BUILD/agent/lockstep-agent
PATH=$PATH:/usr/sbin:/sbin
export PATH
cd "$LS_TMP"

# Ends the case as failed: "fail WHY".
fail() {
    printf 'FAILED: %s\n' "$*" >&2
    exit 1
}

# Ends the case as skipped: "skip WHY".
skip() {
    printf 'skipped: %s\n' "$*" >&2
    exit 77
}

# Skips the case unless these commands are there.
need() {
    for command in "$@"; do
        command -v "$command" >/dev/null 2>&1 || skip "$command is not installed"
    done
}

# Shows a file with its name, for whoever reads a failure.
show() {
    for file in "$@"; do
        printf '%s\n' "--- $file" >&2
        tail -n 40 "$file" >&2 || :
    done
}

# expect STATUS COMMAND...: runs it, with stdout in ./out and stderr in ./err, and fails unless it
# ends with STATUS. "0 4" is one or the other: what a crowded machine makes of figures is not a
# case's business.
expect() {
    wanted=$1
    shift
    status=0
    "$@" >out 2>err || status=$?
    case " $wanted " in
    *" $status "*) ;;
    *)
        show out err
        fail "status $status instead of $wanted: $*"
        ;;
    esac
}

# says FILE TEXT: the file holds the text.
says() {
    grep -qF -- "$2" "$1" || {
        show "$1"
        fail "$1 does not say: $2"
    }
}

# json FILE EXPRESSION: prints the value of a JavaScript expression in which r is the document.
json() {
    node -e '
        const fs = require("fs");
        const r = JSON.parse(fs.readFileSync(process.argv[1], "utf8"));
        const sum = (list) => list.reduce((a, b) => a + b, 0);
        const value = eval(`(${process.argv[2]})`);
        console.log(typeof value === "string" ? value : JSON.stringify(value));
    ' "$1" "$2"
}

# summary FILE: what a result is about, for whoever reads a failure.
summary() {
    json "$1" '[r.status + ", exit status " + r.exit_status + ": " + r.error,
        ...r.trials.map((t) => `${t.index} ${t.target}/${t.workload} ${t.status}, ${t.verdict}: ` +
            t.reasons.map((reason) => `${reason.code} (${reason.text})`).join(", "))].join("\n")' >&2 || :
}

# holds FILE EXPRESSION: it is true.
holds() {
    value=$(json "$1" "$2") || fail "$1 is no JSON, or $2 cannot be computed"
    [ "$value" = true ] || {
        summary "$1"
        fail "$2 is $value"
    }
}

# same WHAT A B: two texts are equal.
same() {
    [ "$2" = "$3" ] || fail "$1: $2 is not $3"
}

# Prints N (1) free ports.
free_port() {
    "$LS_HARNESS" port "${1:-1}"
}

# start NAME COMMAND...: in the background, with its output in ./NAME.log; its pid is then in $pid
# and in ./NAME.pid.
start() {
    name=$1
    shift
    : >"$name.log" # now: what is begun may take a while to do so
    "$@" >>"$name.log" 2>&1 &
    pid=$!
    printf '%s\n' "$pid" >"$name.pid"
}

# wait_until SECONDS COMMAND...: again and again until it succeeds, or the case fails.
wait_until() {
    deadline=$(($(date +%s) + $1))
    shift
    until "$@" >/dev/null 2>&1; do
        [ "$(date +%s)" -le "$deadline" ] || fail "waited in vain for: $*"
        sleep 0.02
    done
}

# began PID: when that process began, in ticks since the system's start; nothing if it is no more. A
# number is given again, with this it is one process's for good. What stands before is its name's.
began() {
    sed 's/.*) //' "/proc/$1/stat" 2>/dev/null | cut -d ' ' -f 20
}

# Whether nothing that this case has started is alive.
nothing_is_left() {
    "$LS_HARNESS" left "$LS_GUARD"
}

# Fails if anything is, or if a run has left the folder that it makes for itself.
nothing_left() {
    alive=$(nothing_is_left) || fail "still alive: $alive"
    same 'folders left' '' "$(find . -maxdepth 2 -name 'lockstep-??????')"
}

# port_is_free PORT: nobody listens on it.
port_is_free() {
    ! "$LS_HARNESS" get "$1" / >/dev/null 2>port_is_free.err &&
        grep -q 'Connection refused' port_is_free.err
}

# The lines of a plan that are the same in most cases: "plan_head NAME CLIENTS".
plan_head() {
    printf 'name: %s\nfleet: {clients: %s, servers: 1, cpus: {server: auto, client: auto, allow_overlap: true}}\n' \
        "$1" "$2"
}

# books_balance RESULT_JSON [TRIALS]: in every trial (or those that this expression gives), phase and
# client, sent and scheduled are the sums that they must be.
books_balance() {
    holds "$1" '(() => {
        const trials = '"${2:-r.trials}"';
        const kinds = ["ok", "bad_status", "bad_body", "bad_framing", "timeout", "reset",
                       "closed_early", "tls_error", "aborted"];
        const balanced = (q) => q.scheduled === q.sent + q.shed &&
                                q.sent === sum(kinds.map((kind) => q[kind]));
        const names = ["scheduled", "sent", "shed", ...kinds];
        return trials.length > 0 && trials.every((t) =>
            [t.requests, t.warmup.requests, t.preflight.requests].every(balanced) &&
            t.clients.every((c) => balanced(c.requests) && balanced(c.warmup.requests)) &&
            names.every((name) => t.requests[name] === sum(t.clients.map((c) => c.requests[name])) &&
                t.warmup.requests[name] === sum(t.clients.map((c) => c.warmup.requests[name]))));
    })()'
}
