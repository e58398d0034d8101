# tests/e2e/together.sh - for sourcing, behind lib.sh: cases that go on at the same time, each with a
# guard and a folder of its own.
# shellcheck shell=sh

begun=

# together SCRIPT ARGUMENT...: begins one.
together() {
    begins=$(printf '%s-' "$@")
    begun="$begun $begins"
    {
        script=$LS_SOURCE/tests/e2e/$1
        shift
        code=0
        "$LS_HARNESS" guard 250 sh "$script" "$@" >"$begins.log" 2>&1 || code=$?
        printf '%s\n' "$code" >"$begins.status"
    } &
}

# Waits for all of them; the case fails if one has.
all_ended() {
    failed=
    wait
    for ended in $begun; do
        [ "$(cat "$ended.status")" -eq 0 ] || {
            show "$ended.log"
            failed="$failed $ended"
        }
    done
    begun=
    [ -z "$failed" ] || fail "$failed: see above"
}
