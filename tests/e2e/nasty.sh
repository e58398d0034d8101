#!/bin/sh
# The nastiest targets, one after the other in one run: each ends in the right cell with the right
# words, the next one starts clean, and nothing is left: no process, port, folder, network namespace
# or control group. LS_E2E_LONG=1: more than a hundred trials of them.
. "$(dirname -- "$0")/lib.sh"
need node

# In a process namespace of its own, where that can be had: agents sweep up behind dead ones of their
# namespace, and those of other tests would do so here, and leave groups of their own to be counted.
if [ -z "${LS_ALONE:-}" ] && unshare --pid --fork --mount-proc true 2>/dev/null; then
    LS_ALONE=1
    export LS_ALONE
    exec unshare --pid --fork --kill-child --mount-proc "$LS_HARNESS" guard 1150 sh "$0"
fi
namespace=$(stat -Lc %i /proc/self/ns/pid)
. "$(dirname -- "$0")/phases.sh"

nasty=$(dirname -- "$LS_HARNESS")/nasty
repetitions=1
[ -z "${LS_E2E_LONG:-}" ] || repetitions=8

begun=$(began $$)

# Control groups, lockstep-NAMESPACE-PID-START-N, of agents of this namespace that are no more. A
# namespace's number is given again: what is older than this shell was another one's.
dead_groups() {
    find /sys/fs/cgroup -type d -name "lockstep-$namespace-*" 2>/dev/null | while read -r group; do
        owner=${group##*/lockstep-"$namespace"-}
        start=${owner#*-}
        [ "${start%%-*}" -lt "$begun" ] || [ -d "/proc/${owner%%-*}" ] || printf '%s\n' "$group"
    done
}

no_dead_groups() {
    [ -z "$(dead_groups)" ]
}

# A case that fails leaves none either: nobody will ever sweep up behind it.
remove_dead_groups() {
    tries=0
    until no_dead_groups || [ "$tries" -ge 50 ]; do
        tries=$((tries + 1))
        dead_groups | while read -r group; do
            grep -vx 0 "$group/cgroup.procs" 2>/dev/null | xargs -r kill -9 2>/dev/null || :
            rmdir "$group" 2>/dev/null || :
        done
        sleep 0.05
    done
}
trap remove_dead_groups EXIT

# A network of its own takes what only root has; then one of them is put into one.
private=host
if unshare -n true 2>/dev/null; then
    private=private
fi

# shellcheck disable=SC2046 # words
set -- $(free_port 20)
ports=$*
{
    # With more time to agree on a start than a crowded machine takes.
    plan_head nasty 1 | sed 's/servers: 1,/servers: 1, start_lead: 1s,/'
    echo 'targets:'
} >plan.yaml

# target_lines NAME COMMAND [LINES]: on the next port.
target_lines() {
    port=${ports%% *}
    ports=${ports#* }
    eval "port_of_$1=$port"
    printf '  - name: %s\n    port: %s\n    stop: {grace: 300ms}\n' "$1" "$port"
    printf '    command: [%s]\n' "$2"
    [ -z "${3:-}" ] || printf '%s\n' "$3" | sed 's/^/    /'
}

target() {
    target_lines "$@" >>plan.yaml
}

role() {
    printf '"%s", %s, "{port}"%s' "$nasty" "$1" "${2:+, \"$2\"}"
}

other=$(free_port)
target daemon "$(role stubborn-daemon)" "network: $private"
target chain "$(role chain)"
target breed "$(role breed)"
target deaf "$(role ignore-term)"
target renamed "$(role title)"
target background "$(role goes-daemon)" 'ready: {timeout: 5s}'
target silent "$(role serve)"
target elsewhere "\"$nasty\", serve, \"$other\"" 'ready: {timeout: 3s}'
target loud "$(role print 1073741824)" 'ready: {timeout: 200s}'
target restarted "sh, -c, 'while :; do \"\$@\"; done', sh, $(role quit 8)"
# The third connection would be the load's: there are the readiness request's and the preflight's.
target leaver "$(role leave 2)"
target forks "sh, -c, 'trap \"\" TERM; setsid sh -c \"setsid sleep 1000 & sleep 1000\" & exec \"\$@\"', sh, $(role serve)"
target eater "$(role eat 256)" 'limits: {memory: 48MiB}'
target many "$(role share)" 'instances: 3
env: {SECRET: "{instance}", WORKERS: "{instance}"}'
target good "$(role serve)"
cat >>plan.yaml <<PLAN
workloads:
  - name: hello
    http: {requests: [{path: /, expect: {body: "Hello, World!"}}]}
    connections: 1
    warmup: 0s
    measure: 200ms
    timeout: 5s
schedule: {repetitions: $repetitions, order: sequential}
PLAN

expect 3 "$lockstep" run plan.yaml --out result --json

# cell NAME STATUS CODE TEXT: every trial of that target; CODE -: none of those that say that the
# target did something.
cell() {
    holds out "(() => {
        const trials = r.trials.filter((t) => t.target === '$1');
        return trials.length === $repetitions && trials.every((t) => t.status === '$2' &&
            ('$3' === '-' ? t.requests.ok > 0 && t.server.stopped_by_us &&
                !t.reasons.some((one) => ['target_died', 'exited', 'left_behind'].includes(one.code))
             : t.reasons.some((one) => one.code === '$3' && one.text.includes('${4:-}'))));
    })()"
    eval "port_is_free \$port_of_$1" || fail "the port of $1 is still in use"
}

for name in daemon chain breed deaf renamed silent loud forks many good; do
    cell "$name" 'done' -
done
cell background failed exited 'stays in the foreground'
cell elsewhere failed not_ready "it listens on port $other instead"
cell leaver failed exited 'exit 9'
limited=limits # unless this host has control groups that can hold it
case $(json out 'r.hosts.find((host) => host.role === "server").facts.cgroups') in
*memory*) limited=out_of_memory ;;
esac
cell eater failed "$limited" memory
cell restarted 'done' wrong_responses ''
for name in daemon chain deaf forks; do
    holds out "r.trials.filter((t) => t.target === '$name').every((t) => t.server.left_over > 0 ||
        t.server.exit === 'signal KILL')"
