#!/bin/sh
# A lab of several hosts on this machine: a coordinator's, clients' and servers', each a set of
# namespaces of its own, on one bridge that leads nowhere else. README.md explains it.
#
#   sh deploy/lab/lab.sh up [--clients N] [--servers M] [--owner PID]
#   sh deploy/lab/lab.sh run PLAN [option of lockstep run ...]
#   sh deploy/lab/lab.sh agents start [option of lockstep-agent ...] | agents stop
#   sh deploy/lab/lab.sh exec HOST COMMAND [ARGUMENT ...]
#   sh deploy/lab/lab.sh cut [--one-way|--reject] HOST [HOST]   heal [HOST [HOST]]
#   sh deploy/lab/lab.sh freeze|thaw|crash HOST   slow HOST RATE|off
#   sh deploy/lab/lab.sh status | processes HOST | address HOST | down
#
# Behind the command, --dir DIR names another lab than /run/lockstep-lab; LOCKSTEP_LAB does as well.
# shellcheck disable=SC2016 # scripts for other shells
set -eu

self=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)/$(basename -- "$0")
root=$(CDPATH='' cd -- "$(dirname -- "$self")/../.." && pwd)
dir=${LOCKSTEP_LAB:-/run/lockstep-lab}
net=10.111
port=7411
PATH=$PATH:/usr/sbin:/sbin
export PATH

die() {
    printf 'lab: %s\n' "$*" >&2
    exit 1
}

usage() {
    sed -n 's/^#   //p' "$self" >&2
    exit 2
}

# ---- what is there

# first_of FILE: the process that is told of there; fails if it is no more. Its number may be another
# one's by now, and that one's namespace the one of this whole machine: all signals go to namespaces.
first_of() {
    read -r found space <"$1"
    [ -n "$space" ] && [ "$(readlink "/proc/$found/ns/pid")" = "$space" ] && printf '%s\n' "$found"
}

# host_pid HOST: its first process, by the number it has out here; fails if there is none.
host_pid() {
    [ -e "$dir/hosts/$1.pid" ] || die "there is no host $1: see status"
    first_of "$dir/hosts/$1.pid" || die "host $1 is down"
}

lab_pid() {
    [ -e "$dir/pid" ] || die "there is no lab in $dir: up makes one"
    first_of "$dir/pid" || die "the lab in $dir is gone"
}

hosts() {
    cat "$dir/names"
}

address() {
    case $1 in
    coordinator) printf '%s.0.1\n' "$net" ;;
    client-*) printf '%s.1.%s\n' "$net" "${1#client-}" ;;
    server-*) printf '%s.2.%s\n' "$net" "${1#server-}" ;;
    *) die "there is no host $1: see status" ;;
    esac
}

# wait_for FILE: until it is there.
wait_for() {
    tries=0
    until [ -e "$1" ]; do
        tries=$((tries + 1))
        [ "$tries" -lt 500 ] || die "waited in vain for $1: $(tail -n 3 "$dir/lab.log")"
        sleep 0.02
    done
}

# ---- the processes that are the lab

# The lab's and each host's first process: tells its number, by the /proc of out there, and its
# namespace, and takes in orphans.
be_init() {
    ip link set lo up
    printf '%s %s\n' "$outside" "$(readlink /proc/self/ns/pid)" >"$1.new"
    mv "$1.new" "$1"
    while :; do
        sleep 1000 &
        wait $! || :
    done
}

# The lab: a switch without hosts, and the hosts as processes of it.
be_lab() {
    ip link add name lab type bridge forward_delay 0
    ip link set lab up
    nft add table bridge lab
    while read -r name; do
        unshare --pid --net --uts --ipc --mount --kill-child=KILL sh "$self" _host "$name" --dir "$dir" &
    done <"$dir/names"
    read -r outside rest </proc/self/stat
    be_init "$dir/pid"
}

