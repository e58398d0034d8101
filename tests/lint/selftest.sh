#!/bin/sh
# Each rule finds what it is for: made-up trees with one violation each, and one without any.
#
#   sh tests/lint/selftest.sh
set -eu

here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
trap 'exit 130' INT TERM HUP
cd "$tree"
failures=0

# A tree that every rule accepts.
fresh() {
    rm -rf "$tree/t"
    mkdir -p "$tree/t"
    cd "$tree/t"
    cp "$here/../../.clang-format" .
    mkdir -p agent/load/drivers agent/load/links agent/host common coordinator deploy proto tests/common
    for folder in . agent common coordinator deploy proto tests; do
        echo "Words." >"$folder/README.md"
    done
    printf '#ifndef A_H\n#define A_H\n\n#include <stddef.h>\n\n#endif\n' >common/a.h
    printf '#include "common/a.h"\n\n#include <stdio.h>\n' >common/a.c
    printf '#include "agent/load/driver.h"\n\n#include "common/a.h"\n' >agent/load/drivers/null.c
    printf '#ifndef D_H\n#define D_H\n\n#include "common/a.h"\n\n#endif\n' >agent/load/driver.h
    printf '#!/bin/sh\necho fine\n' >deploy/fine.sh
}

# expect RULE TEXT: the rule fails on the tree as it is now and says TEXT.
expect() {
    if said=$(sh "$here/$1.sh" "$tree/t" 2>&1); then
        printf 'selftest: %s accepted a violation: %s\n' "$1" "$2"
        failures=$((failures + 1))
    elif ! printf '%s\n' "$said" | grep -qF -- "$2"; then
        printf 'selftest: %s did not say "%s" but:\n%s\n' "$1" "$2" "$said"
        failures=$((failures + 1))
    fi
    fresh
}

# violates RULE TEXT FILE LINE...: with these lines in FILE.
violates() {
    rule=$1
    text=$2
    file=$3
    shift 3
    mkdir -p "$(dirname -- "$file")"
    printf '%s\n' "$@" >"$file"
    expect "$rule" "$text"
}

fresh
for rule in includes words layout format shell; do
    status=0
    said=$(sh "$here/$rule.sh" "$tree/t" 2>&1) || status=$?
    if [ "$status" -ne 0 ] && [ "$status" -ne 77 ]; then
        printf 'selftest: %s refused a good tree:\n%s\n' "$rule" "$said"
        failures=$((failures + 1))
    fi
done

violates includes 'layer common must not include layer agent' common/b.c '#include "agent/x.h"'
violates includes 'layer agent must not include layer coordinator' agent/b.c '#include "coordinator/x.h"'
violates includes 'layer coordinator must not include layer load' coordinator/b.c '#include "agent/load/load.h"'
violates includes 'layer load must not include layer host' agent/load/b.c '#include "agent/host/facts.h"'
violates includes 'layer load must not include layer proto' agent/load/b.c '#include "proto/plan.pb-c.h"'
violates includes 'layer respond must not include layer load' agent/respond/b.c '#include "agent/load/load.h"'
violates includes 'must be written from the root' common/b.c '#include "a.h"'
violates includes 'must be written from the root' common/b.c '#include "../common/a.h"'
violates includes 'is not a header' common/b.c '#include "common/a.c"'
violates includes 'belongs to the tests' common/b.c '#include "tests/support/test.h"'
violates includes 'first include must be "common/a.h"' common/a.c '#include <stdio.h>' '#include "common/a.h"'
violates includes 'first include must be "tests/support/test.h"' tests/common/test_a.c '#include "common/a.h"'
violates includes 'private to a driver' agent/load/b.c '#include "agent/load/drivers/x.h"'
violates includes 'private to a link' agent/load/b.c '#include "agent/load/links/x.h"'
violates includes 'a driver includes agent/load/driver.h' agent/load/drivers/b.c '#include "agent/load/load.h"'
violates includes '<nng/nng.h> must not' agent/b.c '#include <nng/nng.h>'
violates includes '<nng/nng.h> must not' common/b.h '#include <nng/nng.h>'
violates includes '<ev.h> must not' agent/load/pacer.c '#include <ev.h>'
violates includes '<openssl/evp.h> must not' coordinator/b.c '#include <openssl/evp.h>'
printf '#include "common/b.h"\n' >agent/load/b.c
printf '#include "common/c.h"\n' >common/b.h
violates includes 'agent/load/b.c > common/b.h > common/c.h > <protobuf-c/protobuf-c.h' \
    common/c.h '#include <protobuf-c/protobuf-c.h>'

