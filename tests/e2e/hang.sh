#!/bin/sh
# A process that hangs is as good as gone: an agent that says nothing any more is ended and replaced,
# and agents whose coordinator says nothing end load and target by themselves.
. "$(dirname -- "$0")/lib.sh"
. "$(dirname -- "$0")/together.sh"
need node

for who in server client-1 coordinator; do
    together stop_one.sh "$who"
done
all_ended
nothing_left
