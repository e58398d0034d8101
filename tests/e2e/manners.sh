#!/bin/sh
# What goes where: the result alone on stdout, progress alone on stderr, one line a second at most
# where nobody watches, a live line on a terminal, no colour for those who want none; and --json is
# one document on stdout, whatever comes of it.
. "$(dirname -- "$0")/lib.sh"
need node

port=$(free_port)
plan() {
    plan_head manners 1
    cat <<PLAN
targets:
  - name: responder
    command: ["$agent", respond, --listen, "{host}:{port}", --die-with-parent]
    port: $port
workloads:
  - name: hello
    http: {requests: [{path: /, expect: {body: "$1"}}]}
    connections: 2
    load: {constant: {rate: 200/s}}
    warmup: 0s
    measure: $2
schedule: {repetitions: $3}
PLAN
}
plan 'Hello, World!' 300ms 3 >plan.yaml
plan 'Hello, World!' 300ms 1 >once.yaml
plan 'Hello, World!' 30s 1 >long.yaml
plan 'Hullo, World!' 500ms 1 >wrong.yaml
escape=$(printf '\033')

# lines FILE PATTERN: how many match.
lines() {
    grep -c -- "$2" "$1" || :
}

# silent FILE: nothing in it would disturb a terminal or a log.
silent() {
    same "escapes in $1" 0 "$(lines "$1" "$escape")"
    same "carriage returns in $1" 0 "$(lines "$1" "$(printf '\r')")"
}

# A file and a pipe: text here, progress there, the latter at most once a second.
before=$(date +%s)
expect '0 4' "$lockstep" run plan.yaml --out result
seconds=$(($(date +%s) - before + 1))
silent out
silent err
says out 'Verdict:'
same 'progress on stdout' 0 "$(lines out '^\[')"
same 'the report on stderr' 0 "$(lines err 'Verdict:')"
moving=$(lines err '  \(start target\|preflight\|clocks\|arm\|armed\|warmup\|measure\|drain\|collect\)')
[ "$moving" -ge 1 ] || fail 'there is no progress'
[ "$moving" -le $((seconds + 1)) ] || fail "$moving lines of progress in $seconds s"

# Quiet means that.
expect '0 4' "$lockstep" run once.yaml --quiet --out quiet
same 'lines on stderr' '' "$(cat err)"
expect '0 4' "$lockstep" run once.yaml --quiet --json --out quiet-json
same 'lines on stderr' '' "$(cat err)"
holds out 'r.trials.length === 1'

# One document for each way to end; that there is nothing else on stdout, JSON.parse sees.
expect 0 "$lockstep" check plan.yaml --json
holds out 'r.status === "checked" && r.exit_status === 0 && r.trials_planned === 3'
holds out 'r.trials.map((t) => t.status + t.repetition).join() === "planned1,planned2,planned3"'
expect 2 "$lockstep" run plan.yaml --json --measure
holds out 'r.status === "failed" && r.exit_status === 2'
expect 3 "$lockstep" run wrong.yaml --json --out wrong
holds out 'r.status === "incomplete" && r.exit_status === 3 && r.trials[0].status === "failed"'
start respond "$agent" respond --listen "127.0.0.1:$port" --every 2:wrong-body --die-with-parent
wait_until 30 grep -q listening respond.log
expect 4 "$lockstep" bench "http://127.0.0.1:$port/" -n 100 --warmup 0s --expect-body 'Hello, World!' --json
holds out 'r.status === "complete" && r.exit_status === 4 && r.trials[0].requests.bad_body > 0'
kill "$pid"
wait "$pid" || :
: >err
"$lockstep" run long.yaml --json --out interrupted >out 2>err &
run=$!
wait_until 60 grep -q measure err
kill -TERM "$run"
code=0
wait "$run" || code=$?
same 'status' 130 "$code"
holds out 'r.status === "interrupted" && r.exit_status === 130'
expect 0 "$lockstep" report result --json
holds out 'r.status === "complete" && r.trials.length === 3'
expect 2 "$lockstep" report nowhere --json
holds out 'r.status === "failed" && r.exit_status === 2'

# What is closed stays closed: nothing of ours gets its number.
code=0
"$lockstep" run once.yaml --json --out closed >out 2>&- || code=$?
[ "$code" -eq 0 ] || [ "$code" -eq 4 ] || fail "status $code without stderr"
holds out 'r.trials.length === 1'
(cd closed && sha256sum --quiet -c SHA256SUMS) || fail 'a file is not what SHA256SUMS says'
code=0
"$lockstep" report result >&- 2>err || code=$?
same 'status without stdout' 70 "$code"
says err 'stdout'
code=0
"$lockstep" check plan.yaml <&- >out 2>&1 || code=$?
same 'status without stdin' 0 "$code"

# A terminal, played by script(1): on_terminal VARIABLE=VALUE... writes what it has shown to ./shown.
command -v script >/dev/null 2>&1 || skip 'the rest needs script'
on_terminal() {
    rm -rf terminal
    env -u CI -u NO_COLOR TERM=xterm "$@" script -qec \
        "'$lockstep' run once.yaml --out terminal" /dev/null >shown </dev/null || :
    says shown 'Verdict:'
}
live=$(printf '\r\033')
dim=$(printf '\033\\[2m')
on_terminal LS=1
[ "$(lines shown "$live\\[[AJ]")" -ge 1 ] || fail 'there is no live line'
[ "$(lines shown "$dim")" -ge 1 ] || fail 'there is no colour'
on_terminal NO_COLOR=1
[ "$(lines shown "$live\\[[AJ]")" -ge 1 ] || fail 'NO_COLOR has taken the live line'
same 'colours with NO_COLOR' 0 "$(lines shown "$escape\\[[0-9;]*m")"
on_terminal TERM=dumb
same 'live lines on a dumb terminal' 0 "$(lines shown "$live")"
on_terminal CI=true
same 'live lines in CI' 0 "$(lines shown "$live")"

# Ctrl-C as it is typed: the whole foreground gets it, and yet the run ends in order.
mkfifo keys
: >shown
script -qec "'$lockstep' run long.yaml --out typed" /dev/null >shown <keys &
run=$!
exec 3>keys
wait_until 60 grep -q measure shown
printf '\003' >&3
code=0
wait "$run" || code=$?
exec 3>&-
same 'status after Ctrl-C' 130 "$code"
says shown 'interrupted'
holds typed/result.json 'r.status === "interrupted" && r.exit_status === 130'
nothing_left
port_is_free "$port" || fail "port $port is still in use"