# Control groups of targets whose agents have ended with their hosts: nobody comes after them in their
# process namespaces, to sweep up. What is not empty yet, as somebody is just dying, is tried again.
sweep_groups() {
    tries=0
    sed -n 's/.*\[\([0-9]*\)\]$/-name lockstep-\1-* -o/p' "$dir"/hosts/*.pid 2>/dev/null | tr '\n' ' ' >"$dir/groups"
    while [ "$tries" -lt 100 ]; do
        # shellcheck disable=SC2046 # words
        (set -f && find /sys/fs/cgroup -depth -type d \( $(cat "$dir/groups") -false \)) >"$dir/left" 2>/dev/null || :
        [ -s "$dir/left" ] || return 0
        xargs rmdir <"$dir/left" 2>/dev/null || :
        tries=$((tries + 1))
        sleep 0.05
    done
}

# Out here: while this one and the owner live, the lab does. It ends with either of them, however
# they end: the kernel kills the lab's first process with its parent, and all others with that.
be_keeper() {
    echo $$ >"$dir/keeper"
    setpriv --pdeathsig KILL unshare --pid --net --ipc --mount --kill-child=KILL \
        sh "$self" _lab --dir "$dir" &
    lab=$!
    while kill -0 "$lab" 2>/dev/null && { [ "$1" -eq 0 ] || kill -0 "$1" 2>/dev/null; }; do
        sleep 0.2
    done
    kill -9 "$lab" 2>/dev/null || :
    wait "$lab" 2>/dev/null || :
    sweep_groups
}

# ---- commands

up() {
    clients=4
    servers=2
    owner=$PPID
    while [ $# -gt 0 ]; do
        case $1 in
        --clients) clients=$2 ;;
        --servers) servers=$2 ;;
        --owner) owner=$2 ;;
        *) usage ;;
        esac
        shift 2
    done
    for count in "$clients" "$servers"; do
        case $count in
        '' | *[!0-9]* | ????*) die 'up to 250 clients and servers each' ;;
        esac
        [ "$count" -le 250 ] || die 'up to 250 clients and servers each'
    done
    [ "$(id -u)" -eq 0 ] || die 'namespaces are for root to make'
    for command in ip nft unshare nsenter setpriv; do
        command -v "$command" >/dev/null || die "$command is not installed: sh deploy/install.sh test"
    done
    if [ -e "$dir/pid" ]; then
        ! first_of "$dir/pid" >/dev/null || die "there is a lab in $dir already: down removes it"
        rm -rf "$dir"
    fi
    mkdir -p "$dir" || die "$dir cannot be made"
    [ -z "$(ls -A "$dir")" ] || die "$dir is not empty, and no lab"
    chmod 700 "$dir"
    mkdir "$dir/hosts" "$dir/log" "$dir/tmp"
    {
        echo coordinator
        i=0
        while [ "$i" -lt "$clients" ]; do i=$((i + 1)) && echo "client-$i"; done
        i=0
        while [ "$i" -lt "$servers" ]; do i=$((i + 1)) && echo "server-$i"; done
    } >"$dir/names"
    : >"$dir/cuts"
    : >"$dir/keeper"
    setsid sh "$self" _keep "$owner" --dir "$dir" </dev/null >"$dir/lab.log" 2>&1 &
    wait_for "$dir/pid"
    lab=$(lab_pid)
    hosts | while read -r name; do
        wait_for "$dir/hosts/$name.pid"
        mkdir "$dir/tmp/$name"
        plug_in "$name" "$(host_pid "$name")"
    done
}

# A cable from a host to the switch.
plug_in() {
    nsenter --target "$lab" --net sh -e -c '
        ip link add "p-$1" type veth peer name eth0 netns "$2"
        ip link set "p-$1" master lab up' sh "$1" "$2"
    nsenter --target "$2" --net sh -e -c '
        ip address add "$1/16" dev eth0
        ip link set eth0 up' sh "$(address "$1")"
}

# on HOST COMMAND...: there, in this working directory.
on() {
    name=$1
    target=$(host_pid "$name")
    shift
    exec nsenter --target "$target" --net --uts --ipc --mount --pid \
        sh -c 'cd "$1" && shift && exec "$@"' sh "$PWD" env "TMPDIR=$dir/tmp/$name" "$@"
}

# Puts the cuts into force, all at once.
apply_cuts() {
    {
        echo 'delete table bridge lab'
        echo 'table bridge lab {'
        echo 'chain forward { type filter hook forward priority 0;'
        while read -r mode a b; do
            case $mode in
            both)
                printf 'iifname "p-%s" oifname "%s" drop\n' "$a" "${b:+p-}${b:-*}"
                printf 'iifname "%s" oifname "p-%s" drop\n' "${b:+p-}${b:-*}" "$a"
                ;;
            one-way) printf 'iifname "p-%s" oifname "%s" drop\n' "$a" "${b:+p-}${b:-*}" ;;
            esac
        done <"$dir/cuts" | sed 's/oifname "\*" //; s/iifname "\*" //'
        echo '}'
        echo '}'
    } >"$dir/nft"
    nsenter --target "$(lab_pid)" --net nft -f "$dir/nft"
    hosts | while read -r name; do
        if grep -q "^reject .* $name\$" "$dir/cuts" || [ -e "$dir/nft.$name" ]; then refuse_at "$name"; fi
    done
}

# A bridge cannot refuse, with many kernels: the host that is called does.
refuse_at() {
    {
        echo 'table inet lab { chain input { }; }'
        echo 'delete table inet lab'
        echo 'table inet lab {'
        echo 'chain input { type filter hook input priority 0;'
        while read -r mode a b; do
            [ "$mode $b" != "reject $1" ] ||
                printf 'ip saddr %s ip protocol tcp reject with tcp reset\n' "$(address "$a")"
        done <"$dir/cuts"
        echo '}'
        echo '}'
    } >"$dir/nft.$1"
    nsenter --target "$(host_pid "$1")" --net nft -f "$dir/nft.$1"
}

cut_link() {
    mode=both
    case $1 in
    --one-way | --reject)
        mode=${1#--}
        shift
        ;;
    esac
    [ $# -eq 2 ] || { [ $# -eq 1 ] && [ "$mode" != reject ]; } || usage
    for name in "$@"; do host_pid "$name" >/dev/null; done
    printf '%s %s %s\n' "$mode" "$1" "${2:-}" >>"$dir/cuts"
    apply_cuts
}

heal() {
    case $# in
    0) : >"$dir/cuts" ;;
    1) sed -i "/ $1 /d; / $1\$/d" "$dir/cuts" ;;
    2) sed -i "/ $1 $2\$/d; / $2 $1\$/d" "$dir/cuts" ;;
    *) usage ;;
    esac
    apply_cuts
}

# all HOST SIGNAL: to every process of it but the first.
all() {
    first=$(host_pid "$1") || return 0
    nsenter --target "$first" --pid --mount sh -c 'kill -s "$1" -- -1' sh "$2" 2>/dev/null || :
}

# spaces KIND: "PID NAMESPACE" of every process.
spaces() {
    find /proc -maxdepth 3 -path "/proc/[0-9]*/ns/$1" -printf '%h %l\n' 2>/dev/null |
        sed 's|^/proc/||; s|/ns | |' || :
}