done
holds out "r.trials.filter((t) => t.target === 'loud').every((t) => t.server.exit === 'signal TERM')"
tail -c 200 result/trials/*-loud-hello-r1/target.log | grep -q 'further bytes were dropped' ||
    fail 'that a log was cut is not said in it'
holds out "r.trials.filter((t) => t.target === 'many').every((t) => t.server.containment.instances === 3 &&
    t.server.instance_exits.length === 3 && t.server.instance_exits.every((one) => one === 'signal TERM') &&
    t.server.processes === 3 && t.server.program.environment.includes('WORKERS=0') &&
    t.server.program.environment_hidden.includes('SECRET'))"
expect 0 "$lockstep" report result
says out '3 instances'
nothing_left
same 'folders left' '' "$(ls tmp)"
wait_until 30 no_dead_groups

# It fills the disk that its folder is on, a small one, and the next one finds it empty.
if unshare -m true 2>/dev/null; then
    {
        sed -n '1,/^targets:/p' plan.yaml
        target_lines filler "$(role fill 64)"
        target_lines good "$(role serve)"
        sed -n '/^workloads:/,$p' plan.yaml
    } >full.yaml
    # shellcheck disable=SC2016 # the inner shell's
    expect '0 4' unshare -m sh -c 'mount -t tmpfs -o size=24m small "$TMPDIR" && exec "$@"' sh \
        "$lockstep" run full.yaml --out full --json
    holds out 'r.trials.every((t) => t.status === "done" && t.requests.ok > 0)'
    nothing_left
fi

# A private network takes a capability: without it the target is refused, and it is said what to do.
if [ "$private" = private ] && setpriv --bounding-set -sys_admin true 2>/dev/null; then
    expect 3 setpriv --bounding-set -sys_admin --inh-caps -sys_admin \
        "$lockstep" run plan.yaml --out refused --only 'daemon*' --json
    holds out 'r.trials.every((t) => t.reasons.some((one) => one.code === "network" &&
        one.text.includes("CAP_SYS_ADMIN")))'
fi

# What a target costs is the same by its processes' clocks and by its control group: 3 %, and ticks.
holds result/result.json "r.trials.every((t) => !t.server || !t.server.cpu_cgroup_ns || t.target === 'restarted' ||
    ['chain', 'breed', 'loud'].includes(t.target) ||
    Math.abs(t.server.cpu_cgroup_ns - t.server.cpu_ns) <= 0.03 * t.server.cpu_cgroup_ns + 2e7)"

# Agent and supervisor are killed in one moment, and what has left the target's session lives on in
# its control group, until the next agent comes: for sure where there are no others.
[ -n "${LS_ALONE:-}" ] || exit 0
value=$(json result/result.json 'r.trials.at(-1).server.containment.by')
[ "$value" != subreaper ] || exit 0
sed -i 's/measure: 200ms/measure: 60s/' plan.yaml
# One trial: for a second one the coordinator would start an agent, which sweeps.
start run "$lockstep" run plan.yaml --out killed --only 'daemon*' --set schedule.repetitions=1
run=$pid
wait_until 60 sh -c 'grep -q "to=measure" tmp/lockstep-*/client-1.log'
find_process '^lockstep-supervisor' || fail 'there is no supervisor'
supervisor=$found
find_process '^lockstep-agent .*--role server' || fail 'there is no agent'
# Who lives a moment longer than the other one would end what is left: neither gets that moment.
stands_still() {
    ! sed 's/.*) //' "/proc/$1/task"/*/stat | grep -qv '^T'
}
kill -STOP "$found" "$supervisor"
wait_until 20 stands_still "$found"
wait_until 20 stands_still "$supervisor"
kill -9 "$found" "$supervisor"
wait "$run" || :
find_process "$nasty.*stubborn-daemon" || fail 'nothing has lived on'
sed -i 's/measure: 60s/measure: 200ms/' plan.yaml
expect '0 4' "$lockstep" run plan.yaml --out swept --only 'good*' --set schedule.repetitions=1 --json
nothing_left
wait_until 30 no_dead_groups
