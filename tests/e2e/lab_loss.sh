#!/bin/sh
# One of four clients in a lab is killed, loses its power, is cut off or frozen for five seconds, has a
# slow link, hears nothing any more: the outcome is the plan's, everything that was delivered counts once (compared with
# what the target has received), and nothing goes on on any host.
. "$(dirname -- "$0")/lib.sh"
. "$(dirname -- "$0")/together.sh"

for one in ${LS_CASES:-kill crash kill_continue cut cut_all slow freeze half_open}; do
    together lab_loss_one.sh "$one"
    case $one in kill_continue | slow) all_ended ;; esac
done
all_ended
