# tests/lint/includes.awk - reads names of C files, prints "file:line: what is wrong".
#
# Rules about the direct includes of a file are in check(); what a file must not reach through any
# number of headers is in the END block.

function bad(text) {
    printf "%s:%d: %s\n", file, line, text
}

function starts(text, prefix) {
    return substr(text, 1, length(prefix)) == prefix
}

# The layer of a path: the longest known prefix.
function layer_of(path) {
    if (starts(path, "agent/load/drivers/")) return "driver"
    if (starts(path, "agent/load/links/")) return "link"
    if (starts(path, "agent/load/")) return "load"
    if (starts(path, "agent/respond/")) return "respond"
    if (starts(path, "agent/host/")) return "host"
    if (starts(path, "agent/")) return "agent"
    if (starts(path, "coordinator/")) return "coordinator"
    if (starts(path, "common/")) return "common"
    if (starts(path, "proto/")) return "proto"
    if (starts(path, "tests/")) return "tests"
    return "?"
}

BEGIN {
    # May a file of the first layer include one of the second? proto includes nothing of ours.
    split("common:common common:proto " \
          "load:load load:common link:load link:link link:common driver:driver driver:common " \
          "respond:respond respond:common " \
          "host:host host:load host:common host:proto " \
          "agent:agent agent:load agent:host agent:respond agent:common agent:proto " \
          "coordinator:coordinator coordinator:common coordinator:proto", rows, " ")
    for (i in rows) may[rows[i]] = 1

    # Where a foreign header may be named, outside tests/: a pattern of paths for each.
    limit["nng/"] = "^common/(transport_nng\\.h|tls_engine\\.c|libraries\\.c)$"
    limit["ev.h"] = "^common/(transport_nng\\.h|libraries\\.c)$|^coordinator/(run/run_internal|fleet/fleet_internal|signals)\\.h$|^(agent/control|agent/load/worker|coordinator/cmd_agents|coordinator/fleet/[a-z0-9_]+)\\.c$|^agent/load/links/[a-z0-9_]+\\.c$"
    limit["openssl/"] = "^common/(credentials|digest|identity|libraries|tls_engine)\\.c$|^common/tls_impl\\.h$|^coordinator/pki/[a-z0-9_]+\\.[ch]$|^agent/load/tls_(impl\\.h|records\\.[ch]|context\\.c|own\\.c|session\\.c)$|^agent/respond/tls\\.c$"
    limit["yaml.h"] = "^common/(msg_yaml[a-z_]*\\.[ch]|libraries\\.c)$"
    limit["hwloc.h"] = "^common/topology\\.c$"
    limit["microhttpd.h"] = "^coordinator/(web/(server\\.c|stream\\.[ch])|libraries\\.c)$"
    limit["archive"] = "^coordinator/(bundle/[a-z_]+|libraries)\\.c$"
    limit["sqlite3.h"] = "^coordinator/(history/[a-z_]+|libraries)\\.c$"
    limit["liburing.h"] = "^agent/load/links/uring[a-z0-9_]*\\.[ch]$"
}

function check(name, system_header,   from, to, prefix) {
    from = layer_of(file)
    if (system_header) {
        for (prefix in limit)
            if (starts(name, prefix) && from != "tests" && file !~ limit[prefix])
                bad("<" name "> must not be included here: it stops at " limit[prefix])
        return
    }
    if (name ~ /\.c$/)
        bad("\"" name "\" is not a header")
    if (name !~ /\// || name ~ /\.\.?\//) {
        bad("\"" name "\" must be written from the root of the tree")
        return
    }
    to = layer_of(name)
    if (from == "tests")
        return
    if (to == "tests")
        bad("\"" name "\" belongs to the tests")
    else if (to == "driver" && from != "driver")
        bad("\"" name "\" is private to a driver: registry.c lists drivers by extern")
    else if (to == "link" && from != "link")
        bad("\"" name "\" is private to a link: registry.c lists links by extern")
    else if (from == "driver" && to == "load" && name !~ /^agent\/load\/(driver|workload|variation|gunzip|http[12]_[a-z]+|ws_[a-z]+)\.h$/)
        bad("a driver includes agent/load/driver.h and common/, not \"" name "\"")
    else if (!((from ":" to) in may) && !(from == "driver" && to == "load"))
        bad("\"" name "\" is out of reach: layer " from " must not include layer " to)
}

# The file's own header, if the tree has one, must come first, so that it is known to stand alone.
function own_header(   header) {
    header = file
    if (sub(/\.c$/, ".h", header) && (header in known))
        return header
    if (file ~ /^tests\/[a-z]+\/test_[a-z0-9_]+\.c$/)
        return "tests/support/test.h"
    return ""
}

{ files[++count] = $0; known[$0] = 1 }

END {
    for (f = 1; f <= count; f++) {
        file = files[f]
        line = 0
        first = 1
        while ((getline text < file) > 0) {
            line++
            if (text !~ /^[ \t]*#[ \t]*include[ \t]*["<]/)
                continue
            system_header = text ~ /^[ \t]*#[ \t]*include[ \t]*</
            name = text
            sub(/^[^"<]*["<]/, "", name)
            sub(/[">].*$/, "", name)
            # cmocka's headers want to be first, wherever they are used
            if (first && own_header() != "" && name != own_header() &&
                !(starts(file, "tests/") && name == "tests/support/test.h"))
                bad("the first include must be \"" own_header() "\"")
            first = 0
            check(name, system_header)
            edge[file] = edge[file] " " (system_header ? "<" : "") name
        }
        close(file)
    }
    # The hot path sees neither protobuf nor nng, whatever lies between.
    for (f = 1; f <= count; f++) {
        file = files[f]
        line = 1
        if (layer_of(file) ~ /^(load|link|driver|respond)$/)
            reach(file)
    }
}

# Walks the headers that a file includes, breadth first, and complains of what must not be there.
function reach(start,   queue, head, tail, seen, way, parts, n, i, at) {
    queue[tail = 1] = start
    seen[start] = 1
    way[start] = start
    for (head = 1; head <= tail; head++) {
        at = queue[head]
        n = split(edge[at], parts, " ")
        for (i = 1; i <= n; i++) {
            if (parts[i] in seen)
                continue
            seen[parts[i]] = 1
            way[parts[i]] = way[at] " > " parts[i]
            if (parts[i] ~ /^<(nng|protobuf-c)\// || parts[i] ~ /\.pb-c\.h$/)
                bad("reaches " parts[i] ": " way[parts[i]])
            else
                queue[++tail] = parts[i]
        }
    }
}
