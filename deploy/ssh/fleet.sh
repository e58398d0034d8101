#!/bin/sh
# What "lockstep up" and "lockstep down" do on the hosts of a fleet, over ssh.
#
#   sh fleet.sh up FLEET URL WAIT_S SSH POLICY ROLE=HOST[,ROLE=HOST...]...
#   sh fleet.sh down FLEET
#
# FLEET/ has pki/ (the authority and what it issued), agents (role, name, host), ssh (the command). On a
# host, all is below .lockstep-fleet/NAME of the user's home: program, keys, policy, log, number of the
# process. LOCKSTEP and LOCKSTEP_AGENT are the programs of this host.
# shellcheck disable=SC2016 # scripts for other hosts
set -eu

say() {
    printf 'lockstep: %s\n' "$*" >&2
}

die() {
    status=$1
    shift
    say "$*"
    exit "$status"
}

# On a host; $1 is the name of an agent there.
start='
set -eu
dir=$HOME/.lockstep-fleet/$1
if [ -e "$dir/pid" ] && read -r pid <"$dir/pid" && [ "$(readlink "/proc/$pid/exe")" = "$dir/lockstep-agent" ]; then
    echo "agent $1 runs here already, as process $pid: lockstep down ends it" >&2
    exit 75
fi
gone() {
    cd /
    rm -rf "$dir"
    rmdir "$HOME/.lockstep-fleet" 2>/dev/null || :
}
rm -rf "$dir"
mkdir -p "$dir"
chmod 700 "$HOME/.lockstep-fleet" "$dir"
umask 077
cd "$dir"
tar -xf -
sed -i "s/LOCKSTEP_USER/$(id -un)/" policy.yaml
missing=$(ldd ./lockstep-agent 2>&1 | grep "not found" || :)
if [ -n "$missing" ] || ! ./lockstep-agent --version >version 2>&1; then
    echo "the program does not run here: ${missing:-$(head -n 3 version)}; install the package of lockstep, or its libraries" >&2
    gone
    exit 76
fi
setsid nohup "$dir/lockstep-agent" --dial "$2" --role "$3" --name "$1" --keys "$dir/keys" \
    --policy "$dir/policy.yaml" </dev/null >log 2>&1 &
echo $! >pid
sleep 0.3
kill -0 $! 2>/dev/null || { cat log >&2; gone; exit 77; }
'
stop='
set -eu
dir=$HOME/.lockstep-fleet/$1
[ -d "$dir" ] || exit 0
ours() { [ "$(readlink "/proc/$pid/exe" 2>/dev/null)" = "$dir/lockstep-agent" ]; }
if [ -e "$dir/pid" ] && read -r pid <"$dir/pid"; then
    tries=0
    ! ours || kill -TERM "$pid"
    while ours; do
        tries=$((tries + 1))
        [ "$tries" -ne 150 ] || kill -KILL "$pid"
        sleep 0.1
    done
fi
rm -rf "$dir"
rmdir "$HOME/.lockstep-fleet" 2>/dev/null || :
'

# on HOST SCRIPT WORD...: the script there, words and all as one line of a shell that nobody can know.
on() {
    host=$1
    script=$2
    shift 2
    line="sh -c $(quoted "$script") sh"
    for word in "$@"; do line="$line $(quoted "$word")"; done
    # shellcheck disable=SC2086 # ssh's own words
    $ssh "$host" "$line"
}

quoted() {
    printf "'%s'" "$(printf '%s\n' "$1" | sed "s/'/'\\\\''/g")"
}

# Of tls+tcp://ADDRESS:PORT, with or without brackets.
address_of() {
    printf '%s\n' "$1" | sed -n 's|^tls+tcp://\[\(.*\)\]:[0-9]*$|\1|p; s|^tls+tcp://\([^]:[]*\):[0-9]*$|\1|p'
}

make_authority() {
    [ ! -d "$fleet/pki" ] || return 0
    mkdir -p "$fleet"
    chmod 700 "$fleet"
    {
        "$LOCKSTEP" pki init "$fleet/pki" --name fleet &&
            "$LOCKSTEP" pki issue coordinator main --pki "$fleet/pki" --host "$1"
    } >"$fleet/pki.log" 2>&1 || die 5 "no keys: $(cat "$fleet/pki.log")"
}

