# tests/lint/files.sh - for sourcing: which files of a tree the rules look at.

# Prints, relative to the root $1 and one a line, every file that belongs to the tree: what git
# tracks or would track, or without git whatever is not below build/, out/ or .git/.
tree_files() {
    if [ -e "$1/.git" ] && git -c safe.directory='*' -C "$1" rev-parse --git-dir >/dev/null 2>&1; then
        git -c safe.directory='*' -C "$1" ls-files --cached --others --exclude-standard |
            while IFS= read -r file; do
                [ -f "$1/$file" ] && printf '%s\n' "$file"
            done | sort
    else
        (cd "$1" && find . \( -path ./build -o -path ./out -o -path ./.git \) -prune -o -type f -print) |
            sed 's|^\./||' | sort
    fi
}

# The C files among them.
tree_c_files() {
    tree_files "$1" | grep -E '\.[ch]$' || :
}

# Reads violations on stdin, shows them and the verdict; $1 names the rule.
lint_verdict() {
    awk -v rule="$1" '
        { print; n++ }
        END {
            if (n > 0) {
                printf "lint %s: %d violations\n", rule, n
                exit 1
            }
            printf "lint %s: ok\n", rule
        }'
}