violates words 'finish it or file it' common/b.c "/* TO""DO: more */"
violates words 'finish it or file it' README.md "FIX""ME"
violates words 'a path of one machine' deploy/b.sh "cd /wo""rk/main"
violates words 'a path of one machine' common/b.c "\"/ro""ot/x\""
violates words 'the host of a registry' deploy/b.sh "curl https://deb.deb""ian.org/x"
violates words 'the host of a registry' README.md "registry.npm""js.org"
for call in 'strcpy(a, b);' 'sprintf (a, "x");' 'x = atoi(a);' 'system("ls");' 'return rand();'; do
    violates words 'unsafe or unseeded' common/b.c "$call"
done
violates words 'only common/clock.c' agent/b.c 'clock_gettime(CLOCK_MONOTONIC, &ts);'
violates words 'only common/clock.c' agent/b.c '/* a */ now = time(NULL);'

violates layout 'not one of the known entries' scratch.txt 'x'
violates layout 'not one of the known entries' src/main.c 'x'
violates layout 'generated or third-party' tests/node_modules/x.js 'x'
rm agent/README.md
expect layout 'agent: no README.md'
mkdir tests/extra
expect layout 'tests/extra: no README.md'

if command -v clang-format >/dev/null 2>&1; then
    violates format 'common/b.c:1' common/b.c 'int  x ;'
fi
violates shell 'deploy/b.sh' deploy/b.sh '#!/bin/sh' 'if true; then'
violates shell 'must begin with' deploy/b.sh 'echo hello'
violates shell 'deploy/b' deploy/b '#!/usr/bin/env bash' 'case x in'

if command -v cc >/dev/null 2>&1 && command -v ar >/dev/null 2>&1; then
    for part in a b; do
        printf 'int twice(void);\nint twice(void)\n{\n    return 1;\n}\n' >"$part.c"
        cc -c "$part.c"
        ar rc "$part.a" "$part.o"
    done
    said=$(sh "$here/symbols.sh" a.a b.a 2>&1) && {
        echo 'selftest: symbols accepted a name that is defined twice'
        failures=$((failures + 1))
    }
    printf '%s\n' "$said" | grep -qF 'twice: defined in a.a[a.o] and in b.a[b.o]' || {
        printf 'selftest: symbols said %s\n' "$said"
        failures=$((failures + 1))
    }
    sh "$here/symbols.sh" a.a >/dev/null || {
        echo 'selftest: symbols refused a library whose names are all different'
        failures=$((failures + 1))
    }
    fresh
fi

# What looks like a violation and is none.
printf '/* strcpy(a, b) */\nconst char *s = "atoi(x) // strcat(y)"; /* system(\n rand( */\nint my_rand(void);\n' >common/b.c
printf 'int run_time(void);\nint x = run_time(); /* 10:time(s) */\n' >agent/b.c
said=$(sh "$here/words.sh" "$tree/t" 2>&1) || {
    printf 'selftest: words refused what is harmless:\n%s\n' "$said"
    failures=$((failures + 1))
}

if [ "$failures" -gt 0 ]; then
    printf 'lint selftest: %d failures\n' "$failures"
    exit 1
fi
echo "lint selftest: ok"
