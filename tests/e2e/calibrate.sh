#!/bin/sh
# A calibration is kept for this host, found again by a run of that shape, shown and judged; runs of
# another shape, and hosts that were never calibrated, have no headroom.
. "$(dirname -- "$0")/lib.sh"
need node

XDG_CACHE_HOME=$LS_TMP/cache
export XDG_CACHE_HOME
start responder "$agent" respond --die-with-parent
wait_until 60 grep -q '^listening on' responder.log
port=$(sed -n 's/^listening on .*:\([0-9]*\)$/\1/p' responder.log)
bench() {
    expect "0 4" "$lockstep" bench "http://127.0.0.1:$port/" -t 1 -d 1s --warmup 200ms --json "$@"
}

bench -c 16
holds out 'r.trials[0].headroom === undefined && r.trials[0].clients[0].headroom === undefined'

expect 0 "$lockstep" calibrate -c 16 -t 1 -d 1s -r 1 --json
holds out 'r.per_s > 100 && r.connections === 16 && r.workers === 1 && r.pipeline === 1'
holds out '["generator", "responder", "neither", "shared_cpus"].includes(r.limited_by)'
holds cache/lockstep/calibration.json 'r.version === 1 && r.ceilings.length === 1'
ceiling=$(json out r.per_s)

bench -c 16
holds out "r.trials[0].headroom.ceiling_per_s === $ceiling"
holds out '(t => Math.abs(t.headroom.used - t.throughput_per_s / t.headroom.ceiling_per_s) < 1e-9)(r.trials[0])'
bench -c 100
holds out 'r.trials[0].headroom === undefined'
bench -c 16 -p 4
holds out 'r.trials[0].headroom === undefined'

# A ceiling that this run cannot but reach: the figure is the generator's.
sed 's/"per_s": [0-9.]*/"per_s": 10/; s/"limited_by": "[a-z_]*"/"limited_by": "generator"/' \
    cache/lockstep/calibration.json >low.json
mv low.json cache/lockstep/calibration.json
bench -c 16
holds out 'r.exit_status === 4 && r.trials[0].reasons.some((x) => x.code === "generator_limited")'

# What this machine has not got is a mistake of the command line.
expect 2 "$lockstep" calibrate --cpus 1000 -d 1s -r 1 --json
holds out 'r.exit_status === 2 && r.error.includes("fleet.cpus.client")'
same 'times it is said' 1 "$(grep -c fleet.cpus.client err)"

# One that cannot be read is told, and no reason not to run.
echo '{' >cache/lockstep/calibration.json
expect "0 4" "$lockstep" bench "http://127.0.0.1:$port/" -c 16 -t 1 -d 1s
says err 'no calibration'
