#!/bin/sh
# A host's policy against a coordinator that asks for what it does not allow: over a connection that
# the agent has dialled, with commands that no plan check has seen. Each time the rule is named, and
# nothing has happened: no program has run, no file is there, no connection came.
. "$(dirname -- "$0")/lib.sh"
false_coordinator=$(dirname -- "$LS_HARNESS")/false_coordinator

mkdir tmp bin
TMPDIR=$LS_TMP/tmp
export TMPDIR
# shellcheck disable=SC2046 # three words
set -- $(free_port 3)
port=$1
victim=$2
canary=$LS_TMP/canary
responder=

# What a stranger would like to be run: it leaves a trace.
cat >bin/evil <<SH
#!/bin/sh
echo "\$*" >"$canary"
SH
chmod +x bin/evil
ln -s "$LS_TMP/bin/evil" bin/nice

cat >policy.yaml <<YAML
programs:
  - name: responder
    path: "$agent"
    arguments: [respond, --listen, "127.0.0.1:*", --die-with-parent]
    version: [--version]
    environment: [APP_MODE]
    $([ "$(id -u)" -ne 0 ] || echo 'user: nobody')
load:
  targets: ["127.0.0.1:$port"]
  max_connections: 8
  max_rate: 2k/s
  max_duration: 5s
files: {max_bytes: 64KiB, max_files: 2}
YAML
[ "$(id -u)" -ne 0 ] || chmod 0755 "$LS_TMP" tmp

# The agent's program has to be there for nobody, too.
runs=true
if [ "$(id -u)" -eq 0 ] && ! setpriv --reuid=65534 --clear-groups test -x "$agent" 2>/dev/null; then
    runs=false
fi

# meets ROLE POLICY OPTION...: an agent of that role meets the coordinator, who sends prepare.yaml;
# what the agent answers is in ./said, its log in ./agent.log.
meets() {
    role=$1
    policy=$2
    shift 2
    rm -f "$canary"
    start said "$false_coordinator" "$@" prepare.yaml
    coordinator=$pid
    wait_until 30 grep -q listening said.log
    url=$(sed -n 's/^listening //p' said.log)
    # shellcheck disable=SC2086 # words
    start agent $agent --dial "$url" --name "$role" --role "$role" ${policy:+--policy "$policy"} \
        --lease 1s --once
    wait "$coordinator" || {
        show said.log agent.log
        fail 'nothing happened'
    }
    wait "$pid" || :
    [ ! -e "$canary" ] || fail "it has run: $(cat "$canary")"
    [ -n "$responder" ] || nothing_left
}

# lacks TEXT: what the agent said does not hold it.
lacks() {
    ! grep -q -- "$1" said.log || {
        show said.log agent.log
        fail "it says: $1"
    }
}

# refuses TEXT: the trial ended by policy, with that sentence.
refuses() {
    says said.log 'failure policy: '
    says said.log "$1"
    lacks 'phase READY'
}

# server LINES: what a server is asked to run.
server() {
    cat >prepare.yaml <<YAML
trial: 1
target:
$(printf '%s\n' "$1" | sed 's/^/  /')
  host: 127.0.0.1
  port: $port
  ready: {timeout: 10s, request: {path: /}}
  stop: {signal: TERM, grace: 1s}
workload: {http: {requests: [{path: /}]}, timeout: 2s, warmup: 0s, measure: 1s}
${2:-}
YAML
}

# client HOST PORT LOAD [MORE]: what a client is asked to load.
client() {
    cat >prepare.yaml <<YAML
trial: 1
target: {host: "$1", port: $2}
workload:
  http: {requests: [{path: /}], pipeline: 1}
  timeout: 2s
  connections: ${connections:-4}
  warmup: 0s
  measure: 1s
  load: $3
workers: 1
workers_total: 1
${4:-}
YAML
}

good="command: ['$agent', respond, --listen, '127.0.0.1:$port', --die-with-parent]"

# ---- what is allowed, works, as somebody else where the agent is root's

if $runs; then
    server "$good
version: ['$agent', --version]
env: {APP_MODE: test}"
    meets server policy.yaml
    says said.log 'phase READY'
    says said.log 'phase COLLECT'
    lacks '^failure'
fi

# ---- programs

server 'command: [sh, -c, "echo \"$@\" >'"$canary"'"]'
meets server policy.yaml
refuses 'policy.yaml: programs: '
says said.log 'is not among them'
server "command: ['$LS_TMP/bin/evil']"
meets server policy.yaml
refuses "programs: $LS_TMP/bin/evil is not among them"
# by another name
server "command: ['$LS_TMP/bin/nice']"
meets server policy.yaml
refuses "programs: $LS_TMP/bin/evil is not among them"
# one that came along
server 'command: [./evil]' 'files: [{name: evil, sha256: "@evil", executable: true}]'
meets server policy.yaml --file "evil=$LS_TMP/bin/evil"
refuses 'evil is not among them'
# as what says its version
server "$good
version: ['$LS_TMP/bin/evil']"
meets server policy.yaml
refuses "$LS_TMP/bin/evil is not among them"

