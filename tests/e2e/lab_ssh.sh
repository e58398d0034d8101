#!/bin/sh
# lockstep up and down: agents on hosts that are reached over ssh alone. They are started, enrol and run a plan;
# what cannot work is said before there is any load and leaves nothing; down leaves nothing, too.
. "$(dirname -- "$0")/lib.sh"
. "$(dirname -- "$0")/lab_lib.sh"
need node ssh sshd ssh-keygen tar

lab up --clients 2 --servers 1 --owner $$ 2>up.err || skip "no lab here: $(cat up.err)"
ssh-keygen -q -t ed25519 -N '' -f host_key
ssh-keygen -q -t ed25519 -N '' -f user_key
cp user_key.pub authorized_keys
mkdir -p /run/sshd
for host in server-1 client-1 client-2; do
    mkdir -m 700 "home-$host"
    # The hosts share this machine's files: each gets a home of its own.
    cat >"sshd-$host" <<CONF
ListenAddress $(lab address "$host")
HostKey $LS_TMP/host_key
AuthorizedKeysFile $LS_TMP/authorized_keys
StrictModes no
UsePAM no
PidFile none
SetEnv HOME=$LS_TMP/home-$host
CONF
    (lab exec "$host" /usr/sbin/sshd -D -e -f "$LS_TMP/sshd-$host" >"sshd-$host.log" 2>&1 </dev/null) &
done
ssh="ssh -q -o BatchMode=yes -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -i $LS_TMP/user_key"
listening() {
    # shellcheck disable=SC2086 # words
    lab exec coordinator $ssh "$1" true
}
for host in server-1 client-1 client-2; do wait_until 60 listening "$(lab address "$host")"; done

server=server=$(lab address server-1)
clients=client=$(lab address client-1),client=$(lab address client-2)
url=tls+tcp://$(lab address coordinator):7000
up() {
    lab exec coordinator "$lockstep" up --ssh-command "$ssh" "$@"
}

# What is wrong is named, and nobody is started.
expect 2 up --ssh "$clients"
says err '--listen URL is missing'
expect 2 up --ssh "somewhere" --listen "$url"
says err 'server=HOST or client=HOST is expected'
for host in -oProxyCommand=false nobody@-oProxyCommand=false; do
    expect 2 up --ssh "$server,client=$host" --listen "$url"
    says err 'begins with a dash'
done
expect 2 up --ssh "$server" --listen tls+tcp://127.0.0.1:7000
says err 'other hosts cannot dial 127.0.0.1'
expect 3 up --ssh "$server,client=10.111.9.9" --listen "$url"
says err '10.111.9.9 cannot be used over ssh'
nothing_there() {
    for host in server-1 client-1 client-2; do
        [ -z "$(ls -A "home-$host")" ] || fail "left in the home of $host: $(ls -A "home-$host")"
        ! lab processes "$host" | grep lockstep-agent || fail "an agent is left on $host"
    done
}
nothing_there
expect 2 lab exec coordinator "$lockstep" down
says err 'no fleet in fleet'

# A policy that the agents do not take is one that they end with.
echo 'load: {targets: [nonsense]}' >policy.bad
expect 3 up --ssh "$server" --listen "$url" --policy policy.bad
says err 'nonsense'
nothing_there

# A host on which the program does not run, and one whose disk cannot be written to.
printf '#!/nowhere\n' >broken
chmod 755 broken
LOCKSTEP_AGENT=$LS_TMP/broken
export LOCKSTEP_AGENT
expect 3 up --ssh "$server" --listen "$url"
unset LOCKSTEP_AGENT
says err 'the program does not run here'
says err 'install the package of lockstep'
nothing_there
lab exec client-1 mount -t tmpfs -o ro none "$LS_TMP/home-client-1"
expect 3 up --ssh "$server,$clients" --listen "$url"
says err 'Read-only file system'
lab exec client-1 umount "$LS_TMP/home-client-1"
nothing_there

# Up, a run, down.
expect 0 up --ssh "$server,$clients" --listen "$url"
says err 'lockstep run PLAN --listen'
says out '10.111.1.2-client'
lab_plan 2 300ms
expect '0 4' lab exec coordinator "$lockstep" run plan.yaml --listen "$url" \
    --keys fleet/pki/issued/coordinator-main --out result --json
holds out 'r.trials[0].status === "done" && r.hosts.length === 3'
books_balance out
expect 2 up --ssh "$server" --listen "$url"
says err 'in this fleet already'
expect 3 up --ssh "$server" --listen "$url" --fleet another
says err 'runs here already'
# One more that cannot be had costs nothing of what is up.
before=$(cat fleet/agents)
expect 3 up --ssh "server=10.111.9.9" --listen "$url"
says err '10.111.9.9 cannot be used over ssh'
[ "$(cat fleet/agents)" = "$before" ] || fail "the list of the fleet has changed: $(cat fleet/agents)"
for host in server-1 client-1 client-2; do
    lab processes "$host" | grep -q lockstep-agent || fail "the agent of $host was taken down with another"
done
expect 0 lab exec coordinator "$lockstep" down
nothing_there
