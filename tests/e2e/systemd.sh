#!/bin/sh
# The package's units under systemd as the first process of a bare Debian: installed, started, ready, enrolled,
# a run between them, what their sandbox keeps from them, the watchdog, stopped, purged. Not a ctest: it needs
# root, mmdebstrap and a package archive, and takes minutes.
#
#   sh tests/e2e/systemd.sh PACKAGE.deb [SUITE]        (sh deploy/build.sh release; cd build/release; cpack)
#
# The machine is a root folder in namespaces of its own (processes, mounts, network, control groups): nothing of
# it is left, whatever happens. LS_BARE_TAR names a tarball of a bare root made before (mmdebstrap
# --variant=minbase SUITE TAR).
# shellcheck disable=SC2016 # scripts for other shells
set -eu

# ---- the machine's first process: mounts as systemd wants to find them, and systemd
if [ -n "${LS_SYSTEMD_ROOT:-}" ]; then
    cd "$LS_SYSTEMD_ROOT"
    mount --bind . .
    cd "$LS_SYSTEMD_ROOT"
    mount -t proc proc proc
    mount -t sysfs sysfs sys
    mount -t cgroup2 cgroup2 sys/fs/cgroup
    mount -o remount,bind,ro sys # no udev: the devices are another machine's
    mount -t tmpfs -o mode=755 tmpfs run
    mount -t tmpfs -o mode=755 tmpfs dev
    for node in null zero full random urandom tty; do
        : >"dev/$node"
        mount --bind "/dev/$node" "dev/$node"
    done
    mkdir dev/pts dev/shm old
    mount -t devpts -o newinstance,ptmxmode=666 devpts dev/pts
    ln -s pts/ptmx dev/ptmx
    mount -t tmpfs tmpfs dev/shm
    ip link set lo up
    pivot_root . old
    umount -l /old
    rmdir /old
    exec /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin container=lockstep-test \
        /lib/systemd/systemd --log-target=journal --show-status=no </dev/null
fi

package=$(readlink -f "$1")
suite=${2:-bookworm}
work=$(mktemp -d)
bare=$work/root
log=$work/log
cgroup=
namespaces=
say() { printf 'systemd: %s\n' "$*"; }
# shellcheck disable=SC2317 # by a trap
clean_up() {
    [ -z "$namespaces" ] || kill -KILL "$namespaces" 2>/dev/null || :
    wait
    # A group is empty when its last process has been waited for.
    tries=0
    while [ -n "$cgroup" ] && [ -d "$cgroup" ] && [ "$tries" -lt 50 ]; do
        find "$cgroup" -depth -type d -exec rmdir {} + 2>/dev/null || sleep 0.1
        tries=$((tries + 1))
    done
    rm -rf --one-file-system "$work"
}
trap clean_up EXIT
trap 'exit 130' INT TERM HUP
fail() {
    say "FAILED: $*"
    [ ! -s "$log" ] || tail -n 20 "$log"
    [ -z "$namespaces" ] || on_it 'journalctl --no-pager -n 60' || :
    exit 1
}

# ---- a bare root with systemd and what the package depends on, but not the package
mkdir "$bare"
if [ -n "${LS_BARE_TAR:-}" ]; then
    tar -C "$bare" -xf "$LS_BARE_TAR"
else
    mmdebstrap --quiet --variant=minbase "$suite" "$bare"
fi
cp /etc/resolv.conf /etc/hosts "$bare/etc/"
cp "$package" "$bare/opt/lockstep.deb"
unshare --mount sh -c 'cd "$1" && mount -t proc proc proc && mount --rbind /dev dev &&
    exec chroot . /usr/bin/env -i HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8 DEBIAN_FRONTEND=noninteractive \
        sh -c "apt-get -qq update && apt-get -qq -y --no-install-recommends install systemd systemd-sysv procps /opt/lockstep.deb &&
            apt-get -qq -y purge lockstep"' sh "$bare" >"$log" 2>&1 || fail 'the root could not be made'
echo bare >"$bare/etc/hostname"

# ---- it boots
hierarchy=$(awk '$3 == "cgroup2" { print $2; exit }' /proc/mounts)
[ -n "$hierarchy" ] || fail 'no cgroup2 is mounted here'
cgroup=$hierarchy/lockstep-systemd-$$
mkdir "$cgroup"
LS_SYSTEMD_ROOT=$bare sh -c 'echo $$ >"$1/cgroup.procs" && exec unshare --mount --pid --uts --ipc --net --cgroup \
    --fork --kill-child sh "$2"' sh "$cgroup" "$0" >"$work/console" 2>&1 &
