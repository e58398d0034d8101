#!/bin/sh
# The guard of the end-to-end tests keeps its promises: it passes a status on, finds what was left
# behind, ends what takes too long, and cleans up when it is killed itself.
. "$(dirname -- "$0")/lib.sh"

# guarded STATUS SECONDS SCRIPT: sh runs SCRIPT under a guard of its own, which ends with STATUS.
guarded() {
    status=0
    LS_LEAVE_SECONDS=2 "$LS_HARNESS" guard "$2" sh -c "$3" >out 2>err || status=$?
    same "status of a guard around: $3" "$1" "$status"
}

guarded 0 20 'exit 0'
guarded 3 20 'exit 3'
guarded 77 20 'exit 77'
# shellcheck disable=SC2016 # for the inner shell
guarded 143 20 'kill -TERM $$'

# shellcheck disable=SC2016
guarded 0 20 'echo "$LS_TMP"; touch "$LS_TMP/x"; mkdir "$LS_TMP/y"; touch "$LS_TMP/y/z"'
[ ! -e "$(cat out)" ] || fail "the folder $(cat out) was not removed"

guarded 97 20 'setsid sleep 1000 & exit 0'
says err 'left behind'
guarded 97 20 '(setsid sleep 1000 & ) & wait; exit 5'
guarded 98 1 'setsid sleep 1000'
says err 'not done after 1 s'

for signal in KILL TERM INT; do
    # shellcheck disable=SC2016
    start guard "$LS_HARNESS" guard 100 sh -c 'setsid sleep 1000 & echo "$LS_TMP"; sleep 1000'
    wait_until 20 test -s guard.log
    kill "-$signal" "$pid"
    wait "$pid" || :
    wait_until 20 nothing_is_left
    folder=$(cat guard.log)
    wait_until 20 test ! -e "$folder"
done
nothing_left

# Of a process and what it has forked, the process is meant; nobody else, and not who looks.
found() {
    "$LS_HARNESS" find "$LS_GUARD" "$1"
}
three_of_them() {
    nothing_is_left >left.txt || :
    [ "$(grep -c ' sh$' left.txt)" -eq 3 ] && [ "$(grep -c ' sleep$' left.txt)" -eq 2 ]
}
start twins sh -c '(:; sleep 1000; :) & (:; sleep 1000; :) & wait' twins
wait_until 20 three_of_them
same 'the first of them' "$pid" "$(found '^sh -c .* twins $')"
[ -z "$(found 'no such thing')" ] || fail 'somebody was found'
# shellcheck disable=SC2046 # numbers
kill $(cut -d ' ' -f 1 left.txt)
wait
wait_until 20 nothing_is_left # whom they forked is not this shell's to wait for
nothing_left

same 'ports' 5 "$(free_port 5 | sort -u | grep -c '')"
for port in $(free_port 3); do
    port_is_free "$port" || fail "port $port is said to be free and is not"
done
