#!/bin/sh
# `lockstep bundle` and `lockstep rerun`: a result in one file, the same bytes each time, that runs
# elsewhere; what was changed, cut off or made up is refused by name, and nothing of it stays.
. "$(dirname -- "$0")/lib.sh"
need node sha256sum

mkdir -p tmp there/plans there/bodies
TMPDIR=$LS_TMP/tmp
export TMPDIR
port=$(free_port)
echo hello >there/bodies/hello.txt
echo secret >there/plans/key.pem
printf 'seconds,rate\n0,500\n0.2,1000\n' >there/plans/trace.csv
{
    plan_head bundled 1
    cat <<PLAN
targets:
  - name: responder
    files: [../bodies/hello.txt]
    command: ["$agent", respond, --listen, "{host}:{port}", --die-with-parent]
    port: $port
workloads:
  - name: count
    http: {requests: [{method: POST, path: /, body_file: ../bodies/hello.txt}]}
    connections: 2
    load: {closed: {requests: 300}}
    warmup: 0s
    measure: 60s
  - name: trace
    http: {requests: [{path: /}]}
    connections: 2
    load: {trace: {file: trace.csv}}
    warmup: 0s
    measure: 300ms
schedule: {repetitions: 2, seed: 7}
PLAN
} >there/plans/plan.yaml

expect '0 4' "$lockstep" run there/plans/plan.yaml --json --out result --label commit=abc
holds out 'r.labels.includes("commit=abc")'
holds out 'r.files.map((f) => f.name).sort().join() === "../bodies/hello.txt,trace.csv"'

# The same folder, the same bytes.
expect 0 "$lockstep" bundle result
same 'the bundle that is named' result.tar.zst "$(cat out)"
expect 0 "$lockstep" bundle result/ -o again.tar.zst
cmp result.tar.zst again.tar.zst || fail 'two bundles of one folder differ'
expect 0 "$lockstep" verify result.tar.zst
says out 'result.tar.zst: agrees'

expect 0 "$lockstep" report result.tar.zst
says out 'result.tar.zst'
expect 0 "$lockstep" report result.tar.zst --format csv
cp out of_bundle
expect 0 "$lockstep" report result --format csv
cmp out of_bundle || fail 'a bundle is reported in other words than its folder'

# Elsewhere: the plan's folder is gone.
mv there gone
expect '0 1 3 4' "$lockstep" rerun result.tar.zst --json --out second
holds out 'r.status === "compared" || r.exit_status === 4'
holds second/result.json 'r.status === "complete" && r.trials.length === 4 && r.seed === 7'
holds second/result.json 'r.trials.every((t) => t.requests.sent > 0)'
expect 0 "$lockstep" rerun result.tar.zst --check
says out 'responder'
expect 0 "$lockstep" compare result.tar.zst result --format markdown
nothing_left
same 'what is left' '' "$(ls tmp)"

# By hand.
expect 0 "$lockstep" bundle --unpack result.tar.zst -o unpacked
cmp gone/bodies/hello.txt unpacked/files/bodies/hello.txt || fail 'a file of the plan is another one'
(cd unpacked/result && sha256sum --quiet -c SHA256SUMS) || fail 'the result is another one'
expect 2 "$lockstep" bundle --unpack result.tar.zst -o unpacked
says err 'File exists'

# What it calls itself is no word to the terminal.
printf '{"version": 1, "name": "a\\u001b[31mb"}' >manifest.json
tar -cf nasty.tar manifest.json
expect 0 "$lockstep" bundle --unpack nasty.tar -o nasty
says out 'a\x1b[31mb'

# What the plan names is another file now, or no longer there.
expect 2 "$lockstep" bundle result -o none.tar.zst
says err 'hello.txt'
mv gone there
echo other >there/bodies/hello.txt
expect 4 "$lockstep" bundle result -o none.tar.zst
says err 'is not the file that the run had'
echo hello >there/bodies/hello.txt

# What is not as it was written is not bundled.
cp -r result broken
echo >>broken/trials/001-responder-count-r1/merged.hlog
expect 4 "$lockstep" bundle broken
says err 'trials/001-responder-count-r1/merged.hlog was changed'
same 'bundles' 'again.tar.zst result.tar.zst' "$(echo *.tar.zst*)"

# A byte that is changed, or an end that is missing, is noticed wherever it is.
cat >damage.js <<'JS'
const fs = require("fs");
const { spawnSync } = require("child_process");
const good = fs.readFileSync("result.tar.zst");
const run = (bytes, what) => {
    fs.writeFileSync("damaged.tar.zst", bytes);
    const ran = spawnSync(process.argv[2], ["verify", "damaged.tar.zst"], { encoding: "utf8" });
    if (ran.status !== 4 || !ran.stderr.includes("damaged.tar.zst")) {
        console.log(`${what}: status ${ran.status} ${ran.stdout} ${ran.stderr}`);
        process.exit(1);
    }
};
for (let i = 1; i < 8; i++) {
    const at = Math.floor(good.length * i / 8);
    const bad = Buffer.from(good);
    bad[at] ^= 0x10;
    run(bad, `byte ${at}`);
    run(good.subarray(0, at), `cut off at ${at}`);
}
run(Buffer.alloc(0), "nothing");
run(Buffer.from("this is no bundle"), "a text");
JS
expect 0 node damage.js "$lockstep"
expect 2 "$lockstep" rerun nowhere.tar.zst
expect 2 "$lockstep" rerun result
says err 'is no bundle'
same 'what is left' '' "$(ls tmp)"

# Bundles that others have made up: by tar, with a manifest that wants what is not allowed.
command -v tar >/dev/null && command -v zstd >/dev/null || exit 0
# made NAME PATH BYTES FILE...: an archive of manifest.json, which lists PATH, and FILE...
made() {
    printf '{"version":1,"files":[{"path":"%s","bytes":%s,"sha256":"x"}]}' "$2" "$3" >manifest.json
    name=$1
    shift 3
    tar --zstd -cf "$name.tar.zst" manifest.json "$@" 2>/dev/null || tar --zstd -cPf "$name.tar.zst" manifest.json "$@"
}
mkdir -p result2 files
made up 'result/../../x' 4
expect 4 "$lockstep" verify up.tar.zst
says err 'a name that is not allowed'
made absolute '/etc/passwd' 4
expect 4 "$lockstep" verify absolute.tar.zst
says err 'a name that is not allowed'
made huge 'files/huge' 99999999999999
expect 2 "$lockstep" verify huge.tar.zst
says err 'would be larger'
ln -s /etc/passwd files/link
made link files/link 0 files/link
expect 4 "$lockstep" verify link.tar.zst
says err 'no plain file'
echo other >files/other
made other files/wanted 6 files/other
expect 4 "$lockstep" verify other.tar.zst
says err 'another file in the place of files/wanted'
made size files/other 5 files/other
expect 4 "$lockstep" verify size.tar.zst
says err 'another size'
made sum files/other 6 files/other
expect 4 "$lockstep" verify sum.tar.zst
says err 'was changed'
same 'what is left' '' "$(ls tmp)"
