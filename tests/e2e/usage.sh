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

# What lockstep is called with, and what it answers.
cat >plan.yaml <<PLAN
name: usage
fleet: {clients: 1}
targets: [{name: somewhere, external: true, port: 9}]
workloads: [{name: hello, http: {requests: [{path: /}]}, measure: 1s}]
PLAN
mkdir noplans
url=http://127.0.0.1:1/
while IFS='|' read -r words text; do
    # shellcheck disable=SC2086 # words
    refused "$text" "$lockstep" $words
done <<LINES
runn|did you mean 'run'
dance|unknown command
--jsn|unknown command
run|PLAN is missing
run --no-such-option|unknown option
run --jsno plan.yaml|did you mean --json
run plan.yaml --out|--out needs a value: DIR
run plan.yaml --out=|--out: a folder's name is missing
run plan.yaml second.yaml|unexpected argument 'second.yaml'
run plan.yaml --seed x|--seed x: not a number
run plan.yaml --only nothing|no trial matches 'nothing'; there are: somewhere/hello
run plan.yaml --set nonsense|write path=value
run plan.yaml --set workloads[9].measure=1s|there is no [9]
run plan.yaml --set workloads[0].mesure=1s|did you mean 'measure'
run plan.yaml --set workloads[0].measure=soon|soon
run nowhere.yaml|nowhere.yaml
run broken.yaml|broken.yaml:
run noplans|holds no plan
run plan.yaml --ui=nonsense|is no address to listen at
check|PLAN is missing
check nowhere.yaml|nowhere.yaml
check broken.yaml|broken.yaml:
check plan.yaml --quiet|unknown option
bench|URL is missing
bench --conections 5 $url|did you mean --connections
bench $url -c|-c needs a value: N
bench $url -c 0|--connections 0: must be from 1
bench $url -c x|--connections
bench $url -t 0|--threads 0: must be from 1
bench $url -d 0|--duration 0: must be from 100ms
bench $url -d soon|--duration
bench $url -n -5|--requests
bench $url -R 0|--rate 0: must be from
bench $url -n 5 -R 5|exclude each other
bench $url -p 0|--pipeline 0: must be from 1
bench $url -H word|a header is written 'Name: value'
bench $url -b @nowhere|nowhere
bench $url --expect-status 99|--expect-status 99: must be from 200
bench $url --expect-body @nowhere|nowhere
bench $url --timeout 0|--timeout 0: must be from 1ms
bench $url --cpus x|"x" is not a CPU list
bench $url --cpus 9999|9999
bench $url --pacing lazy|precise or frugal
bench $url --io epoll|auto, libev or io_uring
bench $url --receive-stamps yes|auto, on or off
bench $url --min-wait 100|--min-wait
bench $url --min-wait 20ms|--min-wait 20ms: must be from 1us to 10ms
bench $url --min-wait 100us -R 10/s|--min-wait goes with neither
bench $url --min-wait 100us --io libev|--min-wait goes with neither
bench $url --think 5ms -R 10/s|--think
bench $url --poisson|needs a rate
bench $url --lifetime 0|--lifetime
bench $url --find-capacity|needs a limit
bench $url --p99 10ms|limits of --find-capacity
bench $url --find-capacity --p99 10ms -R 5|chooses rates and lengths itself
bench $url --find-capacity --p99 10ms --errors 5|a percentage such as
bench $url --find-capacity --p50 10ms --p99 5ms|is less than p50
bench $url more|unexpected argument 'more'
bench ftp://127.0.0.1/|is not an http
bench http://|no host
bench http://127.0.0.1:99999/|port 99999
bench http://no-such-host.invalid/|no-such-host.invalid
report|DIR is missing
report nowhere|nowhere
report . --format xml|text, json, csv, markdown or html
report .|not a lockstep result
agents|--listen URL is missing
compare|two result folders are needed
compare . .|not a lockstep result
compare . . --fail-on much|a percentage above 0
LINES
refused '--dial' "$agent"
refused '--role' "$agent" --dial ipc:///nowhere --name a --role cook
refused '--latency' "$agent" respond --latency often

for command in 'dance' 'run nowhere.yaml' 'run broken.yaml' 'check broken.yaml' 'bench' 'report nowhere' 'compare nowhere there'; do
    # shellcheck disable=SC2086 # words
    expect 2 "$lockstep" $command --json
    holds out 'r.exit_status === 2 && r.status === "failed" && r.error.length > 0'
done

for help in '--help' 'run --help' 'bench --help' 'check --help' 'report --help' 'compare --help' 'agents --help'; do
    # shellcheck disable=SC2086 # words
    expect 0 "$lockstep" $help
    says out usage
done
# Told to end before it can begin, it still ends with one document.
for signal in 1 2 15; do
    expect 130 "$LS_HARNESS" pending "$signal" "$lockstep" bench http://127.0.0.1:1/ --json
    holds out 'r.exit_status === 130 && r.status === "interrupted"'
done
expect 0 "$lockstep" --version
expect 0 "$agent" --version
expect 0 "$agent" --help
expect 0 "$agent" respond --help
says out 'actions:'
