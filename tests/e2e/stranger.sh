#!/bin/sh
# What other load generators let a stranger do who can reach them over the network, and what comes of
# it here. Two that are in wide use, as they come:
#
#   fio 3.33, `fio --server`: listens on all addresses (port 8765) and asks nobody who he is. A job
#   that is sent to it may say `exec_prerun=COMMAND`, which it hands to a shell: whoever can connect
#   runs commands as the server's user, and reads and writes any file as that user besides.
#
#   JMeter's remote mode, `jmeter-server`: a registry and an object of Java's RMI listen. Without SSL,
#   which was the default before version 4.0, whoever can connect has his objects unpacked, which was
#   enough to run code (CVE-2018-1297, CVE-2019-0187), and sends test plans, which may run programs
#   (OS Process Sampler, JSR223) and load any host there is.
#
# A Lockstep agent is to be different in each step: there is nothing to connect to; it does not dial
# anybody who cannot prove who he is; whoever takes the coordinator's place on its own host gets no
# program run and no other host loaded; whoever has keys of another authority is nobody; and a
# coordinator who can prove who he is still gets only what the host's policy allows, if he is among
# those whom it names.
. "$(dirname -- "$0")/lib.sh"
need node
false_coordinator=$(dirname -- "$LS_HARNESS")/false_coordinator

mkdir tmp
TMPDIR=$LS_TMP/tmp
export TMPDIR
# shellcheck disable=SC2046 # three words
set -- $(free_port 3)
port=$1
listen=$2
victim=$3
canary=$LS_TMP/canary

nothing_happened() {
    [ ! -e "$canary" ] || fail "a stranger's command has run: $(cat "$canary")"
}

# listening PID: the sockets of that process that anybody could connect to, or send to.
# shellcheck disable=SC2016 # JavaScript
listening() {
    node -e '
        const fs = require("fs");
        const pid = process.argv[1];
        const own = new Set();
        for (const fd of fs.readdirSync(`/proc/${pid}/fd`)) {
            try {
                const found = /^socket:\[(\d+)\]$/.exec(fs.readlinkSync(`/proc/${pid}/fd/${fd}`));
                if (found) own.add(found[1]);
            } catch { /* it was closed meanwhile */ }
        }
        const rows = (name) => {
            try { return fs.readFileSync(`/proc/${pid}/net/${name}`, "utf8").trim().split("\n").slice(1); }
            catch { return []; }
        };
        for (const name of ["tcp", "tcp6", "udp", "udp6", "raw", "raw6"])
            for (const row of rows(name).map((line) => line.trim().split(/\s+/)))
                if (own.has(row[9]) && (row[3] === "0A" || !name.startsWith("tcp")))
                    console.log(name, row[1]);
        for (const row of rows("unix").map((line) => line.trim().split(/\s+/)))
            if (own.has(row[6]) && (parseInt(row[3], 16) & 0x10000) !== 0) console.log("unix", row[7]);
    ' "$1"
}

# ---- there is nothing to connect to

start waiting "$agent" --dial "tcp://127.0.0.1:$listen" --name waiting --role server
wait_until 30 grep -q agent.dialling waiting.log
same 'sockets that a waiting agent listens on' '' "$(listening "$pid")"
kill "$pid"
wait "$pid" || :

# ---- it does not dial another host without keys

expect 5 "$agent" --dial tcp://192.0.2.1:7000 --name x --role server
says err 'keys'
expect 5 "$agent" --dial tls+tcp://192.0.2.1:7000 --name x --role server
says err 'keys'

# ---- somebody else on this host takes the coordinator's place

cat >job.yaml <<YAML
trial: 1
target:
  command: [sh, -c, "id >'$canary'"]
  host: 127.0.0.1
  port: $port
  ready: {timeout: 1s, request: {path: /}}
  stop: {signal: TERM, grace: 1s}
workload: {http: {requests: [{path: /}]}, timeout: 1s, warmup: 0s, measure: 1s}
YAML
cat >flood.yaml <<YAML
trial: 1
target: {host: 192.0.2.1, port: 80}
workload:
  http: {requests: [{path: /}], pipeline: 1}
  timeout: 1s
  connections: 4
  warmup: 0s
  measure: 1s
  load: {closed: {}}
workers: 1
workers_total: 1
YAML
if [ ! -e /etc/lockstep/policy.yaml ]; then
    for job in job flood; do
        role=client
        [ "$job" != job ] || role=server
        start said "$false_coordinator" --victim "$victim" "$job.yaml"
        coordinator=$pid
        wait_until 30 grep -q listening said.log
        start taken "$agent" --dial "$(sed -n 's/^listening //p' said.log)" --name "$role" \
            --role "$role" --once --lease 1s
        wait "$coordinator"
        wait "$pid" || :
        says said.log 'failure policy: no policy file: '
        nothing_happened
    done
fi

# ---- keys: a stranger's are nobody's, and those of a coordinator are not enough by themselves

expect 0 "$lockstep" pki init ours --name ours
expect 0 "$lockstep" pki init theirs --name theirs
for who in main other; do
    expect 0 "$lockstep" pki issue coordinator "$who" --host 127.0.0.1 --pki ours --out "keys-$who"
done
expect 0 "$lockstep" pki issue coordinator main --host 127.0.0.1 --pki theirs --out keys-stranger
for role in server client; do
    expect 0 "$lockstep" pki issue agent "$role" --pki ours --out "keys-$role"
done
cat >policy.yaml <<YAML
coordinators: [main]
programs:
  - name: responder
    path: "$agent"
    arguments: [respond, --listen, "127.0.0.1:*", --die-with-parent]
    $([ "$(id -u)" -ne 0 ] || echo 'user: root')
load: {targets: [servers, loopback]}
YAML

# plan COMMAND: one trial of it.
plan() {
    {
        plan_head stranger 1
        cat <<PLAN
targets:
  - {name: web, command: $1, port: $port}
workloads:
  - {name: hello, http: {requests: [{path: /}]}, connections: 2, warmup: 0s, measure: 300ms}
schedule: {repetitions: 1}
PLAN
    } >plan.yaml
}

# run KEYS STATUS [WAIT]: a coordinator with those keys has a server and a client dial it; its result is in
# ./out, their logs in server.log and client.log.
run() {
    rm -rf result
    start run "$lockstep" run plan.yaml --listen "tls+tcp://127.0.0.1:$listen" --keys "$1" \
        --wait "${3:-60s}" --out result --json
    coordinator=$pid
    agents=
    for role in server client; do
        start "$role" "$agent" --dial "tls+tcp://127.0.0.1:$listen" --keys "keys-$role" --role "$role" \
            --policy policy.yaml --once --wait 60s --lease 2s
        agents="$agents $pid"
    done
    status=0
    wait "$coordinator" || status=$?
    case " $2 " in
    *" $status "*) ;;
    *)
        show run.log server.log client.log
        fail "status $status instead of $2"
        ;;
    esac
    # shellcheck disable=SC2086 # words
    kill $agents 2>/dev/null || :
    for one in $agents; do
        wait "$one" || :
    done
    nothing_happened
    nothing_left
}

evil="[sh, -c, \"id >'$canary'\"]"
good="['$agent', respond, --listen, '127.0.0.1:$port', --die-with-parent]"

plan "$evil"
run keys-stranger 3 4s # nobody enrols
run keys-other 3 4s    # one of ours, whom the policy does not name
says server.log "coordinators: 'other' is not among them"
run keys-main 5 # the right one, who asks for too much
says run.log 'policy.yaml: programs: '
plan "$good"
run keys-main '0 4' # and the right one with what is allowed
