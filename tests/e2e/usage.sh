#!/bin/sh
# Whatever is wrong with a command line, the status is 2, stderr says why in one line, and with
# --json stdout is one document that says so, too.
. "$(dirname -- "$0")/lib.sh"
need node

printf 'name: x\ntargets: [\n' >broken.yaml

# refused TEXT COMMAND...
refused() {
    text=$1
    shift
    expect 2 "$@"
    says err "$text"
    [ ! -s out ] || fail "stdout is not empty: $*"
}

refused 'usage: lockstep' "$lockstep"
refused "did you mean 'run'" "$lockstep" runn
refused 'unknown command' "$lockstep" dance
refused 'unknown option' "$lockstep" run --no-such-option
refused 'nowhere.yaml' "$lockstep" run nowhere.yaml
refused 'nowhere.yaml' "$lockstep" check nowhere.yaml
refused 'broken.yaml:' "$lockstep" run broken.yaml
refused 'broken.yaml:' "$lockstep" check broken.yaml
refused 'unknown option' "$lockstep" bench --no-such-option http://127.0.0.1:1/
refused 'URL' "$lockstep" bench
refused '--connections' "$lockstep" bench -c x http://127.0.0.1:1/
refused 'precise or frugal' "$lockstep" bench --pacing lazy http://127.0.0.1:1/
refused 'auto, libev or io_uring' "$lockstep" bench --io epoll http://127.0.0.1:1/
refused 'auto, on or off' "$lockstep" bench --receive-stamps yes http://127.0.0.1:1/
refused '--think' "$lockstep" bench --think 5ms -R 10/s http://127.0.0.1:1/
refused 'needs a rate' "$lockstep" bench --poisson http://127.0.0.1:1/
refused '--lifetime' "$lockstep" bench --lifetime 0 http://127.0.0.1:1/
refused 'nowhere' "$lockstep" report nowhere
refused '--dial' "$agent"
refused '--role' "$agent" --dial ipc:///nowhere --name a --role cook
refused '--latency' "$agent" respond --latency often

for command in 'dance' 'run nowhere.yaml' 'run broken.yaml' 'check broken.yaml' 'bench' 'report nowhere'; do
    # shellcheck disable=SC2086 # words
    expect 2 "$lockstep" $command --json
    holds out 'r.exit_status === 2 && r.status === "failed" && r.error.length > 0'
done

for help in '--help' 'run --help' 'bench --help' 'check --help' 'report --help'; do
    # shellcheck disable=SC2086 # words
    expect 0 "$lockstep" $help
    says out usage
done
expect 0 "$lockstep" --version
expect 0 "$agent" --version
expect 0 "$agent" --help
expect 0 "$agent" respond --help
says out 'actions:'
