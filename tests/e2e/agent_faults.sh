#!/bin/sh
# Agents that dial, in trouble: killed, frozen, cut off. What was delivered counts once, what is
# missing is said, the next trial has all of them again, and nothing is left anywhere.
#
# Each case is a guarded one of its own in agent_fault.sh; they go on at the same time.
. "$(dirname -- "$0")/lib.sh"
. "$(dirname -- "$0")/together.sh"
need node

for fault in killed continued frozen; do
    together agent_fault.sh "$fault"
done
all_ended
for fault in cut partition lease; do
    together agent_fault.sh "$fault"
done
all_ended
nothing_left
