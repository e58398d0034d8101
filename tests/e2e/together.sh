# tests/e2e/together.sh - for sourcing, behind lib.sh: cases that go on at the same time, each with a
# guard and a folder of its own.
# shellcheck shell=sh

begun=

# together SCRIPT ARGUMENT...: begins one.
together() {
    script=$LS_SOURCE/tests/e2e/$1
    one=$(printf '%s-' "$@")
    begun="$begun $one"
    shift
    {
        code=0
        "$LS_HARNESS" guard 200 sh "$script" "$@" >"$one.log" 2>&1 || code=$?
        printf '%s\n' "$code" >"$one.status"
    } &
}

# Waits for all of them; the case fails if one has.
all_ended() {
    failed=
    wait
    for one in $begun; do
        [ "$(cat "$one.status")" -eq 0 ] || {
            show "$one.log"
            failed="$failed $one"
        }
    done
    begun=
    [ -z "$failed" ] || fail "$failed: see above"
}