# ---- words: no shell reads them, and no others are taken

server "command: ['$agent', respond, --listen, '127.0.0.1:$port; $LS_TMP/bin/evil', --die-with-parent]
ready: {timeout: 200ms, request: {path: /}}"
sed -i '/^  ready: {timeout: 10s/d' prepare.yaml
meets server policy.yaml
says said.log 'failure '
lacks 'phase READY'
server "command: ['$agent', respond, --listen, '127.0.0.1:$port']"
meets server policy.yaml
refuses 'programs (responder): arguments: '
server "command: ['$agent', respond, --listen, '0.0.0.0:$port', --die-with-parent]"
meets server policy.yaml
refuses 'programs (responder): arguments: '
server "command: ['$agent', --dial, 'tcp://127.0.0.1:$port', --die-with-parent]"
meets server policy.yaml
refuses 'does not fit'
server "command: ['$agent', respond, --listen, \"127.0.0.1:$port\\n\", --die-with-parent]"
meets server policy.yaml
refuses 'does not fit'

# ---- variables that make a program load or run another

for variable in LD_PRELOAD LD_AUDIT GCONV_PATH PATH BASH_ENV NODE_OPTIONS OTHER; do
    server "$good
env: {$variable: '$LS_TMP/bin/evil'}"
    meets server policy.yaml
    refuses "environment: $variable is not among them"
done

# ---- files: names that lead out, links in the way, more than is allowed

for name in ../evil /etc/evil a/../../evil a//evil evil/ . '' 'a\evil'; do
    server "$good" "files: [{name: '$name', sha256: '@evil'}]"
    meets server policy.yaml --file "evil=$LS_TMP/bin/evil"
    says said.log 'failure prepare_failed: file '
    says said.log 'is not a plain relative file name'
done
server "$good" 'files: [{name: A, sha256: "@evil"}, {name: a, sha256: "@evil"}]'
meets server policy.yaml --file "evil=$LS_TMP/bin/evil"
says said.log "would be the same file somewhere"
server "$good" 'files: [{name: x, sha256: "@evil", bytes: 7}]'
meets server policy.yaml --file "evil=$LS_TMP/bin/evil"
says said.log '7 were announced'
server "$good" "files: [{name: x, sha256: '$(printf '%064d' 0)'}]"
meets server policy.yaml
says said.log 'has not arrived'
server "$good" 'files: [{name: target.log, sha256: "@evil"}]'
if $runs; then
    meets server policy.yaml --file "evil=$LS_TMP/bin/evil"
    says said.log 'failure start_failed: cannot create target.log'
fi
head -c 70000 /dev/zero >large
server "$good" 'files: [{name: large, sha256: "@large"}]'
meets server policy.yaml --file large=large
refuses 'policy.yaml: files.max_bytes: '
for n in 1 2 3; do printf '%s' "$n" >"file$n"; done
server "$good" 'files: [{name: a, sha256: "@a"}, {name: b, sha256: "@b"}, {name: c, sha256: "@c"}]'
meets server policy.yaml --file a=file1 --file b=file2 --file c=file3
refuses 'policy.yaml: files.max_files: '

# A disk that is full: by the file's name.
if [ "$(id -u)" -eq 0 ] && unshare --mount true 2>/dev/null; then
    mkdir small
    head -c 800000 /dev/zero >large # an agent begins with 256 KiB to spare
    printf 'programs: [{path: /**, arguments: ["..."], user: nobody}]\n' >any.yaml
    cat >on_small_disk <<SH
#!/bin/sh
mount -t tmpfs -o size=512k none "$LS_TMP/small" && exec "$agent" "\$@" --work-dir "$LS_TMP/small/work"
SH
    chmod +x on_small_disk
    server "$good" 'files: [{name: large, sha256: "@large"}]'
    real=$agent
    agent="unshare --mount $LS_TMP/on_small_disk"
    meets server any.yaml --file large=large
    agent=$real
    says said.log 'failure start_failed: file large of the target: cannot write: No space left on device'
fi

# ---- targets

constant='{constant: {rate: 100/s}}'
client 127.0.0.1 "$victim" "$constant"
meets client policy.yaml --victim "$victim"
refuses "load.targets: 127.0.0.1 port $victim is not in any of them"
same connections 'victim: 0' "$(grep victim: said.log)"
for host in 0.0.0.0 :: ::ffff:0.0.0.0 ::ffff:127.0.0.1 ::1 127.0.0.2 169.254.169.254 224.0.0.1 \
    255.255.255.255 ff02::1 8.8.8.8; do
    client "$host" "$victim" "$constant"
    meets client policy.yaml --victim "$victim"
    refuses 'load.targets: '
    same connections 'victim: 0' "$(grep victim: said.log)"
