#!/bin/sh
# What is wrong with a host is named when its agent enrols, before any load, with what to change: by the agent,
# by the coordinator, or by both.
. "$(dirname -- "$0")/lib.sh"
. "$(dirname -- "$0")/agents.sh"
need node

# ---- the agent's own disk: none, full, read-only
expect 70 "$agent" --dial "$url" --work-dir /proc/nowhere
says err 'no room for trials'
says err '--work-dir'
mkdir disk
cat >small.sh <<'SMALL'
mount -t tmpfs -o "$1" none disk || exit 77
shift
exec "$@"
SMALL
code=0
unshare --mount sh small.sh size=64k "$agent" --dial "$url" --work-dir "$LS_TMP/disk/work" >out 2>err || code=$?
case $code in
1 | 77) ;; # no right to mount here
*)
    same 'status with a full disk' 70 "$code"
    says err 'No space left on device'
    code=0
    TMPDIR=$LS_TMP/disk unshare --mount sh small.sh ro "$agent" --dial "$url" >out 2>err || code=$?
    same 'status with a read-only disk' 70 "$code"
    says err 'Read-only file system'
    ;;
esac

# ---- another version: the frames are the same, the programs are not
version=$("$agent" --version | cut -d ' ' -f 2)
other=$(printf '%s' "$version" | sed 's/.$/x/')
sed "s/lockstep $version/lockstep $other/g" "$agent" >other-agent
chmod 755 other-agent
[ "$(./other-agent --version)" = "$("$agent" --version)" ] || fail 'what was changed is not what it says of itself to others'
fleet_plan 1 300ms
start agent-other ./other-agent --dial "$url" --name c1 --role client
expect 3 "$lockstep" run plan.yaml --listen "$url" --wait 6s --out other --json
holds out 'r.trials.length === 0 && r.error.includes("lockstep '"$other"'") && r.error.includes("bring the same version")'
wait_until 60 grep -q 'code=version' agent-other.log
kill -TERM "$pid"

# ---- fewer CPUs than planned: they are named, and nothing is run
three_agents
fleet_plan 1 300ms "  agents: [{name: c1, cpus: 700-701}]"
expect 2 "$lockstep" run plan.yaml --listen "$url" --wait 60s --out few --json
holds out 'r.trials.length === 0 && r.error.includes("cpus of c1: 700-701 is not within those it may use")'
end_agents "$server" "$first" "$second"

# ---- nobody can come to an address of loopback from elsewhere; who dials one by mistake is told once
expect 3 "$agent" --dial "$url" --name c1 --wait 2500ms
says err 'agent.loopback'
says err "give that host's address in --dial"
same 'times that it was said' 1 "$(grep -c agent.loopback err)"
expect 3 "$lockstep" run plan.yaml --listen "$url" --wait 300ms --out nobody --json
holds out 'r.error.includes("agents of other hosts cannot dial a loopback address")'

# ---- keys: none, of others, of a coordinator, that others can read; taken by others of this host
expect 0 "$lockstep" pki init
expect 0 "$lockstep" pki issue agent c1
expect 0 "$lockstep" pki issue coordinator main --host 127.0.0.1
tls=tls+tcp://127.0.0.1:$control
expect 5 "$agent" --dial "$tls"
says err 'lockstep pki'
expect 5 "$agent" --dial "$tls" --keys nowhere
says err 'lockstep pki issue'
expect 5 "$agent" --dial "$tls" --keys pki/issued/coordinator-main
says err 'and this is an agent'
cp -r pki/issued/agent-c1 open
chmod 644 open/key.pem
expect 5 "$agent" --dial "$tls" --keys open
says err 'chmod 600'
mkdir pool
cp -r pki/issued/agent-c1 pool/
start pool-1 "$agent" --dial "$tls" --keys pool
first=$pid
wait_until 60 grep -q 'agent.begins agent=c1' pool-1.log
expect 5 "$agent" --dial "$tls" --keys pool
says err 'all of its 1 folders of keys are taken'
expect 5 "$agent" --dial "$tls" --keys pool/agent-c1
says err "process $first of this host"
says err 'lockstep pki issue agent NAME'
kill -KILL "$first"
wait "$first" || :
start pool-1 "$agent" --dial "$tls" --keys pool/agent-c1
first=$pid
wait_until 60 grep -q 'agent.begins agent=c1' pool-1.log
kill -TERM "$first"
wait "$first" || :
