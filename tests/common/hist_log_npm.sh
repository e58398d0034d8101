#!/bin/sh
# Our histogram logs as npm's hdr-histogram-js reads them: the parts add up to the whole bucket by
# bucket, and its percentiles are ours. And the reader does see a difference where there is one.
#
#   sh hist_log_npm.sh WRITER READER.mjs FOLDER
#
# FOLDER is made anew and removed; in the build tree, so that nothing stays behind a kill -9.
# LS_NODE_MODULES is a node_modules folder made from tests/support/npm by "npm ci"; without it, or
# without node, the test is skipped (77).
set -eu

writer=$1
reader=$2
dir=$3

if ! command -v node >/dev/null 2>&1 || [ ! -d "${LS_NODE_MODULES:-}/hdr-histogram-js" ]; then
    echo "skipped: needs node, and LS_NODE_MODULES with hdr-histogram-js in it"
    exit 77
fi

rm -rf "$dir"
mkdir -p "$dir"
trap 'rm -rf "$dir"' EXIT
trap 'exit 1' HUP INT TERM

fail() {
    echo "$1"
    exit 1
}

"$writer" "$dir"
cd "$dir"
node "$reader" sum a.hlog b.hlog -- whole.hlog >stats.json || fail 'the parts are not the whole'
node "$reader" check expected.json whole.hlog >stats.json || fail 'percentiles differ'
node "$reader" check expected.json a.hlog b.hlog >stats.json || fail 'percentiles of the parts differ'

# A reader that finds everything equal would have passed as well.
node "$reader" sum a.hlog -- whole.hlog >stats.json 2>why && fail 'half of it passed for the whole'
grep -q 'bucket' why
sed 's/"p99_ns": \([0-9]*\)/"p99_ns": 1\1/' expected.json >wrong.json
node "$reader" check wrong.json whole.hlog >stats.json 2>why && fail 'a wrong percentile passed'
grep -q 'p99_ns' why
if node "$reader" stats absent.hlog >stats.json 2>why; then
    fail 'an absent file passed'
fi
echo "ok"
