#!/bin/sh
# Programs of protocol version N and N+1 refuse each other by name, on both sides, whichever is the
# older: nothing of the other's is taken for something else.
. "$(dirname -- "$0")/lib.sh"
. "$(dirname -- "$0")/agents.sh"

next=$LS_BUILD/tests/e2e/next_
fleet_plan 1 300ms

# meet COORDINATOR ITS_VERSION AGENT ITS_VERSION: the one waits, the other comes; both say both numbers.
meet() {
    start waiting "$1" run plan.yaml --listen "$url" --wait 1h --out "run-$2"
    coordinator=$pid
    wait_until 60 grep -q 'waiting for agents' waiting.log
    expect 5 "$3" --dial "$url" --name s1 --role server --policy policy.yaml --wait 1m
    says err "the coordinator speaks protocol version $2, this agent $4"
    wait_until 60 grep -q "the agent speaks protocol version $4, this coordinator $2" waiting.log
    kill -TERM "$coordinator"
    wait "$coordinator" || :
}

meet "$lockstep" 1 "${next}agent" 2
meet "${next}coordinator" 2 "$agent" 1
end_agents
