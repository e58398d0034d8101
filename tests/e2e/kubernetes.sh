#!/bin/sh
# The manifests of deploy/kubernetes, without a cluster: every field by the types of the Kubernetes API (a name
# that is not of it does not compile) and every value by its schema; then the pods of the Jobs, out of the same
# files, as containers. Not a ctest: it needs root, npm, podman with the image of tests/e2e/container.sh.
#
#   sh tests/e2e/kubernetes.sh [check|run]         both unless named
#
# LS_CONTAINER_STORE names the folder with podman's store.
set -eu

root=$(CDPATH='' cd -- "$(dirname -- "$0")/../.." && pwd)
what=${1:-both}
work=$(mktemp -d)
say() { printf 'kubernetes: %s\n' "$*"; }
store=${LS_CONTAINER_STORE:-}
engine() {
    podman --root "$store/root" --runroot "$store/run" --storage-driver=overlay "$@"
}
clean_up() {
    if [ -n "$store" ]; then
        engine pod rm --all --force --time 1 >/dev/null 2>&1 || :
        engine volume rm lockstep-results >/dev/null 2>&1 || :
        engine network rm --force lsk8s >/dev/null 2>&1 || :
    fi
    rm -rf "$work"
}
trap clean_up EXIT
trap 'exit 130' INT TERM HUP
fail() {
    say "FAILED: $*"
    exit 1
}

