#!/bin/sh
# Keys for the containers of compose.yaml: an authority in DIR/pki, which stays here, and what each container
# mounts. They belong to the image's user: nobody else can read them.
#
#   sh deploy/container/keys.sh CLIENTS [DIR]          as root, with podman or docker, or lockstep itself
#
# LOCKSTEP_RUN is the command that runs lockstep, where neither fits.
set -eu

count=$1
dir=${2:-keys}
user=10001
die() {
    printf 'keys: %s\n' "$*" >&2
    exit 1
}
case $count in '' | *[!0-9]*) die 'say for how many clients: sh keys.sh 4' ;; esac
[ "$(id -u)" -eq 0 ] || die 'the files are to be another user'\''s: run this as root'
[ ! -e "$dir" ] || die "$dir is there already"
mkdir -p "$dir/clients"
chmod 755 "$dir" "$dir/clients"
dir=$(CDPATH='' cd -- "$dir" && pwd)
if [ -z "${LOCKSTEP_RUN:-}" ]; then
    if command -v lockstep >/dev/null; then
        LOCKSTEP_RUN=lockstep
    else
        engine=$(command -v podman || command -v docker) || die 'no lockstep, podman or docker is here'
        LOCKSTEP_RUN="$engine run --rm --user 0 -v $dir:$dir ${LOCKSTEP_IMAGE:-localhost/lockstep}"
    fi
fi
run() {
    # shellcheck disable=SC2086 # words
    $LOCKSTEP_RUN "$@" >"$dir/log" 2>&1 || die "$(cat "$dir/log")"
}
run pki init "$dir/pki"
run pki issue coordinator main --pki "$dir/pki" --host coordinator --out "$dir/coordinator"
run pki issue agent server-1 --pki "$dir/pki" --out "$dir/server"
i=0
while [ "$i" -lt "$count" ]; do
    i=$((i + 1))
    run pki issue agent "client-$i" --pki "$dir/pki" --out "$dir/clients/client-$i"
done
rm -f "$dir/log"
chown -R "$user:$user" "$dir/coordinator" "$dir/server" "$dir/clients"
