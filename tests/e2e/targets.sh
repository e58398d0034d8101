#!/bin/sh
# A target that does not do as it should: the exit status, a sentence that says what it did, its last
# words where they help, and the run goes on with the next target. Nothing is left, whatever it did.
. "$(dirname -- "$0")/lib.sh"
need node

mkdir tmp
TMPDIR=$LS_TMP/tmp
export TMPDIR

# write_plan TARGET_LINES [WORKLOAD_LINES]: a trial of that target and one of a good one. PORT in the
# lines is the target's port, which is then in $port.
write_plan() {
    # shellcheck disable=SC2046 # two words
    set -- "$1" "${2:-measure: 300ms}" $(free_port 2)
    port=$3
    good=$4
    rm -rf result
    {
        plan_head targets 1
        cat <<PLAN
targets:
  - name: bad
$(printf '%s\n' "$1" | sed "s|PORT|$port|g; s/^/    /")
    port: $port
  - name: good
    command: ["$agent", respond, --listen, "{host}:{port}", --die-with-parent]
    port: $good
workloads:
  - name: hello
    http: {requests: [{path: /, expect: {body: "Hello, World!"}}]}
    connections: 2
    warmup: 0s
$(printf '%s\n' "$2" | sed 's/^/    /')
schedule: {repetitions: 1}
PLAN
    } >plan.yaml
}

# ends STATUS CODE TEXT: the run ends so, the first trial has that reason, stderr tells it, too, and
# the second trial is none the worse.
ends() {
    expect "$1" "$lockstep" run plan.yaml --out result --json
    holds out "r.exit_status === $1 && r.trials.length === 2"
    holds out "r.trials[0].reasons.some((reason) => reason.code === '$2' && reason.text.includes('$3'))"
    says err "$3"
    holds out 'r.trials[1].status === "done" && r.trials[1].requests.ok > 0'
    [ "$1" -ne 3 ] || holds out 'r.trials[0].status === "failed" && r.trials[0].verdict === "invalid"'
    nothing_left
    same 'folders left' '' "$(ls tmp)"
    port_is_free "$port" || [ "${4:-}" = taken ] || fail "port $port is still in use"
}

responder="'$agent', respond, --listen, '{host}:{port}', --die-with-parent"

# It ends at once, or cannot be started at all.
write_plan 'command: [sh, -c, "echo I have no licence; exit 7"]'
ends 3 exited 'exit 7; its last words: I have no licence'
# Its words need not be UTF-8, nor be cut between two characters.
write_plan 'command: [sh, -c, "printf caf\\\\351; exit 7"]'
ends 3 exited 'exit 7; its last words: caf?'
# Its folder is its own, and what is there in the place of its log does not hold up the agent.
write_plan "command: [sh, -c, \"rm target.log; mkfifo target.log; exec '$agent' respond --listen {host}:{port} --die-with-parent\"]"
expect "0 4" "$lockstep" run plan.yaml --out result --json
holds out 'r.trials.length === 2 && r.trials.every((trial) => trial.status === "done")'
nothing_left
write_plan 'command: [no-such-program, "{port}"]'
ends 3 start_failed 'no-such-program is not installed'

# It never gets ready: it does not listen, or not with what it should say.
write_plan 'command: [sleep, "1000"]
ready: {timeout: 300ms}'
ends 3 not_ready 'did not accept a connection'
write_plan "command: [$responder, --every, '1:status:500']
ready: {timeout: 3s}"
ends 3 not_ready '500 Internal Server Error'

# It is ready, and then answers the preflight wrongly, or not at all.
write_plan "command: [$responder, --after, '1:wrong-body']"
ends 3 preflight 'body differs at byte 0'
write_plan "command: [$responder, --after, '1:status:503']"
ends 3 preflight '503 Service Unavailable'
write_plan "command: [$responder, --after, '1:garbage']"
ends 3 preflight 'request 1 of 1: GET /'
write_plan "command: [$responder, --after, '1:no-answer']" 'timeout: 2s
measure: 300ms'
ends 3 preflight 'no complete answer within 2s'

