#!/bin/sh
# Keys are renewed and revoked while an agent runs: it is not started again, and what it and its
# coordinator have on disk is what counts for their next connection.
. "$(dirname -- "$0")/lib.sh"
need node
mkdir tmp
TMPDIR=$LS_TMP/tmp
export TMPDIR
url=tls+tcp://127.0.0.1:$(free_port)

# Whether c1 comes, and is the only one: "comes STATUS SECONDS".
comes() {
    expect "$1" "$lockstep" agents --listen "$url" --keys pki/issued/coordinator-main --expect 1 \
        --wait "$2s" --json
}

# The serial number of the certificate that the agent has: the newest one of it.
serial() {
    "$lockstep" pki show --json >shown
    json shown 'r.issued.filter((c) => c.uri === "lockstep:agent/c1").pop().serial'
}

expect 0 "$lockstep" pki init
expect 0 "$lockstep" pki issue coordinator main --host 127.0.0.1
expect 0 "$lockstep" pki issue agent c1 --out keys
start c1 "$agent" --dial "$url" --role client --keys keys
c1=$pid
comes 0 60
first=$(serial)

# The new certificate is in use: the old one may be revoked.
expect 0 "$lockstep" pki issue agent c1 --out keys --renew
expect 0 "$lockstep" pki revoke "$first"
comes 0 60
expect 0 "$lockstep" pki issue coordinator main --renew
comes 0 60

# Nobody with a revoked certificate comes, and both sides say why.
expect 0 "$lockstep" pki revoke "$(serial)"
comes 3 6
says err 'certificate revoked: it says it is lockstep:agent/c1'
wait_until 30 grep -q 'the other side refuses: certificate revoked' c1.log

# Another chance, for the same process.
expect 0 "$lockstep" pki issue agent c1 --out keys --renew
comes 0 60

# A coordinator whose certificate is revoked is no coordinator any more, whatever it says itself.
cp -r pki/issued/coordinator-main before
expect 0 "$lockstep" pki revoke coordinator/main
cp pki/crl.pem keys/
expect 3 "$lockstep" agents --listen "$url" --keys before --expect 1 --wait 6s
wait_until 30 grep -q 'certificate revoked: it says it is lockstep:coordinator/main' c1.log

kill -0 "$c1" || fail 'the agent did not live through it'
kill -TERM "$c1"
wait "$c1" || :
nothing_left
