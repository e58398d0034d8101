#!/bin/sh
# Both commands in a bare Debian 12 (or another one), from a fresh clone: made by mmdebstrap, used by chroot, gone
# afterwards. Not a ctest: it needs root, mmdebstrap and a package archive, and takes minutes.
#
#   sh tests/e2e/bare_debian.sh [COMMAND...]     quickstart and tests, in the order given (both);
#                                                each twice, the second time with nothing to install;
#                                                units: of the tests only those without real runs;
#                                                package: the Debian package, into the folder LS_BARE_OUT;
#                                                minimal: minimal.sh, the smaller builds
#
# LS_BARE_SUITE is the Debian: bookworm, unless given; trixie.
# LS_BARE_ROUNDS=1 leaves the second time out.
# LS_BARE_TAR names a tarball of a bare root made before (mmdebstrap --variant=minbase bookworm TAR).
set -eu

root=$(CDPATH='' cd -- "$(dirname -- "$0")/../.." && pwd)
[ $# -gt 0 ] || set -- quickstart tests
for word in "$@"; do
    case $word in
    quickstart | tests | units | minimal) ;;
    package) mkdir -p "${LS_BARE_OUT:?names the folder for the package}" ;;
    *)
        echo "bare_debian: quickstart, tests, units, package and minimal are the commands, not $word" >&2
        exit 2
        ;;
    esac
done

out=$(cd "${LS_BARE_OUT:-.}" && pwd)

# In mount and process namespaces of its own: whatever happens, no mount and no process is left.
if [ -z "${LS_BARE_INSIDE:-}" ]; then
    LS_BARE_INSIDE=$(mktemp -d)
    export LS_BARE_INSIDE
    unshare --mount --pid --fork --kill-child --mount-proc sh "$0" "$@" &
    namespaces=$!
    trap 'kill -KILL "$namespaces" 2>/dev/null || :; wait; rm -rf "$LS_BARE_INSIDE"' EXIT
    trap 'exit 130' INT TERM HUP
    wait "$namespaces"
    exit
fi

bare=$LS_BARE_INSIDE
say() {
    printf 'bare_debian: %s\n' "$*"
}

if [ -n "${LS_BARE_TAR:-}" ]; then
    tar -C "$bare" -xf "$LS_BARE_TAR"
else
    mmdebstrap --quiet --variant=minbase "${LS_BARE_SUITE:-bookworm}" "$bare"
fi
# A mount point, as the root of a machine is one: else it cannot be made private (unshare -m).
mount --bind "$bare" "$bare"
cd "$bare"
git clone --quiet --no-hardlinks "$root" "$bare/opt/lockstep"
mount -t proc proc "$bare/proc"
mount --rbind /dev "$bare/dev"
mount --rbind /sys "$bare/sys"
cp /etc/resolv.conf /etc/hosts "$bare/etc/"
if [ -n "${LS_CAPTURES:-}" ]; then
    mkdir -p "$bare/opt/shared/captures"
    cp "$LS_CAPTURES"/* "$bare/opt/shared/captures/"
fi
# Node's own list of authorities may not know who signs for the archive of npm packages here.
if [ -n "${NODE_EXTRA_CA_CERTS:-}" ]; then
    cp "$NODE_EXTRA_CA_CERTS" "$bare/etc/extra-ca.crt"
    NODE_EXTRA_CA_CERTS=/etc/extra-ca.crt
    export NODE_EXTRA_CA_CERTS
fi

failures=0
run() {
    began=$(date +%s)
    status=0
    # From another folder than the checkout, with a small environment, without stdin.
    chroot "$bare" /usr/bin/env -i HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8 \
        NODE_EXTRA_CA_CERTS="${NODE_EXTRA_CA_CERTS:-}" CI="${CI:-}" \
        /bin/sh -c "cd /var && sh /opt/lockstep/$1" </dev/null || status=$?
    say "$1: status $status after $(($(date +%s) - began)) s"
    [ "$status" -eq 0 ] || failures=$((failures + 1))
}

say "$(du -sm "$bare" --exclude="$bare/proc" --exclude="$bare/sys" --exclude="$bare/dev" | cut -f1) MB, $(chroot "$bare" dpkg-query -W | wc -l) packages"
rounds='first second'
[ "${LS_BARE_ROUNDS:-2}" -gt 1 ] || rounds=first
for round in $rounds; do
    for word in "$@"; do
        say "$word, the $round time"
        case $word in
        quickstart) run deploy/quickstart.sh ;;
        tests) run tests/run.sh ;;
        units) run 'tests/run.sh -LE "e2e|lint"' ;;
        minimal) run 'deploy/install.sh build && sh /opt/lockstep/tests/e2e/minimal.sh' ;;
        package)
            run 'deploy/install.sh build package && sh /opt/lockstep/deploy/build.sh release && cd /opt/lockstep/build/release && cpack'
            cp "$bare"/opt/lockstep/build/release/lockstep_*.deb "$out/" || failures=$((failures + 1))
            ;;
        esac
    done
done
say "$(du -sm "$bare" --exclude="$bare/proc" --exclude="$bare/sys" --exclude="$bare/dev" | cut -f1) MB, $(chroot "$bare" dpkg-query -W | wc -l) packages"

# Nothing of it may listen or live: in this process namespace there is only us.
# shellcheck disable=SC2009 # pgrep has no way to leave out a tree
alive=$(ps -eo pid=,comm= | awk -v us=$$ '$1 != us && $2 !~ /^(ps|awk|sh)$/')
[ -z "$alive" ] || {
    say "left behind: $alive"
    failures=$((failures + 1))
}
[ "$failures" -eq 0 ] && say "ok" && exit 0
say "$failures failures"
exit 1
