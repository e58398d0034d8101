#!/bin/sh
# lab_loss_one.sh WHAT: one of four clients is killed, cut off or frozen while it measures. lab_loss.sh
# runs them all.
. "$(dirname -- "$0")/lib.sh"
. "$(dirname -- "$0")/lab_lib.sh"

others='client-1 client-3 client-4 server-1'
case $1 in
half_open) lab_up 4 1 --lease 3s ;;
*) lab_up 4 1 ;;
esac
case $1 in
kill | crash) lab_plan 4 60s ;;
kill_continue) lab_plan 4 8s 'on_agent_loss: continue' ;;
half_open) lab_plan 4 120s ;;
*) lab_plan 4 8s ;;
esac
begin
reaches client-2 measure
sleep 0.5
victim=$(agent_of client-2)
[ -n "$victim" ] || fail 'client-2 has no agent'

lost_and_said() {
    holds out "(t => t.reasons.some((x) => x.code === 'agent_lost' && x.text.includes('client-2')) &&
        t.verdict === 'invalid' && t.clients.map((c) => c.lost).join() === '$1')(r.trials[0])"
    says err client-2
    # What was in flight when a client went has been sent, and what came of it is not known: no more
    # than its connections.
    holds out '(t => { const ends = (q) => q.ok + q.bad_status + q.bad_body + q.bad_framing + q.timeout + q.reset +
            q.closed_early + q.tls_error + q.aborted;
        return t.clients.every((c) => [c.requests, c.warmup.requests].every((q) =>
                   q.scheduled >= q.sent + q.shed && (c.lost ? q.sent >= ends(q) && q.sent - ends(q) <= 2
                                                             : q.sent === ends(q)))) &&
               ["sent", "ok"].every((name) => t.requests[name] === sum(t.clients.map((c) => c.requests[name])));
    })(r.trials[0])'
}

case $1 in
kill | crash)
    # Gone for good: the plan's default ends the trial, long before its time.
    if [ "$1" = kill ]; then kill -9 "$victim"; else lab crash client-2; fi
    run_ends 3
    lost_and_said false,true,false,false
    holds out 'r.status === "incomplete" && r.trials[0].status === "failed"'
    # A process that is killed leaves a closed connection, and is not waited for as a cut link is.
    closed=false
    [ "$1" = crash ] || closed=true
    holds out "r.trials[0].reasons.some((x) => x.code === 'agent_lost' && x.text.includes('since it was closed')) === $closed"
    # shellcheck disable=SC2086 # words
    wait_until 30 only_agents $others
    [ "$1" = crash ] || wait_until 30 only_agents client-2
    ;;
kill_continue)
    kill -9 "$victim"
    run_ends 4
    lost_and_said false,true,false,false
    # Three quarters are whole, and of the fourth what had been delivered.
    holds out '(t => t.status === "done" && t.clients.every((c, i) => i === 1
        ? c.requests.sent > 0 && c.requests.sent < 400 : c.requests.ok === 400))(r.trials[0])'
    tap 0
    holds out "(t => { const said = t.server.readiness_requests + t.preflight.requests.sent +
            t.warmup.requests.sent + t.requests.sent;
        return said <= $(json counts.json r.requests) && $(json counts.json r.requests) <= said + 400; })(r.trials[0])"
    # shellcheck disable=SC2086
    wait_until 30 only_agents $others client-2
    ;;
cut)
    # From the coordinator alone: the load goes on, and is delivered later.
    lab cut client-2 coordinator
    sleep 5
    lab heal
    run_ends 0 4
    holds out '(t => t.status === "done" && t.requests.ok === 1600 && t.warmup.requests.ok === 60 &&
        t.clients.every((c) => !c.lost && c.requests.ok === 400 && c.intervals + c.intervals_merged >= 32))(r.trials[0])'
    books_balance out
    tap_equals 0
    says lab/log/client-2.log 'agent.down'
    says lab/log/client-2.log 'agent.back'
    ;;
cut_all)
    # Its load as well: what it sent into the void has timed out or arrived later.
    lab cut client-2
    sleep 5
    lab heal
    run_ends 0 4
    holds out '(t => t.status === "done" && t.requests.scheduled === 1600 && t.clients.every((c) => !c.lost) &&
        [0, 2, 3].every((i) => t.clients[i].requests.ok === 400))(r.trials[0])'
    holds out 'r.trials[0].clients[1].response_time.max_ns > 3e9'
    books_balance out
    tap 0
    holds out "(t => { const also = t.server.readiness_requests + t.preflight.requests.sent + t.warmup.requests.sent;
        const had = $(json counts.json r.requests) - also;
        return t.requests.ok <= had && had <= t.requests.sent; })(r.trials[0])"
    ;;
slow)
    # Requests and reports have to share less than the requests take: late, and all there.
    lab slow client-2 48kbit || {
        kill "$run"
        wait "$run" || :
        lab down
        skip 'no slow links here'
    }
    run_ends 0 4
    lab slow client-2 off
    holds out '(t => t.status === "done" && t.requests.ok === 1600 && t.clients.every((c) => !c.lost && c.requests.ok === 400) &&
        t.clients[1].response_time.max_ns > 2e8)(r.trials[0])'
    books_balance out
    tap_equals 0
    ;;
freeze)
    lab freeze client-2
    sleep 5
    lab thaw client-2
    run_ends 0 4
    holds out '(t => t.status === "done" && t.requests.ok === 1600 && t.clients.every((c) => !c.lost))(r.trials[0])'
    # Those five seconds are in the figures, and in the verdict.
    holds out '(t => t.clients[1].response_time.max_ns > 4.5e9 && t.verdict !== "valid" &&
        t.reasons.some((x) => x.code === "generator_stalled" && x.text.includes("client-2")))(r.trials[0])'
    books_balance out
    tap_equals 0
    ;;
half_open)
    # It hears nothing any more, though all that it says arrives: nobody resets anything.
    lab cut --one-way coordinator client-2
    wait_until 20 grep -q 'agent.lease_over' lab/log/client-2.log
    wait_until 20 sh -c 'tail -n 3 lab/log/client-2.log | grep -q "to=idle"'
    run_ends 3
    lost_and_said false,true,false,false
    lab heal
    # shellcheck disable=SC2086
    wait_until 30 only_agents $others client-2
    ;;
esac
lab down
nothing_left
