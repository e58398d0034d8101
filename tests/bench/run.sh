#!/bin/sh
# Lockstep's load engine beside other load testers, in one go and in turn, as a Markdown table.
#
#   sh tests/bench/run.sh [CASE...] [--quick] [--pairs N] [--seconds N] [--keep] [--list]
#
# CASE picks cases by name or by the beginning of one (h1, tls, open); --list names them. README.md
# says what the figures mean. The server has the first CPU that this process may use, the clients
# the second. Everything happens in a namespace of its own, and ends when this script does.
set -eu

here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
root=$(CDPATH='' cd -- "$here/../.." && pwd)
PATH=$PATH:/usr/sbin:/sbin
export PATH

say() {
    printf 'bench: %s\n' "$*" >&2
}

pairs=9
seconds=1
quick=no
keep=no
cases=
while [ $# -gt 0 ]; do
    case $1 in
    --quick) quick=yes pairs=2 ;;
    --keep) keep=yes ;;
    --pairs | --seconds)
        case ${2:-} in
        '' | *[!0-9]* | 0)
            say "$1 takes a number"
            exit 2
            ;;
        esac
        if [ "$1" = --pairs ]; then pairs=$2; else seconds=$2; fi
        shift
        ;;
    --list)
        sed -n 's/^## //p' "$here/cases.sh"
        exit 0
        ;;
    -*)
        say "unknown option $1; the head of run.sh lists them"
        exit 2
        ;;
    *)
        grep -q "^## $1" "$here/cases.sh" || {
            say "no case begins with '$1'; --list names them"
            exit 2
        }
        cases="$cases $1"
        ;;
    esac
    shift
done

sh "$root/deploy/install.sh" build run bench >&2
say "building preset bench"
sh "$root/deploy/build.sh" bench

# npm's packages never run a script of theirs; without npm, or without a network, there is no
# autocannon in the table.
npm=$root/build/bench-npm
if command -v npm >/dev/null 2>&1 && ! cmp -s "$here/npm/package-lock.json" "$npm/installed.json"; then
    rm -rf "$npm"
    mkdir -p "$npm"
    cp "$here/npm/package.json" "$here/npm/package-lock.json" "$npm/"
    if (cd "$npm" && npm ci --ignore-scripts --no-audit --no-fund >npm.log 2>&1 </dev/null); then
        cp "$here/npm/package-lock.json" "$npm/installed.json"
    else
        say "npm ci failed ($npm/npm.log): no autocannon"
    fi
fi

# Bun for the WebSocket cases, from the suites' lock file, if they are wanted.
bun=
case "$cases " in
' ' | *' ws'*)
    bun=$(sh "$root/deploy/suites/npm.sh" 2>/dev/null </dev/null)/.bin/bun || bun=
    ;;
esac

# The first two CPUs of the affinity list, "0-3,8" and the like; one twice if there is only one.
# shellcheck disable=SC2046 # two words
set -- $(taskset -cp $$ | sed 's/.*: //' | tr ',' '\n' | awk -F- '
    { for (cpu = $1; cpu <= (NF > 1 ? $2 : $1) && n < 2; cpu++) { last = cpu; n++; print cpu } }
    END { if (n == 1) print last }')

work=$root/build/bench-work
if [ -e "$work/pid" ] && kill -0 "$(cat "$work/pid")" 2>/dev/null; then
    say "another run is under way (process $(cat "$work/pid"))"
    exit 1
fi
rm -rf "$work"
mkdir -p "$work"
echo $$ >"$work/pid"
cat >"$work/settings" <<SETTINGS
here='$here'
root='$root'
work='$work'
bin='$root/build/bench/tests/bench'
autocannon='$npm/node_modules/.bin/autocannon'
bun='$bun'
server_cpu=$1
client_cpu=$2
pairs=$pairs
seconds=$seconds
quick=$quick
cases='$cases'
SETTINGS

# A network of our own, so that no packet filter's connection tracking costs every tool the same and
# hides the difference; a process table of our own, so that nothing outlives us.
inside="sh $here/cases.sh $work/settings"
apart='--net --pid --mount-proc --fork --kill-child=KILL'
# shellcheck disable=SC2086 # options are words
if ! unshare $apart true 2>/dev/null; then
    apart="--user --map-root-user $apart"
    # shellcheck disable=SC2086
    unshare $apart true 2>/dev/null || apart=
fi
child=
# shellcheck disable=SC2317 # by trap
clean_up() {
    [ -z "$child" ] || kill -KILL "$child" 2>/dev/null || :
    rm -f "$work/pid"
}
trap clean_up EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP
if [ -n "$apart" ]; then
    echo namespace=own >>"$work/settings"
    # shellcheck disable=SC2086
    setpriv --pdeathsig KILL unshare $apart $inside &
else
    say "no namespace of our own is allowed here: connection tracking may cost every tool the same"
    echo namespace=shared >>"$work/settings"
    # shellcheck disable=SC2086
    setpriv --pdeathsig KILL $inside &
fi
child=$!
status=0
wait "$child" || status=$?
child=

sh "$here/machine.sh" "$work/settings" >"$work/machine"
awk -v kept="$here/last.json" -v json="$work/table.json" -f "$here/table.awk" \
    "$work/machine" "$here/targets.txt" "$work/runs" >"$work/table.md" || status=1
cat "$work/table.md"
if [ "$keep" = yes ] && [ "$status" -eq 0 ]; then
    cp "$work/table.json" "$here/last.json"
    say "kept as tests/bench/last.json"
fi
exit "$status"
