#!/bin/sh
# The Debian package in bare roots: installed on three hosts of their own (a coordinator's, a server's, a
# client's), agents enrolled as the units start them, the quickstart plan run between them, purged: what is
# left is what a person made. Not a ctest: it needs root, mmdebstrap, a package archive, and takes minutes.
#
#   sh tests/e2e/package.sh PACKAGE.deb [SUITE]        (sh deploy/build.sh release; cd build/release; cpack)
#
# A package is for the Debian that it was built on: SUITE is bookworm, unless given.
#
# LS_BARE_TAR names a tarball of a bare root made before (mmdebstrap --variant=minbase SUITE TAR).
# shellcheck disable=SC2016 # scripts for other shells
set -eu

root=$(CDPATH='' cd -- "$(dirname -- "$0")/../.." && pwd)
package=$(readlink -f "$1")
suite=${2:-bookworm}

# In mount and process namespaces of its own: whatever happens, no mount and no process is left.
if [ -z "${LS_BARE_INSIDE:-}" ]; then
    LS_BARE_INSIDE=$(mktemp -d)
    export LS_BARE_INSIDE
    unshare --mount --pid --fork --kill-child --mount-proc sh "$0" "$@" &
    namespaces=$!
    trap 'kill -KILL "$namespaces" 2>/dev/null || :; wait; rm -rf "$LS_BARE_INSIDE"' EXIT
    trap 'exit 130' INT TERM HUP
    status=0
    wait "$namespaces" || status=$?
    exit "$status"
fi

