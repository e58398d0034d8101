#!/bin/sh
# kill -9 of each process in each phase: the promised exit status, a message that names the process,
# no process, port or folder left within five seconds, finished trials intact.
#
# Each run is a guarded case of its own in kill_one.sh; those of a phase go on at the same time.
. "$(dirname -- "$0")/lib.sh"
. "$(dirname -- "$0")/together.sh"
need node

together kill_one.sh coordinator enrol
for phase in ${LS_PHASES:-start preflight arm warmup measure drain collect}; do
    for victim in ${LS_VICTIMS:-coordinator server client-1 client-2 supervisor target}; do
        together kill_one.sh "$victim" "$phase"
    done
    all_ended
done
nothing_left
