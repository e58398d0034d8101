#!/bin/sh
# Folders of keys, as deploy/container/keys.sh makes them, as Secrets for kubectl apply -f -.
#
#   sh deploy/kubernetes/secrets.sh [KEYS] [NAMESPACE]
set -eu

dir=${1:-keys}
namespace=${2:-lockstep}

# secret NAME FOLDER
secret() {
    printf 'apiVersion: v1\nkind: Secret\nmetadata: {name: lockstep-%s, namespace: %s}\ntype: Opaque\ndata:\n' "$1" "$namespace"
    for file in ca.pem cert.pem key.pem crl.pem; do
        printf '  %s: %s\n' "$file" "$(base64 <"$2/$file" | tr -d '\n')"
    done
    echo ---
}
secret coordinator "$dir/coordinator"
secret server-0 "$dir/server"
i=0
for folder in "$dir"/clients/*; do
    secret "client-$i" "$folder"
    i=$((i + 1))
done
