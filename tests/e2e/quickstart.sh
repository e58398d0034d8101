#!/bin/sh
# The quickstart's plan, shortened: every file of the result folder is there and agrees with the
# others, with the programs that were measured, and with a reader of histogram logs that is not ours.
. "$(dirname -- "$0")/lib.sh"
need node nginx

# The plan as it is, but for the ports, which may be in use here, and the time it takes.
cp -r "$LS_SOURCE/deploy" .
# shellcheck disable=SC2046 # two words
set -- $(free_port 2)
sed -i "s/18080/$1/" deploy/targets/hello/nginx.conf deploy/plans/quickstart.yaml
sed -i "s/18081/$2/" deploy/plans/quickstart.yaml

expect 0 "$lockstep" check deploy/plans/quickstart.yaml
status=0
"$lockstep" run deploy/plans/quickstart.yaml --out result --set 'workloads[0].warmup=200ms' \
    --set 'workloads[0].measure=500ms' --set schedule.repetitions=2 >out 2>err || status=$?
[ "$status" -eq 0 ] || [ "$status" -eq 4 ] || {
    show out err
    fail "status $status"
}
nothing_left
for port in "$@"; do
    port_is_free "$port" || fail "port $port is still in use"
done

result=result/result.json
same 'status' complete "$(json $result r.status)"
same 'exit status' "$status" "$(json $result r.exit_status)"
same 'order' 'nginx node nginx node' "$(json $result 'r.trials.map((t) => t.target).join(" ")')"
same 'trials done' 4 "$(json $result 'r.trials.filter((t) => t.status === "done").length')"
same 'repetitions' '1 1 2 2' "$(json $result 'r.trials.map((t) => t.repetition).join(" ")')"
books_balance $result
holds $result 'r.trials.every((t) => t.requests.ok > 0 && t.requests.ok === t.requests.sent)'
holds $result 'r.trials.every((t) => t.service_time.count === t.requests.ok)'
holds $result 'r.trials.every((t) => t.server.cpu_ns > 0 && t.server.rss_peak_bytes > 0)'
for program in nginx node; do
    same "binary of $program" "$(sha256sum "$(readlink -f "$(command -v $program)")" | cut -d' ' -f1)" \
        "$(json $result "r.trials.find((t) => t.target === '$program').server.program.sha256")"
done

cmp deploy/plans/quickstart.yaml result/plan.yaml || fail 'plan.yaml is not the plan as given'
(cd result && sha256sum --quiet -c SHA256SUMS) || fail 'a file is not what SHA256SUMS says'
same 'files without a sum' '' "$(cd result && find . -type f ! -name SHA256SUMS | sed 's|^\./||' |
    while read -r file; do grep -q "  $file\$" SHA256SUMS || printf '%s ' "$file"; done)"

for trial in 0 1 2 3; do
    folder=result/$(json $result "r.trials[$trial].folder")
    for file in trial.json server.csv client-1.hlog client-2.hlog merged.hlog; do
        [ -s "$folder/$file" ] || fail "$folder/$file is missing"
    done
    json $result "r.trials[$trial]" >expected
    json "$folder/trial.json" r >got
    cmp expected got || fail "$folder/trial.json differs from result.json"
    if [ -d "${LS_NODE_MODULES:-}/hdr-histogram-js" ]; then
        reader=$LS_SOURCE/tests/support/hlog.mjs
        node "$reader" sum "$folder"/client-*.hlog -- "$folder/merged.hlog" >stats ||
            fail "$folder: the clients' histograms do not add up to the merged one"
        json $result "{ service_time: r.trials[$trial].service_time }" >expected
        node "$reader" check expected "$folder/merged.hlog" >stats ||
            fail "$folder: percentiles differ from result.json"
    fi
done

# Rendered again, it says the same.
expect 0 "$lockstep" report result --json
json out r >got
json $result r >expected
cmp expected got || fail 'report --json differs from result.json'
expect 0 "$lockstep" report result
for word in nginx node requests/s p99 'Verdict:'; do
    says out "$word"
done
