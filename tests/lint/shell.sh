#!/bin/sh
# Shell scripts parse, say which shell they want, and pass shellcheck where it is installed.
#
#   sh tests/lint/shell.sh [ROOT]
set -eu

here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
. "$here/files.sh"
cd "${1:-$here/../..}"

# A script of ours is a *.sh file, or one that begins like one.
scripts() {
    tree_files . | while IFS= read -r file; do
        case $file in
        *.sh) printf '%s\n' "$file" ;;
        *.*) ;;
        *) if head -n 1 "$file" | grep -qE '^#!.*\b(sh|bash)\b'; then printf '%s\n' "$file"; fi ;;
        esac
    done
}

{
    scripts | while IFS= read -r file; do
        case $(head -n 1 "$file") in
        '#!/usr/bin/env bash' | '#!/bin/bash') shell='bash' ;;
        '#!/bin/sh') shell='sh' ;;
        '# '*' - for sourcing'*) shell='sh' ;;
        *)
            printf '%s:1: must begin with #!/bin/sh, #!/usr/bin/env bash or "# PATH - for sourcing"\n' "$file"
            continue
            ;;
        esac
        "$shell" -n "$file" 2>&1 | sed "s|^|$file: |"
        if command -v shellcheck >/dev/null 2>&1; then
            # Sourced files are not followed, so their variables are not known (2154).
            shellcheck -f gcc -s "$shell" -e SC1091,SC2154 "$file" || :
        fi
    done
} | lint_verdict shell