work=$LS_BARE_INSIDE
say() { printf 'package: %s\n' "$*"; }
fail() {
    say "FAILED: $*"
    for log in "$work"/log/*; do
        printf '%s\n' "--- $log"
        tail -n 15 "$log"
    done
    exit 1
}
mkdir -p "$work/base" "$work/log"
mount -t tmpfs tmpfs "$work/log"

# ---- three hosts: one bare root with the servers of the plan, and what each has changed in it
if [ -n "${LS_BARE_TAR:-}" ]; then
    tar -C "$work/base" -xf "$LS_BARE_TAR"
else
    mmdebstrap --quiet --variant=minbase "$suite" "$work/base"
fi
cp /etc/resolv.conf /etc/hosts "$work/base/etc/"
in_root() {
    host=$1
    shift
    chroot "$work/$host" /usr/bin/env -i HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8 \
        DEBIAN_FRONTEND=noninteractive "$@"
}
printf '#!/bin/sh\nexit 101\n' >"$work/base/usr/sbin/policy-rc.d"
chmod 755 "$work/base/usr/sbin/policy-rc.d"
mount -t proc proc "$work/base/proc"
mount --bind /dev "$work/base/dev"
in_root base sh -c 'apt-get -qq update && apt-get -qq -y --no-install-recommends install systemd nginx nodejs' \
    >"$work/log/base" 2>&1 || fail 'the base could not be made'
umount "$work/base/dev" "$work/base/proc"
hosts='coordinator server-1 client-1 client-2'
mkdir "$work/upper"
mount -t tmpfs tmpfs "$work/upper"
for host in $hosts; do
    mkdir -p "$work/$host" "$work/upper/$host" "$work/upper/$host.work"
    mount -t overlay overlay -o "lowerdir=$work/base,upperdir=$work/upper/$host,workdir=$work/upper/$host.work" "$work/$host"
    mount -t proc proc "$work/$host/proc"
    mount --rbind /dev "$work/$host/dev"
    mount --rbind /sys "$work/$host/sys"
    cp "$package" "$work/$host/opt/lockstep.deb"
done
say "a bare $suite: $(chroot "$work/base" dpkg-query -W | wc -l) packages with systemd, nginx and nodejs"
began=$(date +%s)
for host in $hosts; do
    in_root "$host" apt-get -y --no-install-recommends install /opt/lockstep.deb >"$work/log/install-$host" 2>&1 ||
        fail "it cannot be installed on $host"
done
say "installed on 4 hosts in $(($(date +%s) - began)) s: $(in_root client-1 lockstep --version), $(in_root client-1 lockstep-agent --version)"
in_root client-1 getent passwd lockstep >/dev/null || fail 'there is no user lockstep'
[ "$(in_root client-1 stat -c %a /etc/lockstep/keys)" = 711 ] || fail 'there is no folder for keys'
in_root client-1 lockstep-agent --version --verbose | grep -q nghttp2 || fail 'the libraries are not listed'
in_root client-1 sh -c 'test -s /usr/share/doc/lockstep/lockstep.spdx.json && test -s /usr/lib/systemd/system/lockstep-agent-client.service' ||
    fail 'files are missing'

# ---- a person gives them keys, and says where their coordinator is
export LOCKSTEP_LAB="$work/lab"
lab() { sh "$root/deploy/lab/lab.sh" "$@"; }
lab up --clients 2 --servers 1 --owner $$ || fail 'no lab'
url=tls+tcp://10.111.0.1:7000
in_root coordinator sh -c 'cd /root && lockstep pki init && lockstep pki issue coordinator main --host 10.111.0.1 &&
    for name in server-1 client-1 client-2; do lockstep pki issue agent $name; done' >"$work/log/pki" 2>&1 || fail 'no keys'
for host in server-1 client-1 client-2; do
    role=${host%%-*}
    cp -a "$work/coordinator/root/pki/issued/agent-$host" "$work/$host/etc/lockstep/keys/$role"
    [ "$role" = server ] || in_root "$host" chown -R lockstep: "/etc/lockstep/keys/$role"
    sed -i "s|^LOCKSTEP_DIAL=.*|LOCKSTEP_DIAL=$url|" "$work/$host/etc/lockstep/agent.conf"
done

# The unit's own command line, as its user and with no more capabilities than it may have.
start_unit() {
    host=$1
    role=${host%%-*}
    unit=/usr/lib/systemd/system/lockstep-agent-$role.service
    line=$(sed -n 's/^ExecStart=//p' "$work/$host$unit")
    caps=$(sed -n 's/^CapabilityBoundingSet=//p' "$work/$host$unit" | tr ' A-Z' ',a-z' | sed 's/cap_/+/g')
    as="--bounding-set=-all${caps:+,$caps} --inh-caps=-all --no-new-privs"
    if grep -q '^User=lockstep' "$work/$host$unit"; then
        as="--reuid lockstep --regid lockstep --clear-groups $as"
    fi
    lab exec "$host" chroot "$work/$host" /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin \
        sh -c "cd / && mount -t proc proc /proc && . /etc/lockstep/agent.conf && exec setpriv $as $line" \
        >"$work/log/agent-$host" 2>&1 </dev/null &
}
# Each ends, and all that it has started.
stop_units() {
    for host in server-1 client-1 client-2; do
        lab exec "$host" sh -c 'kill -s TERM -- -1' || :
        tries=0
        while [ -n "$(lab processes "$host")" ]; do
            tries=$((tries + 1))
            [ "$tries" -lt 100 ] || fail "left on $host: $(lab processes "$host")"
            sleep 0.1
        done
    done
}
on_coordinator() {
    lab exec coordinator chroot "$work/coordinator" /usr/bin/env -i HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin \
        sh -c 'cd /root && exec "$@"' sh "$@"
}

# As it is installed, a host allows nothing, and says so before there is any load.
for host in server-1 client-1 client-2; do start_unit "$host"; done
if on_coordinator lockstep run /usr/share/lockstep/plans/quickstart.yaml --listen "$url" --keys pki/issued/coordinator-main \
    --wait 5s --out refused >"$work/log/refused" 2>&1; then
    fail 'the default policy allows a program'
fi
grep -q "policy: server server-1 runs no program for others" "$work/log/refused" || fail 'the default policy is not named'
say "the policy as installed: $(grep -o 'policy: server server-1 .*' "$work/log/refused" | head -n 1)"
stop_units

# ---- and a policy
cat >"$work/server-1/etc/lockstep/policy.yaml" <<'POLICY'
coordinators: [main]
programs:
  - {name: nginx, path: /usr/sbin/nginx, arguments: [-p, "{dir}", -c, nginx.conf, -e, stderr], version: [-v], user: www-data}
  - {name: node, path: /usr/bin/node, arguments: ["*.mjs"], version: [--version], environment: [HOST, PORT, NODE_ENV], user: nobody}
POLICY
for host in client-1 client-2; do
    printf 'coordinators: [main]\nload: {targets: [servers]}\n' >"$work/$host/etc/lockstep/policy.yaml"
done
for host in server-1 client-1 client-2; do start_unit "$host"; done
on_coordinator lockstep agents --listen "$url" --keys pki/issued/coordinator-main --expect 3 --wait 20s \
    >"$work/log/agents" 2>&1 || fail 'they do not enrol'
cat "$work/log/agents"
code=0
on_coordinator lockstep run /usr/share/lockstep/plans/quickstart.yaml --set fleet.cpus.allow_overlap=true \
    --listen "$url" --keys pki/issued/coordinator-main --wait 20s --out result >"$work/log/run" 2>&1 || code=$?
cat "$work/log/run"
case $code in
0 | 4) ;; # what a small machine makes of figures is not this script's business
*) fail "the run ended with $code" ;;
esac
[ "$(grep -c '"status": *"done"' "$work/coordinator/root/result/result.json")" -ge 6 ] || fail 'not all trials are done'
stop_units
lab down

# ---- gone: what has changed since is what a person has made, and what apt keeps of any package
for host in $hosts; do
    # What others recommend or suggest apt keeps even where it came with this package (in Debian 13 libidn2-0 for libc6's sake).
    in_root "$host" sh -c 'apt-get -y purge lockstep && apt-get clean && apt-get -y --purge \
        -o APT::AutoRemove::RecommendsImportant=false -o APT::AutoRemove::SuggestsImportant=false autoremove' \
        >"$work/log/purge-$host" 2>&1 || fail "it cannot be purged on $host"
    # shellcheck disable=SC2015 # an empty list is what is hoped for
    left=$(cd "$work/upper/$host" && find . ! -type d ! -type c | sed 's|^\.||' | grep -v -E \
        '^/(var/(lib/(dpkg|apt|systemd)|cache|log|backups)/|opt/lockstep\.deb|root/(pki/|result/|refused/)|etc/lockstep/keys/(client|server)/|etc/(passwd|group|shadow|gshadow|subuid|subgid|ld\.so\.cache|\.pwd\.lock)-?$|etc/(passwd|group|shadow|gshadow)-|etc/ld.so.cache)' || :)
    [ -z "$left" ] || fail "left on $host: $left"
    for file in passwd group; do
        cmp -s "$work/base/etc/$file" "$work/$host/etc/$file" || {
            diff "$work/base/etc/$file" "$work/$host/etc/$file" || :
            fail "/etc/$file of $host is not what it was"
        }
    done
done
say "purged: nothing is left but $(cd "$work/upper/server-1" && find etc/lockstep -type f | tr '\n' ' ')and results"
# shellcheck disable=SC2009 # pgrep has no way to leave out a tree
alive=$(ps -eo pid=,comm= | awk -v us=$$ '$1 != us && $2 !~ /^(ps|awk|sh)$/')
[ -z "$alive" ] || fail "left behind: $alive"
say ok
