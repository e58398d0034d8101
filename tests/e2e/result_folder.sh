#!/bin/sh
# The result folder cannot be made, is full, is limited, or vanishes: a sentence that says so, the
# exit status, and what had been finished before is as it was.
. "$(dirname -- "$0")/lib.sh"
need node

mkdir -p tmp
TMPDIR=$LS_TMP/tmp
export TMPDIR
port=$(free_port)
{
    plan_head folder 1
    cat <<PLAN
targets:
  - name: responder
    command: ["$agent", respond, --listen, "{host}:{port}", --die-with-parent]
    port: $port
workloads:
  - name: first
    http: {requests: [{path: /}]}
    connections: 2
    load: {closed: {requests: 100}}
    warmup: 0s
    measure: 30s
  - name: second
    http: {requests: [{path: /}]}
    connections: 2
    load: {constant: {rate: 500/s}}
    warmup: 0s
    measure: 30s
    interval: 100ms
schedule: {repetitions: 1}
PLAN
} >plan.yaml

# refused TEXT OUT: nothing is run.
refused() {
    expect 2 "$lockstep" run plan.yaml --json --out "$2"
    says err "$1"
    holds out 'r.exit_status === 2 && r.status === "failed" && r.error.length > 0 && r.trials.length === 0'
    nothing_left
}

# begun COMMAND...: a run is in its second trial; its pid is in $run.
begun() {
    rm -f out err
    "$@" >out 2>err &
    run=$!
    wait_until 60 test -s result/trials/002-responder-second-r1.part/journal
}

# incomplete TEXT: it ends, and says why.
incomplete() {
    ended=0
    wait "$run" || ended=$?
    [ "$ended" -eq 3 ] || show err
    same 'status' 3 "$ended"
    says err "$1"
    holds out "r.exit_status === 3 && r.status === 'incomplete' && r.error.includes('$1')"
    holds out 'r.trials.length === 1 && r.trials[0].requests.ok === 100'
    nothing_left
    same 'folders left' '' "$(ls tmp)"
    port_is_free "$port" || fail "port $port is still in use"
}

# intact: the finished trial is there, and can be shown.
intact() {
    (cd result && sha256sum --quiet -c SHA256SUMS) || fail 'a file is not what SHA256SUMS says'
    holds result/result.json 'r.status === "incomplete" && r.trials.length === 1'
    same 'trials' 001-responder-first-r1 "$(ls result/trials)"
    expect 0 "$lockstep" report result
    says out first
}

# A disk that is really full, or read-only, in a mount namespace of this part's own.
if [ "${1:-}" = mounted ]; then
    mkdir disk
    mount -t tmpfs -o size=1m none disk || skip 'the rest needs a right to mount'
    ln -s disk/result result
    begun "$lockstep" run plan.yaml --json --out disk/result
    head -c 2m /dev/zero >disk/filler 2>/dev/null || :
    incomplete 'No space left on device'
    rm disk/filler
    intact
    rm -r disk/result
    head -c 2m /dev/zero >disk/filler 2>/dev/null || :
    refused 'No space left on device' disk/result
    rm disk/filler
    mount -o remount,ro disk
    refused 'Read-only file system' disk/result
    exit 0
fi

mkdir full
echo precious >full/file
refused 'not empty' full
same 'what was there' 'file precious' "$(ls full) $(cat full/file)"
echo precious >file
refused 'file' file
refused 'Not a directory' file/below
same 'what was there' precious "$(cat file)"
refused '/proc' /proc/lockstep

# Files of the coordinator's may not grow beyond 64 KiB; an agent begins with 256 KiB to spare.
cat >agent.sh <<AGENT
#!/bin/sh
ulimit -S -f unlimited
exec "$agent" "\$@"
AGENT
chmod +x agent.sh
# shellcheck disable=SC2016 # for the inner shell
begun env LOCKSTEP_AGENT="$LS_TMP/agent.sh" sh -c 'ulimit -S -f 128; exec "$@"' sh \
    "$lockstep" run plan.yaml --json --out result
incomplete 'File too large'
intact
rm -rf result

# The folder is removed by somebody. It does not come back half.
begun "$lockstep" run plan.yaml --json --out result
mv result away
incomplete 'No such file'
[ ! -e result ] || fail 'the folder that was removed is there again'
mv away result
rm -rf result/trials/*.part
intact
rm -rf result

# stdout does not take the result: what is on the disk is whole.
code=0
"$lockstep" run plan.yaml --json --out result --only '*/first' >/dev/full 2>err || code=$?
same 'status with a full stdout' 70 "$code"
says err 'could not be written to stdout'
(cd result && sha256sum --quiet -c SHA256SUMS) || fail 'a file is not what SHA256SUMS says'
holds result/result.json 'r.status === "complete"'
rm -rf result

# A folder of its own for each run of a plan, also for those that begin in the same second.
now=$(date +%s)
for later in $(seq 0 20); do
    taken=results/folder-$(date -u -d "@$((now + later))" +%Y%m%d-%H%M%S)
    mkdir -p "$taken"
    echo another run >"$taken/plan.yaml"
done
expect '0 4' "$lockstep" run plan.yaml --only '*/first'
says out 'Files: results/folder-'
same 'folders that hold a result' 1 "$(find results -path '*-2/result.json' | wc -l)"
nothing_left

unshare -m true 2>/dev/null || skip 'the rest needs unshare -m'
unshare -m sh "$0" mounted
