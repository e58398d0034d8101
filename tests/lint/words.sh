#!/bin/sh
# Words that must not be in the tree: unfinished business, this or that machine, unsafe functions.
#
#   sh tests/lint/words.sh [ROOT]
set -eu

here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
. "$here/files.sh"
cd "${1:-$here/../..}"

# say WHAT PATTERN: every hit in the files named on stdin. Letters in brackets keep a pattern from
# finding itself.
hits() {
    what=$1
    shift
    tr '\n' '\0' | xargs -0 -r grep -nIE "$@" /dev/null | sed "s|\$|    [$what]|" || :
}

# calls PATTERN WHAT: the same for code alone; comments and strings do not call anything.
calls() {
    tr '\n' '\0' | xargs -0 -r awk -f "$here/strip.awk" /dev/null | grep -E "$1" |
        sed "s|\$|    [$2]|" || :
}

{
    tree_files . | hits 'finish it or file it' '\b([T]ODO|[F]IXME|[X]XX|[H]ACK)\b'
    tree_files . | hits 'a path of one machine' '(^|[^[:alnum:]._-])/(w[o]rk|f[a]rm|h[o]me|r[o]ot)/[a-z.]'
    tree_files . | hits 'the host of a registry' '[a-z0-9-]*\.?(d[e]bian|npm[j]s)\.(org|com)'
    tree_files . | grep 'package-lock\.json$' | hits 'a download address' '"resolved": *"h'
    tree_c_files . | calls \
        '(^|[^[:alnum:]_])(strcpy|strcat|stpcpy|sprintf|vsprintf|gets|strtok|atoi|atol|atoll|atof|system|popen|rand|srand|random|alloca|tmpnam|mktemp)[[:space:]]*\(' \
        'unsafe or unseeded: see common/ for what to use'
    tree_c_files . | grep -vE '^(tests/|common/clock\.c$)' | calls \
        '(^|[^[:alnum:]_])(clock_gettime|gettimeofday|time|ev_now|ev_time)[[:space:]]*\(' \
        'only common/clock.c reads a clock'
} | lint_verdict words