namespaces=$!
on_it() {
    # shellcheck disable=SC2046 # a number, and a blank behind it
    nsenter --target $(cat "/proc/$namespaces/task/$namespaces/children") --mount --uts --ipc --net --pid --cgroup \
        --root /usr/bin/env --chdir=/ -i HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8 \
        DEBIAN_FRONTEND=noninteractive sh -c "cd /root && $1"
}
# eventually SECONDS COMMAND: true on the machine within that time.
eventually() {
    tries=0
    until on_it "$2" >>"$log" 2>&1; do
        tries=$((tries + 1))
        [ "$tries" -lt $((10 * $1)) ] || return 1
        sleep 0.1
    done
}
property() { on_it "systemctl show --property=$2 --value lockstep-agent-$1"; }
began=$(date +%s%N)
eventually 30 'test -S /run/systemd/private' || {
    cat "$work/console"
    fail 'systemd does not start'
}
state=$(on_it 'systemctl is-system-running --wait' || :)
case $state in
running | degraded) ;;
*) fail "it does not boot: $state" ;;
esac
say "$(on_it 'systemctl --version | head -n 1') as the first process, $state after $((($(date +%s%N) - began) / 1000000)) ms"
on_it 'systemctl --failed --no-legend --plain' >"$work/failed"

# ---- installed: nothing runs, and nothing can without keys
on_it 'apt-get -y install /opt/lockstep.deb' >"$log" 2>&1 || fail 'it cannot be installed'
for role in client server; do
    [ "$(property "$role" ActiveState)" = inactive ] || fail "the $role's agent was started by the installation"
    on_it "systemctl start lockstep-agent-$role" >"$log" 2>&1 && fail "the $role's agent starts without keys"
    [ "$(property "$role" AssertResult)" = no ] || fail 'it is not the keys that are missing'
done

# ---- keys, a policy, the coordinator's address
on_it 'lockstep pki init && lockstep pki issue coordinator main --host 127.0.0.1 &&
    lockstep pki issue agent client-1 && lockstep pki issue agent server-1 &&
    cp -a pki/issued/agent-client-1 /etc/lockstep/keys/client && chown -R lockstep: /etc/lockstep/keys/client &&
    cp -a pki/issued/agent-server-1 /etc/lockstep/keys/server &&
    sed -i "s|^LOCKSTEP_DIAL=.*|LOCKSTEP_DIAL=tls+tcp://127.0.0.1:7000|
        s|^LOCKSTEP_CLIENT_OPTIONS=.*|LOCKSTEP_CLIENT_OPTIONS=--policy /etc/lockstep/client.yaml|" /etc/lockstep/agent.conf' >"$log" 2>&1 || fail 'no keys'
cat >"$bare/etc/lockstep/policy.yaml" <<'POLICY'
coordinators: [main]
programs:
  - {name: responder, path: /usr/bin/lockstep-agent, arguments: [respond, "..."], version: [--version], user: nobody}
POLICY
# A host of both kinds has two policies: only root's agent can have programs run by others.
printf 'coordinators: [main]\nload: {targets: [servers, loopback]}\n' >"$bare/etc/lockstep/client.yaml"

# What only people can mend ends it for good.
on_it 'cp /etc/lockstep/agent.conf agent.conf && sed -i "s|^LOCKSTEP_CLIENT_OPTIONS=.*|LOCKSTEP_CLIENT_OPTIONS=--no-such|" /etc/lockstep/agent.conf'
on_it 'systemctl start lockstep-agent-client' >"$log" 2>&1 && fail 'an agent with a wrong option is ready'
eventually 10 'systemctl is-failed --quiet lockstep-agent-client' || fail 'it has not failed'
[ "$(property client ExecMainStatus) $(property client NRestarts)" = '2 0' ] ||
    fail "a wrong option: status $(property client ExecMainStatus), $(property client NRestarts) restarts"
on_it 'cp agent.conf /etc/lockstep/agent.conf && systemctl reset-failed'

# ---- ready is one that dials
on_it 'systemctl enable --now lockstep-agent-client lockstep-agent-server' >"$log" 2>&1 || fail 'the units do not start'
for role in client server; do
    [ "$(property "$role" ActiveState)/$(property "$role" SubState)" = active/running ] || fail "the $role's agent does not run"
    case $(property "$role" StatusText) in
    dials*) ;;
    *) fail "the $role's agent does not say what it does: $(property "$role" StatusText)" ;;
    esac
done
say "ready: client: $(property client StatusText)"

