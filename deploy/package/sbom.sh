#!/bin/sh
# The bill of materials of built programs, as SPDX 2.3 JSON on stdout: the programs with their SHA-256, and
# every Debian package whose shared objects they load, with version and licences as Debian states them.
#
#   sh deploy/package/sbom.sh VERSION PROGRAM...
#
# SOURCE_DATE_EPOCH is its date, so that the same build makes the same file.
set -eu

[ $# -ge 2 ] || {
    sed -n 's/^#   //p' "$0" >&2
    exit 2
}
version=$1
shift
date=$(date -u -d "@${SOURCE_DATE_EPOCH:-$(date +%s)}" +%Y-%m-%dT%H:%M:%SZ)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Licence names of the machine-readable copyright files, quoted as SPDX wants what is not on its list.
licences() {
    sed -n 's/^License: *\([^ ].*\)/\1/p' "/usr/share/doc/$1/copyright" 2>/dev/null | sort -u |
        tr '\n' ';' | sed 's/["\\]//g; s/;$//; s/;/; /g'
}

sha256sum "$@" | while read -r sum file; do
    printf '%s %s\n' "$sum" "$(basename "$file")"
done >"$work/files"
for program in "$@"; do
    ldd "$program" | sed -n 's/.* => \(\/[^ ]*\) .*/\1/p; s/^[[:space:]]*\(\/[^ ]*\) (.*/\1/p'
done | sort -u | while read -r object; do
    # Debian knows a file by the one of its two names (/lib, /usr/lib) under which it was unpacked.
    dpkg-query -S "$object" "$(readlink -f "$object")" "/usr$object" 2>/dev/null | head -n 1
done | sed 's/: .*//' | sort -u >"$work/packages"
# shellcheck disable=SC2046 # names are words
dpkg-query -W -f '${Package} ${Version} ${Architecture} ${source:Package} ${source:Version}\n' \
    $(cat "$work/packages") | while read -r name built architecture source source_version; do
    printf '%s\t%s\t%s\t%s\t%s\t%s\n' "$name" "$built" "$architecture" "$source" "$source_version" "$(licences "$name")"
done >"$work/list"

awk -F '\t' -v version="$version" -v date="$date" -v files="$work/files" '
    function id(text) {
        gsub(/[^A-Za-z0-9.-]/, "-", text)
        return "SPDXRef-" text
    }
    BEGIN {
        name = "lockstep-" version
        while ((getline line < files) > 0) {
            split(line, part, " ")
            sum[++n] = part[1]
            file[n] = part[2]
            all = all part[1]
        }
        printf "{\n  \"spdxVersion\": \"SPDX-2.3\",\n  \"dataLicense\": \"CC0-1.0\",\n"
        printf "  \"SPDXID\": \"SPDXRef-DOCUMENT\",\n  \"name\": \"%s\",\n", name
        printf "  \"documentNamespace\": \"https://spdx.org/spdxdocs/%s-%s\",\n", name, substr(all, 1, 32)
        printf "  \"creationInfo\": {\"created\": \"%s\", \"creators\": [\"Tool: lockstep deploy/package/sbom.sh\"]},\n", date
        printf "  \"files\": ["
        for (i = 1; i <= n; i++)
            printf "%s\n    {\"SPDXID\": \"%s\", \"fileName\": \"./usr/bin/%s\", \"checksums\": [{\"algorithm\": \"SHA256\", \"checksumValue\": \"%s\"}]}", \
                (i > 1 ? "," : ""), id("File-" file[i]), file[i], sum[i]
        printf "\n  ],\n  \"packages\": [\n"
        printf "    {\"SPDXID\": \"SPDXRef-lockstep\", \"name\": \"lockstep\", \"versionInfo\": \"%s\", \"downloadLocation\": \"NOASSERTION\", \"filesAnalyzed\": false}", version
        related = sprintf("    {\"spdxElementId\": \"SPDXRef-DOCUMENT\", \"relationshipType\": \"DESCRIBES\", \"relatedSpdxElement\": \"SPDXRef-lockstep\"}")
        for (i = 1; i <= n; i++)
            related = related sprintf(",\n    {\"spdxElementId\": \"SPDXRef-lockstep\", \"relationshipType\": \"CONTAINS\", \"relatedSpdxElement\": \"%s\"}", id("File-" file[i]))
    }
    {
        printf ",\n    {\"SPDXID\": \"%s\", \"name\": \"%s\", \"versionInfo\": \"%s\", \"supplier\": \"Organization: Debian\", \"downloadLocation\": \"NOASSERTION\", \"filesAnalyzed\": false, \"licenseConcluded\": \"NOASSERTION\", \"licenseComments\": \"%s\", \"externalRefs\": [{\"referenceCategory\": \"PACKAGE-MANAGER\", \"referenceType\": \"purl\", \"referenceLocator\": \"pkg:deb/debian/%s@%s?arch=%s\"}], \"sourceInfo\": \"built from %s %s\"}", \
            id("Package-" $1), $1, $2, $6 != "" ? "in its copyright file: " $6 : "see its copyright file", $1, $2, $3, $4, $5
        related = related sprintf(",\n    {\"spdxElementId\": \"SPDXRef-lockstep\", \"relationshipType\": \"DYNAMIC_LINK\", \"relatedSpdxElement\": \"%s\"}", id("Package-" $1))
    }
    END { printf "\n  ],\n  \"relationships\": [\n%s\n  ]\n}\n", related }
' "$work/list"
