#!/bin/sh
# What the figures were taken on and with, as "key value" lines: machine.sh SETTINGS
set -eu

# shellcheck disable=SC1090 # what run.sh has written
. "$1"
fact() {
    printf '%s %s\n' "$1" "$2"
}

fact date "$(date -u +%Y-%m-%dT%H:%MZ)"
fact commit "$(git -C "$root" describe --always --dirty 2>/dev/null || echo unknown)"
fact cpu "$(sed -n 's/^model name[^:]*: *//p' /proc/cpuinfo | head -n 1), $(getconf _NPROCESSORS_ONLN) CPUs"
fact kernel "$(uname -r)"
fact cpus "server $server_cpu, client $client_cpu"
fact namespace "$namespace"
fact load_before "$(cut -d' ' -f1 "$work/loadavg" 2>/dev/null || echo unknown)"
fact stolen_pct "$(cat "$work/stolen" 2>/dev/null || echo unknown)"
fact pairs "$pairs"
fact seconds "$seconds"
[ "$server_cpu" != "$client_cpu" ] || fact note "server and clients share a CPU: no ratio means much"

# Debian's version where the tool is Debian's, because not every tool says its own.
for tool in wrk h2load hey nginx openssl; do
    path=$(command -v "$tool") || continue
    package=$(dpkg-query -S "$(realpath "$path")" 2>/dev/null | cut -d: -f1 | head -n 1)
    fact "$tool" "$(dpkg-query -W -f '${Version}' "$package" 2>/dev/null || echo unknown)"
done
[ ! -x "$autocannon" ] || fact autocannon "$(sed -n 's/.*"autocannon": "\([0-9.]*\)".*/\1/p' "$here/npm/package.json")"
