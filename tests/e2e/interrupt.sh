#!/bin/sh
# Ctrl-C in each phase, once and twice: exit status 130, finished trials saved, one document that
# says so, nothing left.
#
# Each run is a guarded case of its own in interrupt_one.sh; half of them go on at the same time.
. "$(dirname -- "$0")/lib.sh"
. "$(dirname -- "$0")/together.sh"
need node

for times in 1 2; do
    for phase in ${LS_PHASES:-enrol start preflight arm warmup measure drain collect}; do
        together interrupt_one.sh "$times" "$phase"
    done
    all_ended
done
nothing_left