done
# A name could mean one thing when it is checked and another when it is connected to: none is taken,
# and neither is any of the other ways to write an address.
for host in localhost example.test 2130706433 0x7f000001 127.1 0177.0.0.1 '127.0.0.1 ' '127.0.0.1:80' \
    'fe80::1%lo'; do
    client "$host" "$port" "$constant"
    meets client policy.yaml
    says said.log 'failure prepare_failed: '
    says said.log 'is not a literal IPv4 or IPv6 address'
done

# ---- how hard

client 127.0.0.1 "$port" '{constant: {rate: 2001/s}}'
meets client policy.yaml
refuses 'load.max_rate: 2001/s are more than 2k/s'
client 127.0.0.1 "$port" '{poisson: {rate: 1M/s}}'
meets client policy.yaml
refuses 'load.max_rate: '
client 127.0.0.1 "$port" '{ramp: {from: 1/s, to: 3k/s, over: 1s}}'
meets client policy.yaml
refuses 'load.max_rate: '
client 127.0.0.1 "$port" '{closed: {}}'
meets client policy.yaml
refuses 'load.max_rate: '
connections=9 client 127.0.0.1 "$port" "$constant"
meets client policy.yaml
refuses 'load.max_connections: 9 are more than 8'
# The share of all workers is what the agent makes itself, whoever else is said to be there.
client 127.0.0.1 "$port" '{constant: {rate: 4k/s}}'
sed -i 's/^workers_total: 1/workers_total: 2/' prepare.yaml
start responder "$agent" respond --listen "127.0.0.1:$port" --die-with-parent
responder=$pid
wait_until 30 grep -q listening responder.log
meets client policy.yaml --arm 500000000 || :
says said.log 'phase READY'
says said.log 'sent '
# The length comes later, with ARM.
client 127.0.0.1 "$port" "$constant"
meets client policy.yaml --arm 6000000000
says said.log 'failure policy: policy.yaml: load.max_duration: 7s is longer than 5s'
lacks 'phase WARMUP'
# and makes sense, or is not taken
client 127.0.0.1 "$port" "$constant"
meets client policy.yaml --arm -1
says said.log 'failure illegal_command: '
kill "$responder"
wait "$responder" || :
responder=

# ---- without a policy file: this host's programs are its own, and load goes nowhere else

if [ ! -e /etc/lockstep/policy.yaml ]; then
    server "$good"
    meets server ''
    refuses 'no policy file: this host runs no program for others: allow it in /etc/lockstep/policy.yaml'
    client 192.0.2.1 80 "$constant"
    meets client ''
    refuses 'no policy file: 192.0.2.1 port 80 is neither this host nor one that has a server agent'
fi

# ---- a policy that others could write, or that is none, is not obeyed

chmod 0666 policy.yaml
expect 5 "$agent" --dial tcp://127.0.0.1:1 --name x --role client --policy policy.yaml
says err 'can be written by its group or by others'
chmod 0644 policy.yaml
expect 5 "$agent" --dial tcp://127.0.0.1:1 --name x --role client --policy absent.yaml
says err 'absent.yaml: cannot be read: No such file or directory'
printf 'programs: [{path: nginx}]\nload: {targets: [example.test]}\n' >bad.yaml
expect 5 "$agent" --dial tcp://127.0.0.1:1 --name x --role client --policy bad.yaml
says err 'bad.yaml:1:19: programs[0].path: has to be absolute'
says err 'bad.yaml:2:18: load.targets[0]: '

# ---- and the coordinator of a run says so, with the exit status for it

need node
cat >wrapped <<SH
#!/bin/sh
exec "$agent" "\$@" --policy "$LS_TMP/policy.yaml"
SH
chmod +x wrapped
{
    plan_head policy 1
    cat <<PLAN
targets:
  - {name: web, command: [sh, -c, "exit 1"], port: $port}
workloads:
  - {name: hello, http: {requests: [{path: /}]}, connections: 2, warmup: 0s, measure: 300ms}
schedule: {repetitions: 1}
PLAN
} >plan.yaml
LOCKSTEP_AGENT=$LS_TMP/wrapped expect 5 "$lockstep" run plan.yaml --out result --json
holds out 'r.exit_status === 5 && r.trials[0].reasons.some((reason) => reason.code === "policy")'
holds out 'r.hosts.every((host) => host.limits.policy.endsWith("/policy.yaml"))'
holds out 'r.hosts[0].limits.programs[0] === "responder" && r.hosts[0].limits.max_rate_per_s === 2000'
says err 'policy.yaml: programs: '
nothing_left
same 'folders left' '' "$(ls tmp)"
