#!/bin/sh
# lockstep pki from the command line: keys are made, shown, renewed and revoked; OpenSSL's own tools
# agree with what they are; and an agent without sound keys says what to do and ends with 5.
. "$(dirname -- "$0")/lib.sh"
need node openssl

# ---- making

umask 000
expect 0 "$lockstep" pki init
says out 'lockstep pki issue coordinator'
expect 2 "$lockstep" pki init
says err 'pki is there already and not empty: nothing was changed'
expect 2 "$lockstep" pki issue coordinator main
says err 'a coordinator needs --host NAME_OR_ADDRESS'
expect 0 "$lockstep" pki issue coordinator main --host 127.0.0.1 --host lab.example.test
says out '--keys pki/issued/coordinator-main'
expect 0 "$lockstep" pki issue agent client-1 --out keys
says out 'lockstep-agent --dial tls+tcp://HOST:PORT --name client-1'
expect 2 "$lockstep" pki issue agent client-1
says err 'has a certificate until'
for word in 'issue' 'issue agent' 'issue king x' 'issue agent ../x' 'isue' 'revoke' 'revoke nobody' \
    'show /nowhere' 'issue agent a --pki /nowhere' 'issue agent a --days 0' 'init x --days 4000'; do
    # shellcheck disable=SC2086 # words
    expect 2 "$lockstep" pki $word --json
    [ "$(json out r.exit_status)" = 2 ] || fail "$word: --json has another exit status"
done
[ "$(stat -c %a pki keys pki/ca-key.pem keys/key.pem | tr '\n' ' ')" = '700 700 600 600 ' ] ||
    fail 'private things are not private'

# ---- what others say of it

openssl verify -x509_strict -purpose sslclient -CAfile pki/ca.pem -crl_check -CRLfile keys/crl.pem \
    keys/cert.pem >out 2>err || fail 'openssl does not take the certificate of an agent'
openssl verify -x509_strict -purpose sslserver -verify_hostname lab.example.test -CAfile pki/ca.pem \
    pki/issued/coordinator-main/cert.pem >out 2>err || fail 'openssl does not take the coordinator'
openssl verify -purpose sslserver -CAfile pki/ca.pem keys/cert.pem >out 2>&1 &&
    fail 'an agent could be a server'
openssl x509 -in keys/cert.pem -noout -ext subjectAltName >out
says out 'URI:lockstep:agent/client-1'

# ---- showing, renewing, revoking

expect 0 "$lockstep" pki show
says out 'lockstep:coordinator/main'
says out 'hosts 127.0.0.1,lab.example.test'
expect 0 "$lockstep" pki show keys
says out 'the folder is in order'
expect 0 "$lockstep" pki show --json
[ "$(json out 'r.issued.map((c) => c.uri).join()')" = \
    lockstep:coordinator/main,lockstep:agent/client-1 ] || fail 'the record is not complete'
before=$(openssl x509 -in keys/cert.pem -noout -fingerprint -sha256)
expect 0 "$lockstep" pki issue agent client-1 --out keys --renew --json
[ "$(json out r.uri)" = lockstep:agent/client-1 ] || fail 'what was issued is not what was asked'
[ "$(openssl x509 -in keys/cert.pem -noout -fingerprint -sha256)" != "$before" ] ||
    fail 'nothing was renewed'
expect 0 "$lockstep" pki revoke client-1
says out '2 certificates revoked'
openssl crl -in pki/crl.pem -CAfile pki/ca.pem -noout >out 2>&1
says out 'verify OK'
cp pki/crl.pem keys/
expect 0 "$lockstep" pki show keys
says out 'certificate revoked'

# ---- agents without keys, and with those that are of no use

expect 5 "$agent" --dial tcp://192.0.2.1:7000 --name client-1 --role client
says err 'use tls+tcp://192.0.2.1:7000 and --keys DIR'
expect 5 "$agent" --dial tls+tcp://192.0.2.1:7000 --name client-1 --role client
says err '--keys DIR'
expect 5 "$agent" --dial tls+tcp://192.0.2.1:7000 --name client-1 --role client --keys keys
says err 'certificate revoked'
expect 5 "$agent" --dial tls+tcp://192.0.2.1:7000 --name client-1 --role client --keys nowhere
says err 'lockstep pki issue'
expect 0 "$lockstep" pki issue agent client-2 --out two
expect 5 "$agent" --dial tls+tcp://192.0.2.1:7000 --name client-1 --role client --keys two
says err 'those of lockstep:agent/client-2'
chmod 640 two/key.pem
expect 5 "$agent" --dial tls+tcp://192.0.2.1:7000 --name client-2 --role client --keys two
says err 'chmod 600'
expect 5 "$agent" --dial tls+tcp://192.0.2.1:7000 --name main --role client \
    --keys pki/issued/coordinator-main
says err 'and this is an agent'
