#!/bin/sh
# agent_fault.sh FAULT: one run, or two trials of one, in which that happens; agent_faults.sh runs
# them all.
fault=$1
. "$(dirname -- "$0")/lib.sh"
. "$(dirname -- "$0")/agents.sh"

# begin LENGTH [LINES OF fleet]: a run of two trials, whose measure window is that long.
begin() {
    fleet_plan 2 "$1" "${2:-}"
    start run "$lockstep" run plan.yaml --listen "$url" --out result --wait 30s --quiet
    run=$pid
}

# ends STATUS: the run has, and so; ./result/result.json is its result.
ends() {
    code=0
    wait "$run" || code=$?
    case " $1 " in
    *" $code "*) ;;
    *)
        show run.log s1.log c1.log
        summary result/result.json
        fail "status $code, not $1"
        ;;
    esac
    # What a lost agent had under way has no outcome that anybody could know.
    books_balance result/result.json 'r.trials.filter((t) => t.status === "done" && !t.coverage)'
    (cd result && sha256sum --quiet -c SHA256SUMS) || fail 'a file is not what SHA256SUMS says'
}

# A server and two clients; who is to be killed cannot tidy up, and has a folder of ours.
begin_agents() {
    agent_at "$url" s1 server
    server=$pid
    agent_at "$url" c1 client
    first=$pid
    agent_at "$url" c2 client --work-dir "$LS_TMP/c2"
    second=$pid
}

# The reason of the first trial names who was lost.
names_lost() {
    holds result/result.json "r.trials[0].verdict === 'invalid' && r.trials[0].reasons.some((x) =>
        x.code === 'agent_lost' && x.text.includes('agent $1'))"
    holds result/result.json 'r.trials.length === 2 && r.trials[1].status === "done" &&
        r.trials[1].clients.every((c) => !c.lost)'
    counts_agree result 'r.trials.slice(1)'
}

case $fault in
killed) # The trial ends; the agent that is begun again takes part in the next one.
    begin_agents
    begin 4s
    wait_until 100 measuring c2
    kill -9 "$second"
    agent_at "$url" c2 client --work-dir "$LS_TMP/c2"
    second=$pid
    ends 3
    holds result/result.json 'r.trials[0].status === "failed"'
    names_lost c2
    end_agents "$server" "$first" "$second"
    ;;
continued) # The others go on, and the result says what there was.
    begin_agents
    begin 4s '  on_agent_loss: continue'
    wait_until 100 measuring c2
    kill -9 "$second"
    agent_at "$url" c2 client --work-dir "$LS_TMP/c2"
    second=$pid
    ends 4
    holds result/result.json '(t => t.status === "done" && t.coverage.clients === 2 &&
        t.coverage.clients_lost === 1 && t.coverage.load >= 0.5 && t.coverage.load < 1 &&
        t.clients[1].lost && t.clients[1].lost_at_ns === t.coverage.since_ns && !t.clients[0].lost &&
        t.reasons.some((x) => x.code === "agent_lost" && x.text.includes("without 1 of 2 clients")) &&
        t.clients[1].requests.ok <= t.requests.ok)(r.trials[0])'
    names_lost c2
    end_agents "$server" "$first" "$second"
    ;;
frozen) # For five seconds: less than it takes to be lost. Everything is delivered, once.
    three_agents
    begin 3s
    wait_until 100 measuring c2
    kill -STOP "$second"
    sleep 5
    kill -CONT "$second"
    ends '0 4'
    holds result/result.json 'r.trials.length === 2 && r.trials.every((t) => t.status === "done" &&
        t.clients.every((c) => !c.lost) && !t.coverage)'
    counts_agree result 'r.trials'
    end_agents "$server" "$first" "$second"
    ;;
cut) # The connection is reset twice while it measures; the load goes on, and nothing is missing.
    agent_at "$url" s1 server
    server=$pid
    agent_at "$url" c1 client
    first=$pid
    start relay "$LS_HARNESS" relay "$through" "$control"
    relay=$pid
    agent_at "tcp://127.0.0.1:$through" c2 client
    second=$pid
    begin 3s
    for time in 1 2; do
        wait_until 100 measuring c2 "$time"
        kill -9 "$relay"
        wait_until 60 grep -q agent.down c2.log
        start relay "$LS_HARNESS" relay "$through" "$control"
        relay=$pid
    done
    ends '0 4'
    says c2.log agent.back
    holds result/result.json 'r.trials.length === 2 && r.trials.every((t) => t.status === "done" &&
        t.clients.every((c) => !c.lost))'
    counts_agree result 'r.trials'
    kill -9 "$relay"
    end_agents "$server" "$first" "$second"
    ;;
partition) # Everything is taken and nothing delivered, for so long that silence is noticed.
    agent_at "$url" s1 server
    server=$pid
    agent_at "$url" c1 client
    first=$pid
    start relay "$LS_HARNESS" relay "$through" "$control"
    relay=$pid
    agent_at "tcp://127.0.0.1:$through" c2 client
    second=$pid
    begin 6s
    wait_until 100 measuring c2
    kill -STOP "$relay"
    wait_until 60 grep -q agent.down c2.log
    kill -CONT "$relay"
    ends '0 4'
    holds result/result.json 'r.trials.length === 2 && r.trials.every((t) => t.status === "done" &&
        t.clients.every((c) => !c.lost))'
    counts_agree result 'r.trials'
    kill -9 "$relay"
    end_agents "$server" "$first" "$second"
    ;;
lease) # A coordinator that is gone for longer than the lease: load and target end, the agents stay.
    agent_at "$url" s1 server --lease 1s
    server=$pid
    agent_at "$url" c1 client --lease 1s
    first=$pid
    agent_at "$url" c2 client --lease 1s
    second=$pid
    begin 60s
    wait_until 100 measuring c2
    kill -9 "$run"
    wait_until 60 grep -q agent.lease_over s1.log
    wait_until 60 port_is_free "$target"
    wait_until 60 grep -q agent.lease_over c2.log
    only_agents() { # the target is a lockstep-agent, too
        nothing_is_left >left.txt || :
        [ "$(wc -l <left.txt)" -eq 3 ]
    }
    wait_until 60 only_agents
    fleet_plan 1 300ms
    expect '0 4' "$lockstep" run plan.yaml --listen "$url" --out again --json
    holds out 'r.trials[0].status === "done"'
    end_agents "$server" "$first" "$second"
    ;;
*) fail "no fault is called $fault" ;;
esac
