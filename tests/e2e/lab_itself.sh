#!/bin/sh
# The lab: links that are cut lose what they should and nothing else, several labs do not know each
# other, a host that fails or stands still does so at once, and when the owner is killed nothing is left.
# shellcheck disable=SC2016 # JavaScript, and scripts for other shells
. "$(dirname -- "$0")/lib.sh"
. "$(dirname -- "$0")/lab_lib.sh"

links=$(ip -brief link | sort)
lab up --clients 2 --servers 1 --owner $$
lab exec server-1 "$agent" respond --listen 10.111.2.1:80 >respond.log 2>&1 &
wait_until 60 grep -q listening respond.log

# reach HOST: "yes", "refused" or "no".
reach() {
    lab exec "$1" node -e '
        const socket = require("net").connect(80, "10.111.2.1");
        const end = (word) => { console.log(word); process.exit(0); };
        socket.setTimeout(700, () => end("no"));
        socket.on("error", (error) => end(error.code === "ECONNREFUSED" ? "refused" : "no"));
        socket.on("data", () => end("yes"));
        socket.write("GET / HTTP/1.1\r\nHost: x\r\n\r\n");'
}
reached() {
    same "after: $last" "$1 $2" "$(reach client-1) $(reach client-2)"
}
does() {
    last=$*
    lab "$@"
}
last='nothing'
reached yes yes
does cut client-1 server-1
reached no yes
does heal server-1 client-1
reached yes yes
does cut client-1
same 'others' yes "$(reach client-2)"
does heal client-1
does cut --one-way server-1 client-2
reached yes no
does cut --reject client-1 server-1
reached refused no
says lab/cuts 'one-way server-1 client-2'
does heal
reached yes yes
does freeze server-1
reached no no
does thaw server-1
reached yes yes
same 'name' client-2 "$(lab exec client-2 hostname)"
same 'way out' '' "$(lab exec client-2 ip route show default)"
does crash server-1
reached no no
lab status >status.txt
says status.txt 'server-1     10.111.2.1  down'

# A number that another process has by now is no host, and no lab: here it is one of this machine's.
mkdir -p stale/hosts
echo server-1 >stale/names
for space in '' 'pid:[1]'; do
    echo "$$ $space" >stale/pid
    echo "$$ $space" >stale/hosts/server-1.pid
    if LOCKSTEP_LAB=$LS_TMP/stale sh "$LS_SOURCE/deploy/lab/lab.sh" exec server-1 true 2>stale.err; then
        fail 'a command ran outside of any host'
    fi
    says stale.err 'host server-1 is down'
done

# Another one, whose owner is killed.
cat >owner.sh <<OWNER
LOCKSTEP_LAB=$LS_TMP/other sh "$LS_SOURCE/deploy/lab/lab.sh" up --clients 1 --servers 1 --owner \$\$
LOCKSTEP_LAB=$LS_TMP/other sh "$LS_SOURCE/deploy/lab/lab.sh" exec client-1 sleep 999 &
wait
OWNER
start owner sh owner.sh
wait_until 60 sh -c 'LOCKSTEP_LAB=$1/other sh "$2/deploy/lab/lab.sh" processes client-1 | grep -q "sleep 999"' sh "$LS_TMP" "$LS_SOURCE"
wait_until 60 test -s other/keeper
read -r first rest <other/pid
kill -9 "$(cat owner.pid)"
wait_until 60 sh -c '[ ! -e "/proc/$1/ns/net" ]' sh "$first"
same 'the first lab' client-1 "$(lab exec client-1 hostname)"
lab down
lab down # there is none: fine
same 'links of this machine' "$links" "$(ip -brief link | sort)"
wait_until 60 nothing_is_left
nothing_left
