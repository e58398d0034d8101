#!/bin/sh
# report.html: one file that a browser shows without a complaint and without loading anything, with
# the figures of the other formats; of a real run, of hostile names, of sixty trials of eight hours.
# LS_E2E_LONG=1: also in how much memory, of a thousand trials of ten hours, and of a real trial that
# is too long for result.json. LS_SCREENSHOTS names a folder that keeps the pictures, LS_RESULT
# a result folder whose page is looked at as well.
. "$(dirname -- "$0")/lib.sh"
need node "${CHROMIUM:-chromium}"
make_result=$LS_BUILD/tests/coordinator/make_result
here=$LS_SOURCE/tests/e2e

# looks_right NAME: the page in NAME/report.html, against the Markdown of the same folder.
looks_right() {
    expect 0 "$lockstep" report "$1" --format markdown
    mv out "$1.md"
    mkdir -p "shots/$1"
    node "$here/report_page.mjs" "$LS_TMP/$1/report.html" "$1.md" "$LS_TMP/shots/$1" >page.out 2>page.err || {
        show page.out page.err
        fail "the page of $1"
    }
    echo "$1: $(cat page.out)"
    if [ -n "${LS_SCREENSHOTS:-}" ]; then
        mkdir -p "$LS_SCREENSHOTS/$1"
        cp "shots/$1"/*.png "shots/$1"/*.pdf "$LS_SCREENSHOTS/$1/"
    fi
}

# A real run writes it, lists it, and report makes the same again.
port=$(free_port)
{
    plan_head real 2
    cat <<PLAN
targets:
  - name: one
    command: ["$agent", respond, --listen, "{host}:{port}", --die-with-parent]
    port: $port
  - name: two
    command: ["$agent", respond, --listen, "{host}:{port}", --die-with-parent, --latency, "constant:1ms"]
    port: $port
workloads:
  - name: steps
    http: {requests: [{path: /}]}
    connections: 8
    load: {steps: {rates: [200/s, 400/s], each: 500ms}}
    warmup: 100ms
    interval: 100ms
schedule: {repetitions: 2}
PLAN
} >plan.yaml
expect '0 4' "$lockstep" run plan.yaml --out real
says real/SHA256SUMS report.html
(cd real && sha256sum -c --quiet SHA256SUMS) || fail 'the sums do not fit'
expect 0 "$lockstep" report real --format html
cmp -s out real/report.html || fail 'report makes another page than run'
nothing_left
looks_right real
if [ -n "${LS_RESULT:-}" ]; then
    cp -r "$LS_RESULT" given
    expect 0 "$lockstep" report given --format html
    mv out given/report.html
    looks_right given
fi

hostile=$(printf '</script><img src=x onerror=document.title=1>"'\'' \033]0;x\007 \342\200\256=1+1|`*_& \377')
expect 0 "$make_result" hostile 8 20 "$hostile"
expect 0 "$lockstep" report hostile --format html
mv out hostile/report.html
grep -q '<img' hostile/report.html && fail 'markup of a name is in the page'
looks_right hostile
expect 0 "$lockstep" report hostile
LC_ALL=C grep -q "$(printf '[\033\007]')" out && fail 'a name wrote to the terminal'

# long_trial: more intervals than result.json keeps points. The folder has each of them, and verify
# makes the points again.
long_trial() {
    {
        plan_head lasting 1
        cat <<PLAN
targets:
  - name: one
    command: ["$agent", respond, --listen, "{host}:{port}", --die-with-parent]
    port: $port
workloads:
  - name: steady
    http: {requests: [{path: /}]}
    connections: 2
    load: {constant: {rate: 100/s}}
    warmup: 0s
    measure: 65s
    interval: 100ms
schedule: {repetitions: 1}
PLAN
    } >lasting.yaml
    expect '0 4' "$lockstep" run lasting.yaml --out lasting
    holds lasting/result.json 'r.trials[0].intervals.length <= 602 && r.trials[0].intervals_thinned.every === 2'
    holds lasting/result.json 'r.trials[0].intervals.reduce((n, i) => n + i.completed, 0) === r.trials[0].requests.ok'
    [ "$(wc -l <lasting/trials/001-one-steady-r1/intervals.csv)" -gt 650 ] || fail 'an interval is missing'
    expect 0 "$lockstep" verify lasting
    # shellcheck disable=SC2016 # for node
    node -e '
        const fs = require("fs"), file = "lasting/trials/001-one-steady-r1/trial.json";
        const t = JSON.parse(fs.readFileSync(file, "utf8")), r = JSON.parse(fs.readFileSync("lasting/result.json", "utf8"));
        t.intervals_thinned.least_per_s[100] += 1;
        r.trials = [t];
        fs.writeFileSync(file, JSON.stringify(t));
        fs.writeFileSync("lasting/result.json", JSON.stringify(r));'
    expect 4 "$lockstep" verify lasting
    says out 'intervals_thinned.least_per_s[100]'
}

# small NAME ARGUMENT...: whatever the result is, the page stays small. In a browser, too, where there
# is time.
small() {
    expect 0 "$make_result" "$@"
    expect 0 "$lockstep" report "$1" --format html
    size=$(wc -c <out)
    [ "$size" -lt 2000000 ] || fail "the page of $1 has $size bytes"
    mv out "$1/report.html"
    [ -z "${LS_E2E_LONG:-}" ] || looks_right "$1"
}
small long 60 28800 # eight hours of series each
if [ -n "${LS_E2E_LONG:-}" ]; then
    # An address space of 300 MB: less than that of memory.
    expect 0 sh -c "ulimit -v 300000 && exec '$lockstep' report long --format html"
    small many 1000 36000
    long_trial
fi
unset LS_E2E_LONG # the page cuts such names, and its cells are others than in Markdown
small wide 12 2 "$(head -c 10000 /dev/zero | tr '\0' 'w')"

# Files that are gone or damaged cost a chart, and the page says so.
rm long/trials/*/coarse.hlog
for log in hostile/trials/001-*/merged.hlog; do
    echo nonsense >"$log"
done
for name in long hostile; do
    expect 0 "$lockstep" report "$name" --format html
    says out 'merged.hlog'
done
