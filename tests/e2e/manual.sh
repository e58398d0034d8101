#!/bin/sh
# What is installed beside the programs agrees with them: the manual pages name each command and each option
# of the agent, and groff finds nothing wrong with them; completion offers what --help lists; systemd knows
# what the units say, and finds them confined.
. "$(dirname -- "$0")/lib.sh"
need bash

package=$LS_SOURCE/deploy/package
"$lockstep" --help | sed -n 's/^  \([a-z]\{1,\}\) .*/\1/p' >commands
"$agent" --help | sed -n 's/^ *\(-[a-z], *\)\{0,1\}--\([a-z-]*\).*/\2/p' >options
if [ "$(wc -l <commands)" -lt 8 ] || [ "$(wc -l <options)" -lt 12 ]; then fail 'the lists of --help cannot be read'; fi
while read -r word; do
    grep -q "^\.It Cm .*\<$word\>" "$package/lockstep.1" || fail "lockstep.1 does not describe: $word"
done <commands
while read -r word; do
    grep -q "^\.It .*Fl Fl $word\>" "$package/lockstep-agent.1" || fail "lockstep-agent.1 does not describe: --$word"
done <options
# And nothing that is no more.
sed -n 's/^\.It .*Fl Fl \([a-z-]*\).*/\1/p' "$package/lockstep-agent.1" | while read -r word; do
    grep -qx -- "$word" options || fail "lockstep-agent.1 describes --$word, which there is not"
done
if command -v man >/dev/null; then
    for page in lockstep lockstep-agent; do
        LC_ALL=C.UTF-8 MANWIDTH=80 man --warnings -E UTF-8 -l -Tutf8 "$package/$page.1" >"$page.txt" 2>warnings ||
            fail "$page.1 cannot be shown: $(cat warnings)"
        [ ! -s warnings ] || fail "$page.1: $(cat warnings)"
        [ -s "$page.txt" ] || fail "$page.1 is empty"
    done
fi

# offers TEXT WORD...: at the last of the words, that is among what is offered.
PATH=$LS_BUILD/coordinator:$LS_BUILD/agent:$PATH
offers() {
    text=$1
    shift
    # shellcheck disable=SC2016 # for another shell
    bash -c '
        . "$1"; shift
        COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1))
        _lockstep "$1" "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}"
        printf "%s\n" "${COMPREPLY[@]}"' bash "$package/lockstep.bash" "$@" >offered 2>&1
    grep -qx -- "$text" offered || fail "'$*' does not offer '$text' but: $(cat offered)"
}
# all_in FILE PREFIX: what is offered now are all of these.
all_in() {
    while read -r word; do
        grep -qx -- "$2$word" offered || fail "$2$word is not offered"
    done <"$1"
}
offers run lockstep ''
all_in commands ''
offers --dial lockstep-agent --
all_in options --
offers --resume lockstep run plan.yaml --re
offers --json lockstep run --js
offers issue lockstep pki is
offers --renew lockstep pki issue agent x --re
offers server lockstep-agent --role s
offers --listen lockstep-agent respond --li
touch plan-here.yaml
offers plan-here.yaml lockstep run plan-h

if command -v systemd-analyze >/dev/null; then
    for role in client server; do
        sed "s|^ExecStart=/usr/bin/lockstep-agent|ExecStart=$agent|" "$package/lockstep-agent-$role.service" \
            >"lockstep-agent-$role.service"
        systemd-analyze verify --man=no "$PWD/lockstep-agent-$role.service" >verified 2>&1 ||
            fail "the $role's unit: $(cat verified)"
        [ ! -s verified ] || fail "the $role's unit: $(cat verified)"
    done
    # Tenths of systemd's measure of exposure, 0 to 100.
    for unit in client:20 server:45; do
        systemd-analyze security --offline=true --no-pager --threshold="${unit#*:}" \
            "$PWD/lockstep-agent-${unit%:*}.service" >exposed 2>&1 || fail "the ${unit%:*}'s unit: $(tail -n 1 exposed)"
    done
fi

# The libraries, with the versions of both, by both programs.
expect 0 "$lockstep" --version --verbose
says out 'runs with'
says out OpenSSL
says out libarchive
says out SQLite
expect 0 "$agent" --version --verbose
says out nghttp2

# The bill of materials is one of what the programs load.
if command -v dpkg-query >/dev/null && command -v node >/dev/null; then
    sh "$package/sbom.sh" 1.2.3 "$lockstep" "$agent" >sbom.json || fail 'no bill of materials'
    holds sbom.json 'r.spdxVersion === "SPDX-2.3" && r.files.length === 2 &&
        r.files.every((f) => /^[0-9a-f]{64}$/.test(f.checksums[0].checksumValue)) &&
        ["lockstep", "libnng1", "libc6"].every((n) => r.packages.some((p) => p.name === n && p.versionInfo)) &&
        r.relationships.every((q) => [...r.packages, ...r.files, r].some((p) => p.SPDXID === q.relatedSpdxElement ||
            q.relatedSpdxElement === "SPDXRef-lockstep"))'
    same 'the hash of lockstep' "$(sha256sum "$lockstep" | cut -d ' ' -f 1)" \
        "$(json sbom.json 'r.files[0].checksums[0].checksumValue')"
fi
