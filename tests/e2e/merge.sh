#!/bin/sh
# What is not run again comes from an older result, with its own date; a folder of plans is one run;
# --quick says that it is one. Rows that the plan defines otherwise by now are left out by name, and
# another machine's result is refused before anything is run.
. "$(dirname -- "$0")/lib.sh"
need node sha256sum

mkdir suite
# shellcheck disable=SC2046 # two words
set -- $(free_port 2)
printf 'Hello, World!' >suite/body
cat >suite/page.yaml <<PLAN
$(plan_head page 1)
targets:
  - name: one
    files: [body]
    command: ["$agent", respond, --listen, "{host}:{port}", --die-with-parent]
    port: $1
  - name: two
    command: ["\${LS_TEST_AGENT:-$agent}", respond, --listen, "{host}:{port}", --die-with-parent]
    port: $2
workloads:
  - name: hello
    http: {requests: [{path: /, expect: {body: "Hello, World!"}}]}
    connections: 2
    warmup: 100ms
    measure: 300ms
schedule: {repetitions: 2, discard: 1}
tables:
  - title: The page
    columns: [{title: rate}, {title: best, statistic: best}]
PLAN

# A folder: each plan a result, the warm-up round first and in no figure.
expect "0 4" "$lockstep" run suite --out first -q
says out 'The page'
json first/page/result.json '[r.trials.length, ...r.trials.map((t) => t.repetition)].join()' >rounds
same rounds 6,0,0,1,1,2,2 "$(cat rounds)"
holds first/page/result.json 'r.summary.every((row) => row.n + row.left_out === 2)'
holds first/page/result.json 'r.pages[0].rows.length === 2 && r.pages[0].rows[0].cells.length === 2'

# One target again: the other one's trials are taken, files and all, and say whose they are.
expect "0 4" "$lockstep" run suite/page.yaml --only two --merge first/page --out second --json -q
holds out 'r.trials.map((t) => t.target).join() === "one,one,one,two,two,two"'
holds out 'r.trials.map((t) => t.index).join() === "1,2,3,4,5,6"'
holds out 'r.merged.length === 1 && r.merged[0].rows.join() === "one/hello" && r.merged[0].left.length === 0'
holds out "r.trials.every((t) => (t.run_id !== '') === (t.target === 'one'))"
same date "$(json first/page/result.json 'r.trials[0].started_at')" "$(json out 'r.trials[0].started_at')"
holds out 'r.pages[0].columns.join() === "rate,best,date" && r.pages[0].rows.every((row) => row.cells[2].text !== "")'
(cd second && sha256sum -c --quiet SHA256SUMS) || fail 'the sums of the merged result are wrong'
cmp first/page/trials/001-one-hello-r0/merged.hlog second/trials/001-one-hello-r0/merged.hlog || fail 'not copied'

# A row whose definition or file is another one is left out, and named.
expect "0 4" "$lockstep" run suite/page.yaml --quick --only two --merge first/page --out third --json -q
holds out 'r.profile === "quick" && r.trials.every((t) => t.target === "two") && r.trials.length === 1'
holds out 'r.merged[0].left[0].startsWith("one/hello: the plan, a file that it names, or --quick")'
printf 'Hello, You!' >suite/body
expect "0 4" "$lockstep" run suite/page.yaml --only two --merge first/page --out fourth -q
says out 'not taken from there: one/hello'

# A file of the workload is as much part of it.
mkdir scripts
echo 'echo 1' >scripts/hello.sh
cat >scripts/plan.yaml <<PLAN
$(plan_head scripts 1)
targets: [{name: one, command: [sh]}, {name: two, command: [/bin/sh]}]
workloads: [{name: hello, process: {args: [hello.sh], files: [hello.sh], runs: 2}}]
PLAN
expect "0 4" "$lockstep" run scripts/plan.yaml --out scripts-1 -q
expect "0 4" "$lockstep" run scripts/plan.yaml --only two --merge scripts-1 --out scripts-2 --json -q
holds out 'r.merged[0].rows.join() === "one/hello"'
echo 'echo 2' >scripts/hello.sh
expect "0 4" "$lockstep" run scripts/plan.yaml --only two --merge scripts-1 --out scripts-3 --json -q
holds out 'r.merged[0].rows.length === 0 && r.merged[0].left[0].startsWith("one/hello: the plan, a file that it names")'

# The parts of a ladder are folders of their own, and not taken over.
cat >ladder.yaml <<PLAN
$(plan_head ladder 1)
targets:
  - {name: one, command: ["$agent", respond, --listen, "{host}:{port}", --die-with-parent], port: $1}
  - {name: two, command: ["$agent", respond, --listen, "{host}:{port}", --die-with-parent], port: $2}
workloads:
  - name: hello
    http: {requests: [{path: /}]}
    warmup: 100ms
    load: {ladder: {connections: [1, 2], each: 500ms, passes: 1}}
PLAN
expect "0 4" "$lockstep" run ladder.yaml --only one --out ladder-1 -q
expect "0 4" "$lockstep" run ladder.yaml --only two --merge ladder-1 --out ladder-2 --json -q
holds out 'r.merged[0].rows.length === 0 && r.merged[0].left.join() === "one/hello: the parts of a search or a ladder are not copied: run it again"'
expect 0 "$lockstep" verify ladder-2

# Another machine, or a changed file: refused, and nothing was run.
printf 'Hello, World!' >suite/body
echo changed >>first/page/trials/001-one-hello-r0/merged.hlog
expect 2 "$lockstep" run suite/page.yaml --only two --merge first/page --out fifth -q
says err 'was changed after it was written'
cp -r second sixth
sed 's/"hostname": "[^"]*"/"hostname": "elsewhere"/' second/result.json >sixth/result.json
sum=$(sha256sum <sixth/result.json)
sed "s/^[0-9a-f]*  result.json/${sum%% *}  result.json/" second/SHA256SUMS >sixth/SHA256SUMS
expect 2 "$lockstep" run suite/page.yaml --only two --merge sixth --out seventh --json -q
holds out 'r.error.includes("elsewhere") && r.error.includes("figures of two machines") && r.trials.length === 0'

# Of a folder, all results are one document, and a filter that fits no plan is a mistake.
expect "0 4" "$lockstep" run suite --quick --json --out eighth -q
holds out 'r.results.length === 1 && r.results[0].trials.length === 2'
expect 2 "$lockstep" run suite --only nobody --out ninth -q
says err "matches 'nobody'"
expect 2 "$lockstep" run suite --resume first/page
says err 'no folder of plans'
nothing_left
