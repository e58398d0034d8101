#!/bin/sh
# Installs what the suites run (npm/package.json, by its lock file) below build/suites, if it is not
# there yet, and prints the folder of its modules: "sh deploy/suites/npm.sh". Nothing else needs it.
set -eu
here=$(cd "$(dirname -- "$0")" && pwd)
out=${LS_SUITES:-$here/../../build/suites}
mkdir -p "$out"
if ! cmp -s "$here/npm/package-lock.json" "$out/installed"; then
    cp "$here/npm/package.json" "$here/npm/package-lock.json" "$out"
    (cd "$out" && npm ci --no-audit --no-fund >&2)
    # Programs come by scripts of their packages, which npm may have been told not to run.
    for package in bun deno; do
        "$out/node_modules/.bin/$package" --version >/dev/null 2>&1 ||
            (cd "$out" && npm rebuild --ignore-scripts=false "$package" >&2)
    done
    "$out/node_modules/node24/bin/node" "$here/esrun/generate.mjs" "$out/generated"
    cp "$here/npm/package-lock.json" "$out/installed"
fi
(cd "$out/node_modules" && pwd)
