#!/bin/sh
# The house as DESIGN draws it: known entries at the top, a README in each folder that a newcomer
# opens, nothing third-party or generated, no file too long to read.
#
#   sh tests/lint/layout.sh [ROOT]
set -eu

here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
. "$here/files.sh"
cd "${1:-$here/../..}"

{
    tree_files . | sed 's|/.*||' | sort -u | while IFS= read -r entry; do
        case $entry in
        .ci | .clang-format | .clang-tidy | .gitignore | CMakeLists.txt | CMakePresets.json) ;;
        README.md | LICENSE | agent | common | coordinator | deploy | proto | tests) ;;
        *) printf '%s: not one of the known entries at the top of the tree\n' "$entry" ;;
        esac
    done
    for folder in . agent common coordinator deploy proto tests tests/*/; do
        folder=${folder%/}
        case $folder in
        # mirrors of the sources need no words of their own
        tests/agent | tests/common | tests/coordinator | */\*) continue ;;
        esac
        [ ! -d "$folder" ] || [ -e "$folder/README.md" ] || printf '%s: no README.md\n' "$folder"
    done
    tree_files . | grep -E '(^|/)(node_modules|build|__pycache__)/|\.(o|a|so|orig|rej|pb-c\.[ch])$' |
        sed 's|$|: generated or third-party|' || :
    tree_files . | while IFS= read -r file; do
        size=$(($(wc -c <"$file")))
        [ "$size" -le 524288 ] || printf '%s: %d bytes; nothing here needs more than 512 KiB\n' "$file" "$size"
    done
} | lint_verdict layout

# Long files are a smell, not an error.
tree_c_files . | while IFS= read -r file; do
    lines=$(($(wc -l <"$file")))
    [ "$lines" -le 600 ] || printf 'lint layout: warning: %s has %d lines, more than 600\n' "$file" "$lines"
done
