#!/bin/sh
# The same plan, unchanged (deploy/plans/anywhere.yaml), with local agents, in the lab and as a Slurm job, and what
# compare says of the results. Not a ctest: figures are what it is about. With the folder that
# tests/e2e/container.sh has left its results in, the one of compose is compared as well.
#
#   sh tests/e2e/everywhere.sh OUT [RESULTS_OF_CONTAINERS]
set -eu

LS_SOURCE=$(CDPATH='' cd -- "$(dirname -- "$0")/../.." && pwd)
LS_BUILD=${LS_BUILD:-$LS_SOURCE/build/release}
mkdir -p "$1"
out=$(CDPATH='' cd -- "$1" && pwd)
[ -z "$(ls -A "$out")" ] || {
    echo "everywhere: $out is not empty" >&2
    exit 2
}
[ -z "${2:-}" ] || cp -r "$2/compose" "$out/compose"
LS_TMP=$(mktemp -d)
LS_HARNESS=none
export LS_SOURCE LS_BUILD LS_TMP LS_HARNESS
. "$LS_SOURCE/tests/e2e/lib.sh"
. "$LS_SOURCE/tests/e2e/lab_lib.sh"
. "$LS_SOURCE/tests/e2e/slurm_lib.sh"
trap 'lab down; rm -rf "$LS_TMP"' EXIT
PATH=$LS_BUILD/agent:$PATH
export PATH
plan=$LS_SOURCE/deploy/plans/anywhere.yaml

expect '0 4' "$lockstep" run "$plan" --out "$out/local"
lab up --clients 3 --servers 1 --owner $$
expect '0 4' lab run "$plan" --out "$out/lab"
cluster_up
expect '0 4' slurm "$lockstep" slurm "$plan" --job "$LS_TMP/job"
cp -r "$LS_TMP/job/result" "$out/slurm"
for name in local lab slurm compose; do
    [ ! -d "$out/$name" ] || printf '%-8s %s\n' "$name" "$(json "$out/$name/result.json" '
        r.trials.map((t) => t.verdict).join(" ") + ", p50 " + r.trials.map((t) =>
            Math.round(t.response_time.p50_ns / 1000)).join(" ") + " us"')"
done
for name in lab slurm compose; do
    [ -d "$out/$name" ] || continue
    holds "$out/$name/result.json" 'r.status === "complete" && r.trials.length === 5 && r.trials.every((t) => t.status === "done")'
    printf '\n== local and %s\n' "$name"
    "$lockstep" compare "$out/local" "$out/$name" >"$out/compare-$name" || : # too few runs of a crowded machine
    cat "$out/compare-$name"
    says "$out/compare-$name" 'hostname:'
done
