#!/bin/sh
# The build for arm64 on this machine: in a bare root with Debian's cross compiler and arm64's libraries, and the
# programs, run by qemu, say what they are and load one another. Not a ctest: it needs root, mmdebstrap, a package
# archive, and takes minutes.
#
#   sh tests/e2e/cross.sh [SUITE]
set -eu

root=$(CDPATH='' cd -- "$(dirname -- "$0")/../.." && pwd)
suite=${1:-bookworm}

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

bare=$LS_BARE_INSIDE
say() { printf 'cross: %s\n' "$*"; }
libraries=$(sh "$root/deploy/install.sh" --list build | grep -- '-dev$' | grep -v libc6-dev | sed 's/$/:arm64/' | tr '\n' ',')
tools=$(sh "$root/deploy/install.sh" --list build | grep -v -- '-dev$' | tr '\n' ',')
mmdebstrap --quiet --variant=minbase --architectures=amd64,arm64 \
    --include="$tools${libraries}gcc-aarch64-linux-gnu,libc6-dev-arm64-cross,dpkg-dev,file,qemu-user-static" "$suite" "$bare"
git clone --quiet --no-hardlinks "$root" "$bare/opt/lockstep"
mount -t proc proc "$bare/proc"
mount --rbind /dev "$bare/dev"
in_root() {
    chroot "$bare" /usr/bin/env -i HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8 \
        sh -c "cd /opt/lockstep && $1" </dev/null
}
in_root 'cmake --preset release --toolchain deploy/aarch64.cmake >build.log 2>&1 && cmake --build --preset release >>build.log 2>&1' || {
    tail -n 40 "$bare/opt/lockstep/build.log"
    exit 1
}
say "$(in_root 'file -b build/release/agent/lockstep-agent')"
in_root 'cd build/release && cpack >cpack.log 2>&1 || { tail -n 20 cpack.log; exit 1; }; dpkg-deb -f lockstep_*_arm64.deb Package Architecture Depends'
in_root 'qemu-aarch64-static build/release/coordinator/lockstep --version --verbose'
say ok
