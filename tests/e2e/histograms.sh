#!/bin/sh
# merged.hlog is the sum of the clients' files, bucket by bucket, and all that result.json says of
# latency can be computed again from either, by a reader that is not ours; so can the throughput.
. "$(dirname -- "$0")/lib.sh"
need node
[ -d "${LS_NODE_MODULES:-}/hdr-histogram-js" ] || skip 'hdr-histogram-js is not installed'

port=$(free_port)
{
    plan_head histograms 3
    cat <<PLAN
targets:
  - name: responder
    command: ["$agent", respond, --listen, "{host}:{port}", --latency, "exponential:2ms", --every,
              "40:slow:30ms", --die-with-parent]
    port: $port
workloads:
  - name: closed
    http: {requests: [{path: /}]}
    connections: 7
    warmup: 200ms
    measure: 700ms
    interval: 100ms
  - name: fixed
    http: {requests: [{path: /}], pipeline: 4}
    connections: 5
    load: {closed: {requests: 1500}}
    warmup: 100ms
    measure: 30s
    interval: 100ms
  - name: open
    http: {requests: [{path: /}]}
    connections: 6
    load: {constant: {rate: 900/s}}
    warmup: 200ms
    measure: 700ms
    interval: 100ms
schedule: {repetitions: 1}
PLAN
} >plan.yaml
expect '0 4' "$lockstep" run plan.yaml --out result --json
books_balance out

reader=$LS_SOURCE/tests/support/hlog.mjs
trial=0
for workload in closed fixed open; do
    folder=result/$(json out "r.trials[$trial].folder")
    same 'workload' "$workload" "$(json out "r.trials[$trial].workload")"
    same "$workload: clients' files" 3 "$(find "$folder" -name 'client-*.hlog' | grep -c '')"

    node "$reader" sum "$folder"/client-*.hlog -- "$folder/merged.hlog" >stats ||
        fail "$workload: the clients' histograms do not add up to the merged one"
    # In closed loop nothing is due before it is sent, and service time is all there is.
    json out "(t => Object.fromEntries(['service_time', 'response_time', 'send_lag']
        .filter((name) => t[name] !== undefined && t[name].count > 0)
        .map((name) => [name, t[name]])))(r.trials[$trial])" >expected
    holds expected 'r.service_time.count > 100'
    [ "$workload" != open ] || holds expected 'r.response_time.count > 500 && r.send_lag.count > 500'
    node "$reader" check expected "$folder/merged.hlog" >stats 2>err || {
        show err
        fail "$workload: merged.hlog says something else than result.json"
    }
    node "$reader" check expected "$folder"/client-*.hlog >stats || fail "$workload: the parts differ"

    # More than one line a series: it is a stream, and not one lump at the end.
    [ "$(grep -c '^Tag=service_time' "$folder/merged.hlog")" -ge 3 ] || fail 'there are no intervals'

    # What was answered within the window, by its length; a fixed count ends with its last answer.
    holds out "(t => Math.abs(t.throughput_per_s - sum(t.clients.map((c) => c.throughput_per_s))) <
                     1e-6 * t.throughput_per_s)(r.trials[$trial])"
    if [ "$workload" = fixed ]; then
        json "stats" 'r.service_time.count' >count
        holds out "(t => Math.abs(t.throughput_per_s - $(cat count) / t.window.duration_ns * 1e9) <
                         1e-6 * t.throughput_per_s)(r.trials[$trial])"
    else
        holds out "(t => { const n = t.throughput_per_s * t.window.duration_ns / 1e9;
            return Math.abs(n - Math.round(n)) < 1e-3 && Math.round(n) <= t.requests.ok; })(r.trials[$trial])"
    fi
    trial=$((trial + 1))
done

# All renderings name what was measured.
for format in text csv markdown json; do
    expect 0 "$lockstep" report result --format "$format"
    for word in responder closed fixed open; do
        says out "$word"
    done
done
nothing_left