# ---- what the sandbox keeps from them
# in_unit ROLE COMMAND: in the mounts that its agent sees.
in_unit() {
    on_it "nsenter --target $(property "$1" MainPID) --mount --root sh -c '$2'"
}
for role in client server; do
    pid=$(property "$role" MainPID)
    say "$role: $(on_it "grep -E '^(Uid|CapEff|CapBnd|NoNewPrivs|Seccomp):' /proc/$pid/status" | tr '\t\n' ' ')"
    on_it "grep -q '^NoNewPrivs:.1' /proc/$pid/status && grep -q '^Seccomp:.2' /proc/$pid/status" ||
        fail "the $role's agent is not confined"
    for path in /usr/bin /etc/lockstep /boot; do
        if in_unit "$role" "touch $path/here" >"$log" 2>&1; then fail "$path can be written to in the $role's unit"; fi
    done
    in_unit "$role" 'touch /tmp/private' || fail "the $role's agent has no /tmp"
    on_it 'test ! -e /tmp/private' || fail "/tmp of the $role's agent is everybody's"
    on_it "systemd-analyze security --no-pager lockstep-agent-$role" >"$work/security-$role" 2>&1 || fail 'systemd-analyze'
    tail -n 1 "$work/security-$role" | sed 's/^[^O]*/systemd: /'
done
on_it "grep -q '^CapBnd:.0000000000000000' /proc/$(property client MainPID)/status" || fail 'the client could have capabilities'

# ---- they enrol, and a run goes between them: its target is in a group below its unit's, as another user
(on_it 'lockstep run /usr/share/lockstep/plans/anywhere.yaml --listen tls+tcp://127.0.0.1:7000 --keys pki/issued/coordinator-main \
    --set fleet.clients=1 --set schedule.repetitions=1 --wait 20s --out result' >"$work/run" 2>&1 ||
    echo "$?" >"$work/status") &
run=$!
eventually 30 'pgrep -f "^[^ ]*lockstep-agent respond" >target' || {
    cat "$work/run"
    fail 'there is no target'
}
target=$(on_it 'head -n 1 target')
on_it "grep -q lockstep-agent-server.service /proc/$target/cgroup" || fail "its group: $(on_it "cat /proc/$target/cgroup")"
[ "$(on_it "stat -c %U /proc/$target")" = nobody ] || fail 'the target is not nobody'
case $(property client StatusText) in
'in run '*) ;;
*) fail "the client says: $(property client StatusText)" ;;
esac
wait "$run"
code=0
[ ! -s "$work/status" ] || read -r code <"$work/status"
case $code in
0 | 4) ;; # what a small machine makes of figures is not this script's business
*)
    cat "$work/run"
    fail "the run ended with $code"
    ;;
esac
on_it 'grep -q "\"status\": *\"done\"" result/result.json' || fail 'the trial is not done'
say "a run between them: status $code; its target was in a group of the unit's, as nobody"

# ---- the watchdog: heard often enough, and missed
on_it 'mkdir -p /run/systemd/system/lockstep-agent-client.service.d &&
    printf "[Service]\nWatchdogSec=2\nRestartSec=100ms\n" >/run/systemd/system/lockstep-agent-client.service.d/short.conf &&
    systemctl daemon-reload && systemctl restart lockstep-agent-client' >"$log" 2>&1 || fail 'no restart'
sleep 6
[ "$(property client NRestarts) $(property client ActiveState)" = '0 active' ] || fail 'the watchdog does not hear an agent that lives'
on_it "kill -STOP $(property client MainPID)"
eventually 30 '[ "$(systemctl show --property=NRestarts --value lockstep-agent-client)" = 1 ] && systemctl is-active --quiet lockstep-agent-client' ||
    fail 'an agent that hangs is not started again'
say 'an agent that was stopped was started again by the watchdog'

# ---- stopped, purged
began=$(date +%s%N)
on_it 'systemctl stop lockstep-agent-client lockstep-agent-server'
say "both stopped in $((($(date +%s%N) - began) / 1000000)) ms"
for role in client server; do
    [ "$(property "$role" ActiveState)/$(property "$role" Result)" = inactive/success ] ||
        fail "the $role's agent ended as $(property "$role" ActiveState)/$(property "$role" Result)"
done
if on_it 'pgrep -l lockstep' >"$log"; then fail 'something is left'; fi
on_it 'systemctl start lockstep-agent-client lockstep-agent-server && apt-get -y purge lockstep' >"$log" 2>&1 ||
    fail 'it cannot be purged'
if on_it 'pgrep -l lockstep' >"$log"; then fail 'something is left after the purge'; fi
left=$(on_it 'find /etc/systemd /usr/lib/systemd /run/systemd/system -name "*lockstep*" ! -path "*/lockstep-agent-client.service.d*"')
[ -z "$left" ] || fail "left: $left"
if on_it 'systemctl --failed --no-legend --plain' | grep -v -x -F -f "$work/failed" >"$log"; then
    fail 'units have failed that had not before'
fi
say ok