# signal_carriers HOST SIGNAL: to the nsenter processes out here that wait for one in there. They stop
# with it, but nobody else tells them to go on.
signal_carriers() {
    first=$(host_pid "$1")
    { spaces net && spaces pid; } |
        awk -v "net=$(readlink "/proc/$first/ns/net")" -v "pid=$(readlink "/proc/$first/ns/pid")" '
            $2 == net { in_net[$1] }
            $2 == pid { in_pid[$1] }
            END { for (p in in_net) if (!(p in in_pid)) print p }' |
        while read -r carrier; do
            case $(cat "/proc/$carrier/comm" 2>/dev/null) in
            nsenter) kill -s "$2" "$carrier" 2>/dev/null || : ;;
            esac
        done
}

thaw() {
    all "$1" CONT
    signal_carriers "$1" CONT
}

# What a host sends goes at RATE (tc's: 256kbit) and no faster; what does not fit waits, for up to 5 s.
slow() {
    [ $# -eq 2 ] || usage
    nsenter --target "$(host_pid "$1")" --net tc qdisc delete dev eth0 root 2>/dev/null || :
    [ "$2" = off ] ||
        nsenter --target "$(host_pid "$1")" --net tc qdisc add dev eth0 root tbf rate "$2" burst 4kb latency 5s ||
        die 'this kernel cannot slow down a link (tbf)'
}

# As if the power had failed.
crash() {
    first=$(host_pid "$1")
    nsenter --target "$(lab_pid)" --net ip link delete "p-$1" # or its kernel would still refuse
    signal_carriers "$1" KILL
    kill -9 "$first"
}

# Every process of a host but what keeps it: its number out here, and its command line.
processes() {
    first=$(host_pid "$1")
    spaces pid | awk -v "mine=$(readlink "/proc/$first/ns/pid")" '$2 == mine { print $1 }' |
        while read -r pid; do
            line=$(tr '\0' ' ' <"/proc/$pid/cmdline") 2>/dev/null || continue
            case $line in
            '' | 'sleep 1000 ') ;; # a zombie; what the first process waits for
            *) [ "$pid" = "$first" ] || printf '%s %s\n' "$pid" "$line" ;;
            esac
        done
}

status() {
    lab_pid >/dev/null
    hosts | while read -r name; do
        state=up
        (host_pid "$name") >/dev/null 2>&1 || state=down
        printf '%-12s %-11s %s\n' "$name" "$(address "$name")" "$state"
        [ "$state" = down ] || (processes "$name") | sed 's/^/    /'
    done
    sed 's/^/cut: /' "$dir/cuts"
}