make_policy() {
    if [ -n "$1" ]; then
        cp "$1" "$fleet/policy.yaml"
    else
        # Who logs in there may run whatever that user may run; the agent is no way to more than that.
        cat >"$fleet/policy.yaml" <<'POLICY'
programs:
  - {name: any, path: /**, arguments: ["..."], version: ["..."], environment: ["**"], user: LOCKSTEP_USER}
load: {targets: [servers, loopback]}
POLICY
    fi
}

# start_one ROLE HOST URL
start_one() {
    name=$(printf '%s-%s' "${2##*@}" "$1" | tr -c 'A-Za-z0-9._-' '-')
    if grep -q "^[^ ]* $name " "$fleet/agents" 2>/dev/null; then
        die 2 "up: $1=$2 is in this fleet already: lockstep down --fleet $fleet"
    fi
    on "$2" 'for tool in tar ldd setsid sed; do command -v "$tool" >/dev/null || { echo "there is no $tool" >&2; exit 78; }; done' \
        </dev/null >"$fleet/host.log" 2>&1 || fail_up "$2 cannot be used over ssh: $(tail -n 1 "$fleet/host.log")"
    "$LOCKSTEP" pki issue agent "$name" --pki "$fleet/pki" --renew --out "$fleet/send/keys" \
        >"$fleet/pki.log" 2>&1 || die 5 "no keys for $name: $(cat "$fleet/pki.log")"
    cp "$LOCKSTEP_AGENT" "$fleet/send/lockstep-agent"
    cp "$fleet/policy.yaml" "$fleet/send/"
    printf '%s %s %s\n' "$1" "$name" "$2" >>"$fleet/agents" # first: whatever comes, down knows of it
    status=0
    tar -C "$fleet/send" -cf - . | on "$2" "$start" "$name" "$3" "$1" >"$fleet/host.log" 2>&1 || status=$?
    rm -rf "$fleet/send/keys"
    case $status in
    0) say "$name is started on $2" ;;
    255) fail_up "the connection to $2 broke: $(tail -n 1 "$fleet/host.log")" ;;
    *)
        sed -i '$d' "$fleet/agents" # it has tidied up, or what runs there is somebody else's
        fail_up "$2: $(tail -n 3 "$fleet/host.log")"
        ;;
    esac
}

# What was started for this call is taken down again, and nothing of before it.
fail_up() {
    say "$1"
    stop_after "$before"
    [ -s "$fleet/agents" ] || forget
    exit 3
}

up() {
    url=$1
    wait_s=$2
    ssh=$3
    policy=$4
    shift 4
    address=$(address_of "$url")
    [ -n "$address" ] || die 2 "up: --listen $url: tls+tcp://ADDRESS:PORT of this host is expected"
    case $address in
    127.* | ::1 | localhost | 0.0.0.0 | ::)
        die 2 "up: --listen $url: other hosts cannot dial $address; write the address at which they reach this host"
        ;;
    esac
    [ -z "$policy" ] || [ -r "$policy" ] || die 2 "up: --policy $policy cannot be read"
    for list in "$@"; do
        for word in $(printf '%s' "$list" | tr ',' ' '); do
            case $word in
            server=?* | client=?*) ;;
            *) die 2 "up: --ssh $word: server=HOST or client=HOST is expected" ;;
            esac
            case ${word#*=} in
            -* | *@-*) die 2 "up: --ssh $word: ssh would take a host that begins with a dash for an option" ;;
            esac
        done
    done
    make_authority "$address"
    make_policy "$policy"
    printf '%s\n' "$ssh" >"$fleet/ssh"
    : >>"$fleet/agents"
    before=$(wc -l <"$fleet/agents")
    rm -rf "$fleet/send"
    mkdir -m 700 "$fleet/send"
    for list in "$@"; do
        for word in $(printf '%s' "$list" | tr ',' ' '); do
            start_one "${word%%=*}" "${word#*=}" "$url"
        done
    done
    rm -rf "$fleet/send"
    # All of them, here, with their clocks: what is wrong is said before there is any load.
    if ! "$LOCKSTEP" agents --listen "$url" --keys "$fleet/pki/issued/coordinator-main" \
        --expect "$(wc -l <"$fleet/agents")" --wait "${wait_s}s"; then
        logs
        fail_up "not all agents have enrolled; all are taken down again"
    fi
    say "lockstep run PLAN --listen $url --keys $fleet/pki/issued/coordinator-main"
}

# What those say that were started.
logs() {
    while read -r role name host; do
        say "$name on $host ($role) says: $(on "$host" 'tail -n 2 "$HOME/.lockstep-fleet/$1/log"' "$name" </dev/null 2>&1)"
    done <"$fleet/agents"
}

# stop_after COUNT: all but the first COUNT of the list. Those that may still be there stay in it.
stop_after() {
    head -n "$1" "$fleet/agents" >"$fleet/left"
    tail -n "+$(($1 + 1))" "$fleet/agents" >"$fleet/stop"
    while read -r role name host; do
        if on "$host" "$stop" "$name" </dev/null >"$fleet/host.log" 2>&1; then
            say "$name on $host is down"
        else
            say "$name ($role) on $host may still be there: $(tail -n 1 "$fleet/host.log")"
            printf '%s %s %s\n' "$role" "$name" "$host" >>"$fleet/left"
        fi
    done <"$fleet/stop"
    rm -f "$fleet/stop"
    mv "$fleet/left" "$fleet/agents"
}

forget() {
    rm -rf "$fleet/agents" "$fleet/send" "$fleet/ssh" "$fleet/host.log" "$fleet/pki.log" "$fleet/policy.yaml"
}

down() {
    [ -e "$fleet/agents" ] || die 2 "down: no fleet in $fleet: --fleet DIR is what 'lockstep up' was given"
    read -r ssh <"$fleet/ssh"
    stop_after 0
    [ ! -s "$fleet/agents" ] || return 3
    forget
}

command=$1
fleet=$2
shift 2
"$command" "$@"
