#!/bin/sh
# Start-up of processes as Lockstep and hyperfine see it, in turn, on one CPU, with the same
# environment: the shortest of all runs, and how far apart the two are.
#
#   sh tests/bench/process_start.sh [ROUNDS] [RUNS]      5 rounds of 40 runs
#
# BUN, DENO, NODE and PYTHON name programs that are not in PATH; what is not there is skipped. A round
# is hyperfine, then Lockstep, for one program after the other; every second round the other way
# round. LS_BUILD is where the programs are (build/bench, else build/dev). PREFIX goes before both
# commands: "chrt -f 10", as root, where the machine is not quiet.
set -eu

here=$(CDPATH='' cd -- "$(dirname -- "$0")/../.." && pwd)
rounds=${1:-5}
runs=${2:-40}
build=${LS_BUILD:-$here/build/bench}
[ -x "$build/coordinator/lockstep" ] || build=$here/build/dev
command -v hyperfine >/dev/null || {
    echo "hyperfine is not installed (group bench of deploy/packages.txt)" >&2
    exit 1
}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 1' INT TERM
cd "$work"
mkdir empty
echo 'console.log("Hello, World!");' >empty/hello.js
echo 'print("Hello, World!")' >empty/hello.py

# add NAME PROGRAM ARGUMENT...: if the program is there, a line of ./rows.
add() {
    name=$1
    path=$(command -v "$2" 2>/dev/null) || {
        echo "$name: $2 is not there, left out" >&2
        return 0
    }
    path=$(readlink -f "$path")
    shift 2
    printf '%s\t%s\t%s\n' "$name" "$path" "$*" >>rows
}
add true /bin/true
add bun "${BUN:-bun}" hello.js
add deno "${DENO:-deno}" run hello.js
add node "${NODE:-node}" hello.js
add python3 "${PYTHON:-/usr/bin/python3}" hello.py

{
    printf 'name: start\nfleet: {cpus: {server: "0"}}\nschedule: {repetitions: 1}\ntargets:\n'
    tab=$(printf '\t')
    while IFS="$tab" read -r name path arguments; do
        printf '  - {name: "%s", command: ["%s"' "$name" "$path"
        for word in $arguments; do
            printf ', "%s"' "$word"
        done
        printf ']}\n'
    done <rows
    printf 'workloads:\n  - {name: start, process: {files: [empty/hello.js, empty/hello.py], runs: %s, warmup_runs: 3}}\n' "$runs"
} >plan.yaml

# Both print the shortest run in nanoseconds.
ours() {
    rm -rf result
    # shellcheck disable=SC2086 # words of a command
    ${PREFIX:-} "$build/coordinator/lockstep" run plan.yaml --only "$1" --out result --json 2>/dev/null |
        sed -n '/"wall_ns": {/,/}/s/^ *"min": \([0-9.]*\),*$/\1/p' | head -n 1
}
theirs() {
    # shellcheck disable=SC2086 # the command's words
    (cd empty && env -i PATH="$PATH" HOME="$HOME" ${LANG:+LANG="$LANG"} taskset -c 0 \
        ${PREFIX:-} hyperfine -N -w 3 -r "$runs" --export-json ../hyperfine.json "$2 $3" >/dev/null 2>&1)
    sed -n 's/^ *"min": \([0-9.e-]*\),*$/\1/p' hyperfine.json | head -n 1 | awk '{ printf "%.0f\n", $1 * 1e9 }'
}

: >seen
round=0
while [ "$round" -lt "$rounds" ]; do
    round=$((round + 1))
    while IFS="$tab" read -r name path arguments; do
        for who in $([ $((round % 2)) -eq 1 ] && echo "theirs ours" || echo "ours theirs"); do
            printf '%s\t%s\t%s\n' "$name" "$who" "$("$who" "$name" "$path" "$arguments" </dev/null)" >>seen
        done
        echo "round $round of $rounds: $name" >&2
    done <rows
done
awk -F'\t' '
    $3 <= 0 { next }
    !($1 in order) { order[$1] = ++n; names[n] = $1 }
    {
        key = $1 SUBSEP $2
        if (!(key in least) || $3 < least[key]) least[key] = $3
        seen[$1, $2, ++count[key]] = $3
    }
    END {
        printf "| program | hyperfine -N, shortest | Lockstep, shortest | apart | median of the rounds |\n"
        printf "| --- | ---: | ---: | ---: | ---: |\n"
        for (i = 1; i <= n; i++) {
            name = names[i]; m = 0
            for (k = 1; k <= count[name, "ours"]; k++) {
                ratio = seen[name, "ours", k] / seen[name, "theirs", k]
                for (at = ++m; at > 1 && sorted[at - 1] > ratio; at--) sorted[at] = sorted[at - 1]
                sorted[at] = ratio
            }
            a = least[name, "theirs"]; b = least[name, "ours"]
            printf "| %s | %.3f ms | %.3f ms | %+.1f %% | %+.1f %% |\n", name, a / 1e6, b / 1e6,
                   (b / a - 1) * 100, ((sorted[int((m + 1) / 2)] + sorted[int(m / 2) + 1]) / 2 - 1) * 100
        }
    }' seen
