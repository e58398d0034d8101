# tests/bench/capacity_lib.sh - for sourcing: options, programs, a folder to work in, and a CPU for each
# side, for scripts that search for capacities.
# shellcheck shell=sh
set -eu
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
root=$(CDPATH='' cd -- "$here/../.." && pwd)
out=

# options 'NAME ...' ARGUMENT...: --NAME VALUE sets the variable of that name; anything else shows the
# script's head. --out is one of them.
options() {
    names=$1
    shift
    while [ $# -gt 1 ]; do
        case " $names out " in
        *" ${1#--} "*) eval "${1#--}=\$2" ;;
        *) break ;;
        esac
        shift 2
    done
    [ $# -eq 0 ] || {
        sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0" | sed '/^shellcheck/d' >&2
        exit 2
    }
}

# begin_work: $lockstep and $agent, the folder $work, $server_cpu and $client_cpu.
begin_work() {
    build=${LOCKSTEP_BUILD:-$root/build/release}
    [ -n "${LOCKSTEP_BUILD:-}" ] || sh "$root/deploy/build.sh" release lockstep lockstep-agent
    lockstep=$build/coordinator/lockstep
    # shellcheck disable=SC2034 # of the scripts
    agent=$build/agent/lockstep-agent
    work=${out:-$(mktemp -d)}
    mkdir -p "$work"
    server=
    searching=
    trap end_work EXIT
    trap 'exit 130' INT TERM
    cpus=$(taskset -cp $$ | sed 's/.*: //' | tr ',' '\n' |
        while IFS=- read -r from to; do seq "$from" "${to:-$from}"; done)
    server_cpu=$(printf '%s\n' "$cpus" | sed -n 1p)
    client_cpu=$(printf '%s\n' "$cpus" | sed -n 2p)
    [ -n "$client_cpu" ] || client_cpu=$server_cpu
}

# start LOG COMMAND...: the server under test, on its CPU.
start() {
    log=$1
    shift
    taskset -c "$server_cpu" "$@" >"$log" 2>&1 &
    server=$!
}

stop() {
    [ -z "$server" ] || {
        kill "$server" 2>/dev/null || :
        wait "$server" 2>/dev/null || :
    }
    server=
}

# shellcheck disable=SC2317 # by trap
end_work() {
    [ -z "$searching" ] || {
        kill "$searching" 2>/dev/null || :
        wait "$searching" 2>/dev/null || :
    }
    stop
    [ -n "$out" ] || rm -rf "$work"
}

# search NAME: $work/NAME.json of $work/plan.yaml, whatever came of it.
search() {
    rm -rf "$work/result"
    "$lockstep" run "$work/plan.yaml" --out "$work/result" --json >"$work/$1.json" 2>"$work/$1.log" &
    searching=$!
    wait "$searching" || : # which a signal ends, the program itself it would not
    searching=
}
