#!/bin/sh
# The target in a lab is killed, loses its host, stands still for three seconds, cannot be reached by
# one client, refuses it: the result says which, and nothing is left on any host.
. "$(dirname -- "$0")/lib.sh"
. "$(dirname -- "$0")/together.sh"

for one in ${LS_CASES:-kill crash freeze cut reject}; do
    together lab_target_one.sh "$one"
    [ "$one" != freeze ] || all_ended
done
all_ended