cd "$work"
cp "$root"/deploy/kubernetes/*.yaml .
npm install --no-audit --no-fund --ignore-scripts --silent js-yaml@4.1.0 typescript@5.4.5 kubernetes-models@5.1.0 >npm.log 2>&1 ||
    fail "no packages: $(tail -n 3 npm.log)"

# ---- fields and values
cat >check.mjs <<'JS'
import fs from 'fs';
import yaml from 'js-yaml';
let code = '', n = 0, bad = 0;
for (const file of process.argv.slice(2)) {
  for (const o of yaml.loadAll(fs.readFileSync(file, 'utf8'))) {
    const path = `kubernetes-models/${o.apiVersion}/${o.kind}`;
    n++;
    code += `import { I${o.kind} as T${n} } from '${path}';\nexport const x${n}: T${n} = ${JSON.stringify(o)};\n`;
    try {
      new (await import(path))[o.kind](o).validate();
    } catch (e) {
      bad++;
      console.log(`${file}: ${o.kind}/${o.metadata?.name}: ${e.message}`);
    }
  }
}
fs.writeFileSync('manifests.mts', code);
console.log(`${n} objects, ${bad} with values that the schema does not take`);
process.exit(bad ? 1 : 0);
JS
cat >promises.cjs <<'JS'
const yaml = require("js-yaml"), fs = require("fs");
const all = process.argv.slice(2).flatMap((f) => yaml.loadAll(fs.readFileSync(f, "utf8")));
for (const job of all.filter((o) => o.kind === "Job")) {
  const pod = job.spec.template.spec, c = pod.containers[0], say = (ok, what) => {
    if (!ok) { console.log(`${job.metadata.name}: ${what}`); process.exitCode = 1; }
  };
  say(pod.securityContext.runAsNonRoot && c.securityContext.readOnlyRootFilesystem, "root");
  say(c.securityContext.capabilities.drop.join() === "ALL" && !c.securityContext.allowPrivilegeEscalation, "capabilities");
  say(JSON.stringify(c.resources.requests) === JSON.stringify(c.resources.limits) && /^[0-9]+$/.test(c.resources.limits.cpu), "not guaranteed whole CPUs");
  say(c.volumeMounts.every((m) => pod.volumes.some((v) => v.name === m.name)), "a mount without its volume");
  if (job.spec.completionMode === "Indexed") {
    say(job.spec.completions === job.spec.parallelism, "not all at once");
    say(pod.volumes.find((v) => v.name === "keys").projected.sources.length === job.spec.completions, "not a key for each");
  }
}

// Who may talk to whom, all policies taken together: agents dial out.
const labels = Object.fromEntries(all.filter((o) => o.kind === "Job").map((o) => o.spec.template.metadata.labels)
  .map((l) => [l["app.kubernetes.io/component"], l]));
const fits = (s, l) => Object.entries(s.matchLabels ?? {}).every(([k, v]) => l[k] === v) &&
  (s.matchExpressions ?? []).every((e) => e.operator === "In" && e.values.includes(l[e.key]));
const who = (peer) => peer.namespaceSelector ? ["names"] : Object.keys(labels).filter((n) => fits(peer.podSelector ?? {}, labels[n]));
const may = (name, direction) => {
  const mine = all.filter((o) => o.kind === "NetworkPolicy" && o.spec.policyTypes.includes(direction) && fits(o.spec.podSelector, labels[name]));
  const rules = mine.flatMap((o) => o.spec[direction.toLowerCase()] ?? []);
  return mine.length === 0 ? "everybody" : [...new Set(rules.flatMap((r) => (r.from ?? r.to).flatMap(who)
    .map((n) => `${n}:${(r.ports ?? []).map((p) => p.port + p.protocol).join()}`)))].sort().join(" ");
};
const session = ":7000TCP,7000UDP", home = `coordinator${session} names:53UDP,53TCP`;
for (const [name, direction, wanted] of [["client", "Ingress", ""], ["client", "Egress", `${home} server:`],
  ["server", "Ingress", "client:"], ["server", "Egress", home], ["coordinator", "Egress", ""],
  ["coordinator", "Ingress", ["client", "coordinator", "server"].map((n) => n + session).join(" ")]]) {
  if (may(name, direction) !== wanted) { console.log(`${name}, ${direction}: ${may(name, direction)}, not ${wanted}`); process.exitCode = 1; }
}

// What kustomize puts together is all of it, and what is mounted is what it makes or secrets.sh does.
const kustomization = yaml.load(fs.readFileSync("kustomization.yaml", "utf8"));
const made = kustomization.configMapGenerator.map((g) => g.name);
const same = (a, b, what) => { if ([...a].sort().join() !== [...b].sort().join()) { console.log(`${what}: ${a} and ${b}`); process.exitCode = 1; } };
same(kustomization.resources, process.argv.slice(2), "resources");
const volumes = all.filter((o) => o.kind === "Job").flatMap((o) => o.spec.template.spec.volumes);
same(new Set(volumes.filter((v) => v.configMap).map((v) => v.configMap.name)), made, "configuration");
same(volumes.flatMap((v) => v.secret ? [v.secret.secretName] : (v.projected?.sources ?? []).map((q) => q.secret.name)),
  ["coordinator", "server-0", "client-0", "client-1", "client-2", "client-3"].map((n) => `lockstep-${n}`), "keys");
for (const file of kustomization.configMapGenerator.flatMap((g) => g.files)) fs.statSync(file);
JS
check() {
    node check.mjs "$@" && npx tsc --strict --noEmit --skipLibCheck --module nodenext --moduleResolution nodenext manifests.mts
}
files='namespace.yaml coordinator.yaml servers.yaml clients.yaml network.yaml'
if [ "$what" != run ]; then
    # shellcheck disable=SC2086 # words
    check $files || fail 'a manifest is not as the API has it'
    # The check can fail: a name of no field, a value of another type.
    sed 's/parallelism:/paralelism:/' clients.yaml >wrong.yaml
    ! check wrong.yaml >wrong.log 2>&1 || fail 'a misspelt field was not found'
    sed 's/completions: 4/completions: four/' clients.yaml >wrong.yaml
    ! check wrong.yaml >wrong.log 2>&1 || fail 'a value of another type was not found'
    # What the manifests promise.
    # shellcheck disable=SC2086 # words
    node promises.cjs $files || fail 'a promise is not kept'
    mkdir wrong
    cp ./*.yaml wrong/
    sed 's/component: client}/component: coordinator}/' network.yaml >wrong/network.yaml
    # shellcheck disable=SC2086 # words
    (cd wrong && ! node ../promises.cjs $files >wrong.log && grep -q '^server, Ingress: coordinator' wrong.log) ||
        fail 'a policy that lets others in was not found'
    if command -v kubectl >/dev/null; then
        kubectl kustomize . >rendered.yaml || fail 'kustomize does not render it'
        say "kustomize renders $(grep -c '^kind:' rendered.yaml) objects"
    fi
    say 'schema, types and promises: ok'
fi
[ "$what" != check ] || exit 0

# ---- the pods, out of the same files: what a Job's controller and kubelet would do is done here
[ -n "$store" ] || fail 'LS_CONTAINER_STORE is needed, as tests/e2e/container.sh was given it'
cat >"$work/containers.conf" <<'CONF'
[containers]
default_ulimits = ["nofile=20000:20000","nproc=10000:10000"]
[engine]
runtime = "runc"
CONF
CONTAINERS_CONF=$work/containers.conf
export CONTAINERS_CONF
LOCKSTEP_RUN="podman --root $store/root --runroot $store/run --storage-driver=overlay run --rm --user 0 -v $work:$work localhost/lockstep" \
    sh "$root/deploy/container/keys.sh" 2 "$work/keys"
mkdir -m 777 results
mkdir index-0 index-1 index-server
cp -a keys/clients/client-1 index-0/0
cp -a keys/clients/client-2 index-1/1
cp -a keys/server index-server/0
sed -i 's/clients: 4/clients: 2/; s/cpus: {server: auto, client: auto}/cpus: {allow_overlap: true}/; s/repetitions: 5/repetitions: 1/' plan.yaml
cat >pods.mjs <<'JS'
import fs from 'fs';
import yaml from 'js-yaml';
const work = process.cwd();
const host = (path) => ({ hostPath: { path: `${work}/${path}` } });
const jobs = ['coordinator.yaml', 'servers.yaml', 'clients.yaml'].flatMap((f) => yaml.loadAll(fs.readFileSync(f, 'utf8')))
  .filter((o) => o.kind === 'Job');
const pod = (job, name, index, sources) => {
  const spec = structuredClone(job.spec.template.spec);
  const c = spec.containers[0];
  delete spec.affinity;
  for (const v of spec.volumes) {
    if (sources[v.name]) {
      for (const key of Object.keys(v)) if (key !== 'name') delete v[key];
      Object.assign(v, host(sources[v.name]));
    } else if (v.emptyDir) v.emptyDir = {};
  }
  c.args = c.args.map((a) => a.replace('$(JOB_COMPLETION_INDEX)', index));
  delete c.env;
  c.resources = { limits: c.resources.limits.memory ? { memory: c.resources.limits.memory } : {} };
  spec.hostname = name;
  return yaml.dump({ apiVersion: 'v1', kind: 'Pod', metadata: { name, labels: job.spec.template.metadata.labels }, spec });
};
const by = (end) => jobs.find((j) => j.metadata.name.endsWith(end));
fs.mkdirSync('planned', { recursive: true });
fs.copyFileSync('plan.yaml', 'planned/plan.yaml');
fs.mkdirSync('policies', { recursive: true });
fs.copyFileSync('policy.yaml', 'policies/policy.yaml');
fs.writeFileSync('pod-0.yaml', pod(by('coordinator'), 'coordinator', 0, { plan: 'planned', keys: 'keys/coordinator', results: 'results' }));
fs.writeFileSync('pod-1.yaml', pod(by('servers'), 'server-0', 0, { keys: 'index-server', policy: 'policies' }));
fs.writeFileSync('pod-2.yaml', pod(by('clients'), 'client-0', 0, { keys: 'index-0' }));
fs.writeFileSync('pod-3.yaml', pod(by('clients'), 'client-1', 1, { keys: 'index-1' }));
JS
node pods.mjs
engine network create --internal --subnet 10.89.78.0/24 lsk8s >/dev/null
for n in 0 1 2 3; do
    engine play kube --network lsk8s "pod-$n.yaml" >"play-$n.log" 2>&1 || {
        cat "play-$n.log"
        fail 'podman does not play it'
    }
done
code=$(engine wait coordinator-coordinator)
engine logs coordinator-coordinator 2>&1 | tail -n 12
[ -e results/run/result.json ] || fail 'nothing was saved'
case $code in
0 | 4) say "run by podman play kube: status $code" ;;
*) fail "the coordinator ended with $code" ;;
esac
