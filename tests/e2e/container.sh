#!/bin/sh
# The image under podman and runc, on a base that is made here (no registry is asked): its size, a run by the
# compose file, and a run for each thing that can happen to a container. Not a ctest: it needs root, a package
# archive and the packages of the group container, and takes ten minutes.
#
#   sh tests/e2e/container.sh [RESULTS]           keeps the results in RESULTS
#
# LS_BARE_TAR names a bare root made before; LS_CONTAINER_STORE a folder with podman's store, to use again.
set -eu

root=$(CDPATH='' cd -- "$(dirname -- "$0")/../.." && pwd)
results=
[ -z "${1:-}" ] || {
    mkdir -p "$1"
    results=$(CDPATH='' cd -- "$1" && pwd)
}
work=$(mktemp -d)
store=${LS_CONTAINER_STORE:-$work/store}
CONTAINERS_CONF=$work/containers.conf
export CONTAINERS_CONF
say() { printf 'container: %s\n' "$*"; }

cat >"$CONTAINERS_CONF" <<'CONF'
[containers]
default_ulimits = ["nofile=20000:20000","nproc=10000:10000"]
[engine]
runtime = "runc"
CONF
# A store of its own: nothing else of this machine's containers is touched.
engine() {
    podman --root "$store/root" --runroot "$store/run" --storage-driver=overlay "$@"
}
service=
clean_up() {
    [ -z "$service" ] || {
        kill "$service" 2>/dev/null || :
        wait "$service" || :
    }
    engine rm --all --force --time 1 >/dev/null 2>&1 || :
    engine network rm --force lslab >/dev/null 2>&1 || :
    [ -n "${LS_CONTAINER_STORE:-}" ] || engine system reset --force >/dev/null 2>&1 || :
    rm -rf "$work"
}
trap clean_up EXIT
trap 'exit 130' INT TERM HUP
fail() {
    say "FAILED: $*"
    for container in $(engine ps --all --format '{{.Names}}' 2>/dev/null); do
        engine ps --all --filter "name=^$container\$" --format '{{.Names}}: {{.Status}}' >"$work/of-$container.log" 2>&1 || :
        engine logs "$container" >>"$work/of-$container.log" 2>&1 || :
    done
    for log in "$work"/*.log; do
        printf '%s\n' "--- $log"
        tail -n 15 "$log"
    done
    exit 1
}

# ---- the image
mkdir -p "$store"
if ! engine image exists localhost/lockstep; then
    if ! engine image exists docker.io/library/debian:bookworm-slim; then
        tar=${LS_BARE_TAR:-$work/base.tar}
        [ -e "$tar" ] || mmdebstrap --quiet --variant=minbase bookworm "$tar"
        engine import "$tar" docker.io/library/debian:bookworm-slim >/dev/null 2>&1
    fi
    engine build --pull=never --ignorefile "$root/deploy/container/containerignore" \
        -f "$root/deploy/container/Containerfile" -t lockstep "$root" >"$work/build.log" 2>&1 || fail 'no image'
fi
say "image: $(($(engine image inspect --format '{{.Size}}' localhost/lockstep) / 1000000)) MB, $(engine run --rm localhost/lockstep --version)"

# ---- keys, a plan, words for what follows
cd "$work"
LOCKSTEP_RUN="podman --root $store/root --runroot $store/run --storage-driver=overlay run --rm --user 0 -v $work:$work localhost/lockstep" \
    sh "$root/deploy/container/keys.sh" 2 "$work/keys"
cp "$root/deploy/container/policy.yaml" "$root/deploy/plans/anywhere.yaml" .
mkdir -m 777 out
engine network create --internal --subnet 10.89.77.0/24 --ip-range 10.89.77.128/25 lslab >/dev/null

hard='--read-only --tmpfs /tmp --cap-drop all --security-opt no-new-privileges --user 10001:10001'
# agent NAME KEYS ROLE [OPTION OF PODMAN...]: it has the coordinator's name in its own table. Podman's name server
# (aardvark 1.4) was seen not to answer one of several containers that were started one after the other, for as long
# as no other was started: that agent dialled in vain, and there was no measurement.
agent() {
    name=$1
    keys=$2
    role=$3
    shift 3
    policy=
    [ "$role" != server ] || policy='--policy /policy.yaml'
    # shellcheck disable=SC2086 # words
    engine run -d --name "$name" --network lslab --add-host coordinator:10.89.77.5 $hard "$@" -v "$work/$keys:/keys:ro" -v "$work/policy.yaml:/policy.yaml:ro" \
        --entrypoint /usr/bin/lockstep-agent localhost/lockstep --dial tls+tcp://coordinator:7000 --keys /keys \
        --role "$role" $policy >/dev/null
}
agents_up() {
    agent server keys/server server --cpuset-cpus 0 --ip 10.89.77.10
    agent client-1 keys/clients client --cpuset-cpus 1
    # shellcheck disable=SC2086 # words
    agent client-2 keys/clients client --cpuset-cpus 1 ${1:-}
}
# begin NAME [OPTION...]: a run in the background, measured for 8 s.
begin() {
    name=$1
    shift
    # shellcheck disable=SC2086 # words
    engine run --rm --name coordinator --network lslab --ip 10.89.77.5 $hard -v "$work/anywhere.yaml:/plan/anywhere.yaml:ro" \
        -v "$work/keys/coordinator:/keys:ro" -v "$work/out:/results" localhost/lockstep run /plan/anywhere.yaml \
        --listen tls+tcp://0.0.0.0:7000 --keys /keys --out "/results/$name" --set schedule.repetitions=1 \
        --set workloads[0].measure=8s --set fleet.clients=2 --set fleet.on_agent_loss=continue "$@" >"$name.out" 2>"$name.log" &
    run=$!
}
measuring() {
    tries=0
    until engine logs client-1 2>&1 | grep -q 'to=measure'; do
        tries=$((tries + 1))
        [ "$tries" -lt 300 ] || fail 'there was no measurement'
        sleep 0.1
    done
    sleep 2
}
# ended STATUSES REASON WHAT: what the result says of it: it ends with one of these, for that reason (-: any).
ended() {
    code=0
    wait "$run" || code=$?
    [ -e "out/$name/result.json" ] || fail "$3: nothing was saved"
    case " $1 " in
    *" $code "*) ;;
    *) fail "$3: status $code instead of $1" ;;
    esac
    [ "$2" = - ] || grep -q "\"code\": *\"$2\"" "out/$name/result.json" || fail "$3: the result does not say $2"
    say "$3: status $code; $(sed -n 's/^\[1\/1\] responder hello r1  \(\(valid\|suspect\|invalid\).*\)/\1/p' "$name.log" | tr '\n' ';')"
    engine rm --all --force --time 3 >/dev/null 2>&1
}

# ---- nothing happens
agents_up
begin well
measuring
for field in CapEff CapBnd Seccomp NoNewPrivs; do
    grep "^$field:" "/proc/$(engine inspect --format '{{.State.Pid}}' client-1)/status"
done | tr '\t\n' ' '
say '(of an agent)'
ended '0 4' - 'nothing happens'
grep -q '"io": *"libev"' out/well/result.json &&
    say "$(grep -o '"io_reason": *"[^"]*"' out/well/result.json | head -n 1)"

# ---- and what can
agents_up
begin paused
measuring
engine pause server >/dev/null
sleep 3
engine unpause server >/dev/null
ended '0 4' - 'the server is paused for 3 s'

agents_up
begin unplugged
measuring
engine network disconnect lslab client-2
ended 4 agent_lost 'a client is unplugged for good'

agents_up
begin replugged
measuring
engine network disconnect lslab server
sleep 1
engine network connect --ip 10.89.77.10 lslab server
ended '0 4' - 'the server is unplugged for 1 s'

agents_up
begin killed
measuring
engine kill -s KILL server >/dev/null
ended 3 agent_lost 'the server is killed'

agents_up
begin partition
measuring
pid=$(engine inspect --format '{{.State.Pid}}' client-2)
nsenter -t "$pid" -n nft 'add table inet cut; add chain inet cut in { type filter hook input priority 0; }; add rule inet cut in tcp sport 18090 drop'
ended 4 wrong_responses 'a client hears nothing of the server any more'

# Memory: what a client may have is less than its connections need.
agents_up '--memory 10m'
begin memory --set workloads[0].connections=8000 --set fleet.start_lead=3s
ended 3 agent_lost 'a client with 10 MB for 4000 connections'

# ---- what wrk says of the same: of its own it sends nothing while it waits, and so has nothing to tell
if command -v wrk >/dev/null; then
    for fault in pause kill; do
        # shellcheck disable=SC2086 # words
        engine run -d --name alone --network lslab --ip 10.89.77.20 $hard --entrypoint /usr/bin/lockstep-agent \
            localhost/lockstep respond --listen 10.89.77.20:18090 >/dev/null
        sleep 1
        wrk -t1 -c16 -d8s --latency http://10.89.77.20:18090/ >"wrk-$fault.log" 2>&1 &
        run=$!
        sleep 2
        engine "$fault" alone >/dev/null
        sleep 3
        [ "$fault" != pause ] || engine unpause alone >/dev/null
        code=0
        wait "$run" || code=$?
        say "wrk, and the server's $fault: status $code; $(grep -E 'Latency  |99%|errors' "wrk-$fault.log" | tr -s ' \n' ' ')"
        engine rm --all --force --time 1 >/dev/null 2>&1
    done
fi

# ---- compose
if command -v docker-compose >/dev/null; then
    # Not by the function: what is to be ended is podman itself, and not a shell that waits for it.
    podman --root "$store/root" --runroot "$store/run" --storage-driver=overlay \
        system service --time=0 "unix://$work/api.sock" >"$work/service.log" 2>&1 &
    service=$!
    tries=0
    until [ -S "$work/api.sock" ]; do
        tries=$((tries + 1))
        [ "$tries" -lt 100 ] || fail 'podman does not answer'
        sleep 0.1
    done
    mkdir -m 777 compose-results
    code=0
    DOCKER_HOST=unix://$work/api.sock COMPOSE_PROJECT_NAME=lslab LOCKSTEP_KEYS=$work/keys LOCKSTEP_PLAN=$work/anywhere.yaml \
        LOCKSTEP_POLICY=$work/policy.yaml LOCKSTEP_RESULTS=$work/compose-results \
        docker-compose -f "$root/deploy/container/compose.yaml" up --scale client=1 --abort-on-container-exit \
        --exit-code-from coordinator >"$work/compose.log" 2>&1 || code=$?
    DOCKER_HOST=unix://$work/api.sock COMPOSE_PROJECT_NAME=lslab LOCKSTEP_KEYS=$work/keys LOCKSTEP_PLAN=$work/anywhere.yaml \
        LOCKSTEP_POLICY=$work/policy.yaml LOCKSTEP_RESULTS=$work/compose-results \
        docker-compose -f "$root/deploy/container/compose.yaml" down >>"$work/compose.log" 2>&1 || :
    [ -e compose-results/run/result.json ] || fail 'compose: nothing was saved'
    say "compose: status $code; $(grep -o 'Verdict: .*' compose.log | head -n 1)"
    mv compose-results/run out/compose
fi
left=$(engine ps --all --quiet)
[ -z "$left" ] || fail "left: $left"
[ -z "$results" ] || cp -r out/. "$results/"
say ok