# It dies in the middle. After a number of requests, so that it is under load.
write_plan "files: [dies.mjs]
command: [node, dies.mjs, 'PORT']" 'load: {closed: {requests: 2000}}
measure: 30s'
cat >dies.mjs <<'JS'
import http from 'node:http';
let left = 500;
http.createServer((request, response) => {
    response.end('Hello, World!');
    if (--left === 0) {
        console.log('tired');
        process.kill(process.pid, 'SIGSEGV');
    }
}).listen(Number(process.argv[2]), '127.0.0.1');
JS
ends 4 exited 'signal SEGV; its last words: tired'

# It goes to the background: it is told what to do, and what it has started is gone.
write_plan "command: [sh, -c, '\"$agent\" respond --listen 127.0.0.1:PORT & exit 0']"
ends 3 exited 'stays in the foreground'
write_plan "command: [sh, -c, 'setsid sh -c \"setsid sleep 1000 & sleep 1000\" & exec \"$agent\" respond --listen 127.0.0.1:PORT']"
expect '0 4' "$lockstep" run plan.yaml --out result --json
nothing_left

# It ignores TERM: KILL ends it after its grace time, and its trial counts.
write_plan "command: [sh, -c, 'trap \"\" TERM; \"$agent\" respond --listen 127.0.0.1:PORT --die-with-parent & while :; do sleep 1; done']
stop: {grace: 300ms}"
expect '0 4' "$lockstep" run plan.yaml --out result --json
holds out 'r.trials[0].server.exit === "signal KILL" && r.trials[0].server.stopped_by_us'
nothing_left

# Somebody else has the port, and keeps it; the target would have answered as well.
write_plan "command: [$responder]"
start other "$agent" respond --listen "127.0.0.1:$port" --die-with-parent
wait_until 30 grep -q listening other.log
expect 3 "$lockstep" run plan.yaml --out result --json
holds out "r.trials[0].reasons[0].code === 'port_in_use' && r.trials[0].reasons[0].text.includes('$port')"
holds out 'r.trials[1].status === "done"'
kill -0 "$pid" || fail 'the one that has the port was ended'
kill "$pid"
wait "$pid" || :
nothing_left

# Somebody takes the port while the target has it, and has it still when the target is gone.
perl -MSocket -e 1 2>/dev/null || exit 0
cat >shared_port.pl <<'PERL'
use Socket;
$SIG{CHLD} = 'IGNORE';
socket(my $listener, PF_INET, SOCK_STREAM, 0) or die;
setsockopt($listener, SOL_SOCKET, SO_REUSEPORT, 1) or die;
bind($listener, sockaddr_in($ARGV[0], INADDR_LOOPBACK)) or die;
listen($listener, 100) or die;
while (accept(my $peer, $listener)) {
    next if fork;
    my ($text, $piece);
    while (sysread($peer, $piece, 65536)) {
        $text .= $piece;
        while ($text =~ s/^.*?\r\n\r\n//s) {
            syswrite($peer, "HTTP/1.1 200 OK\r\nContent-Length: 13\r\n\r\nHello, World!");
        }
    }
    exit;
}
PERL
write_plan "files: [shared_port.pl]
command: [perl, shared_port.pl, 'PORT']" 'measure: 2s'
start run "$lockstep" run plan.yaml --out result
run=$pid
wait_until 30 "$LS_HARNESS" get "$port" /
start other perl shared_port.pl "$port"
wait "$run" || [ $? -eq 4 ] || fail 'the run did not come to its end'
holds result/result.json "r.trials[0].status === 'done' && r.trials[0].reasons.some((reason) =>
    reason.code === 'port_still_in_use' && reason.text.includes('$port'))"
says run.log 'port_still_in_use'
kill -0 "$pid" || fail 'the one that has the port was ended'
kill "$pid"
wait "$pid" || :
nothing_left