down() {
    [ -e "$dir/names" ] || return 0
    if lab=$(lab_pid 2>/dev/null); then
        kill -9 "$lab"
        while [ -e "/proc/$lab/ns/net" ]; do sleep 0.02; done
    fi
    if [ -s "$dir/keeper" ]; then
        read -r keeper <"$dir/keeper"
        while kill -0 "$keeper" 2>/dev/null; do sleep 0.02; done # it has noticed, and is tidy
    fi
    rm -rf "$dir"
}

# ---- agents and runs

programs() {
    for folder in "${LS_BUILD:-}" "$root/build/release" "$root/build/dev" "$root/out"; do
        [ -x "$folder/coordinator/lockstep" ] || continue
        lockstep=$folder/coordinator/lockstep
        agent=$folder/agent/lockstep-agent
        return
    done
    command -v lockstep-agent >/dev/null || die 'lockstep is not built: sh deploy/build.sh release'
    lockstep=lockstep
    agent='lockstep-agent'
}

make_keys() {
    [ ! -d "$dir/keys" ] || return 0
    mkdir "$dir/keys.new"
    {
        "$lockstep" pki init "$dir/pki" --name lab &&
            "$lockstep" pki issue coordinator coordinator --pki "$dir/pki" \
                --host "$(address coordinator)" --out "$dir/keys.new/coordinator"
    } >"$dir/log/pki.log" 2>&1 || die "no keys: $(cat "$dir/log/pki.log")"
    hosts | while read -r name; do
        [ "$name" = coordinator ] ||
            "$lockstep" pki issue agent "$name" --pki "$dir/pki" --out "$dir/keys.new/$name" \
                >>"$dir/log/pki.log" 2>&1 || die "no keys: $(cat "$dir/log/pki.log")"
    done
    mv "$dir/keys.new" "$dir/keys"
}

# Hosts of a lab are there for whatever a plan says. A file of this name that is there already counts.
make_policy() {
    [ -e "$dir/policy.yaml" ] || cat >"$dir/policy.yaml" <<POLICY
programs:
  - {name: any, path: /**, arguments: ["..."], version: ["..."], environment: ["**"], user: root}
load: {targets: [$net.0.0/16, loopback]}
POLICY
}

# agents_start [OPTION...]: one on each host but the coordinator's; they stay from run to run.
agents_start() {
    programs
    make_keys
    make_policy
    : >"$dir/agents"
    hosts | while read -r name; do
        [ "$name" != coordinator ] || continue
        role=${name%%-*}
        (on "$name" "$agent" --dial "tls+tcp://$(address coordinator):$port" --name "$name" \
            --role "$role" --keys "$dir/keys/$name" --policy "$dir/policy.yaml" \
            "$@" </dev/null >>"$dir/log/$name.log" 2>&1) &
    done
}

agents_stop() {
    rm -f "$dir/agents"
    hosts | while read -r name; do
        [ "$name" = coordinator ] || (all "$name" TERM)
    done
    # Who comes next finds its folder of keys free.
    for keys in "$dir"/keys/*/; do
        flock --wait 10 "$keys" true 2>/dev/null || :
    done
}

run() {
    [ $# -ge 1 ] || usage
    programs
    stay=yes
    code=0
    [ -e "$dir/agents" ] || {
        stay=no
        agents_start
    }
    (on coordinator "$lockstep" run "$@" --listen "tls+tcp://$(address coordinator):$port" \
        --keys "$dir/keys/coordinator") || code=$?
    [ "$stay" = yes ] || agents_stop
    return "$code"
}

[ $# -ge 1 ] || usage
command=$1
shift
if [ "${1:-}" = --dir ]; then
    [ $# -ge 2 ] || usage
    dir=$2
    shift 2
fi
case $dir in /*) ;; *) dir=$PWD/$dir ;; esac
case $command in
up | run | down | status | heal | processes | address | slow) "$command" "$@" ;;
exec)
    [ $# -ge 2 ] || usage
    on "$@"
    ;;
cut) cut_link "$@" ;;
freeze) all "$1" STOP ;;
thaw | crash) "$command" "$1" ;;
agents)
    case ${1:-} in
    start)
        shift
        agents_start "$@"
        ;;
    stop) agents_stop ;;
    *) usage ;;
    esac
    ;;
_keep)
    dir=$3
    be_keeper "$1"
    ;;
_lab) be_lab ;;
_host)
    dir=$3
    hostname "$1"
    read -r outside rest </proc/self/stat
    mount -t proc proc /proc
    be_init "$dir/hosts/$1.pid"
    ;;
*) usage ;;
esac
