# table.awk - reads machine facts, targets and runs, in this order; prints the Markdown table and
# writes it as JSON, one row a line, to the file json. What the file kept says of the same rows is
# compared, and rows of cases that were not run are taken over from it.

function median(list, n) {
    return (list[int((n + 1) / 2)] + list[int(n / 2) + 1]) / 2
}

# Sorts values[1..n] (few) and sets q_low, q_mid, q_high to the quartiles and the median.
function quartiles(values, n,   i, j, v) {
    for (i = 2; i <= n; i++) {
        v = values[i]
        for (j = i - 1; j >= 1 && values[j] > v; j--)
            values[j + 1] = values[j]
        values[j + 1] = v
    }
    q_low = values[int((n + 3) / 4)]
    q_high = values[n + 1 - int((n + 3) / 4)]
    q_mid = median(values, n)
}

# Four significant digits, without an exponent.
function short(x,   digits, size) {
    size = x < 0 ? -x : x
    digits = size >= 1000 ? 0 : size >= 100 ? 1 : size >= 10 ? 2 : size >= 1 ? 3 : 4
    return sprintf("%." digits "f", x)
}

# As short, without what a reader of JSON does not need.
function number(x) {
    return sprintf("%.6g", x) + 0
}

function field(line, name,   parts) {
    return split(line, parts, "\"" name "\": ") > 1 ? parts[2] + 0 : ""
}

function read_kept(   line, parts) {
    while (kept != "" && (getline line < kept) > 0) {
        if (line !~ /^ *\{"id": /)
            continue
        split(line, parts, "\"")
        sub(/,$/, "", line)
        kept_line[parts[4]] = line
        kept_ids[++kept_count] = parts[4]
    }
}

# How a row stands to the kept one: beyond the quartiles of both and by more than noise percent.
function compare(id, value, low, high, noise, smaller_is_better,   old, change) {
    if (!(id in kept_line))
        return
    old = field(kept_line[id], "value")
    if (old == 0)
        return
    change = 100 * (value - old) / old
    if ((change < 0 ? -change : change) <= noise)
        return
    if (value >= field(kept_line[id], "low") && value <= field(kept_line[id], "high"))
        return
    if (old >= low && old <= high)
        return
    moved[++moved_count] = sprintf("- %s: %s, was %s (%+.1f %%): %s", id, short(value), short(old),
                                   change, (change < 0) == smaller_is_better ? "better" : "worse")
}

function json_row(id, kind, unit, ours, peer, value, low, high, n, limit, met) {
    rows[++row_count] = sprintf("{\"id\": \"%s\", \"kind\": \"%s\", \"unit\": \"%s\", \"ours\": %s, \"peer\": %s, " \
        "\"value\": %s, \"low\": %s, \"high\": %s, \"n\": %d, \"limit\": %s, \"met\": %s}",
        id, kind, unit, ours, peer, number(value), number(low), number(high), n,
        limit == "" ? "null" : limit, met == "" ? "null" : met == "yes" ? "true" : "false")
    if (met == "yes") met_count++
    if (met == "no") missed[++missed_count] = id
}

# Median of a tool's own figure in a case.
function own(c, tool,   i, n, values) {
    n = 0
    for (i = 1; i <= rounds[c]; i++)
        if ((c, tool, i) in data)
            values[++n] = data[c, tool, i]
    if (n == 0)
        return ""
    quartiles(values, n)
    return q_mid
}

# A row that compares two tools round by round.
function ratio_row(c, ours, peer, limit, kind,   i, n, values, a, b, met, id) {
    done[c, ours, peer] = 1
    n = 0
    for (i = 1; i <= rounds[c]; i++)
        if (((c, ours, i) in data) && ((c, peer, i) in data) && data[c, peer, i] > 0)
            values[++n] = data[c, ours, i] / data[c, peer, i]
    if (n == 0)
        return
    a = own(c, ours)
    b = own(c, peer)
    quartiles(values, n)
    met = limit == "" ? "" : q_mid <= limit ? "yes" : "no"
    id = c "/" ours "/" peer
    printf "| %s | %s %s | %s %s | %s (%s to %s) | %s | %s |\n", c, ours, short(a), peer, short(b), short(q_mid),
        short(q_low), short(q_high), limit == "" ? "" : "<= " limit, met
    compare(id, q_mid, q_low, q_high, 3, 1)
    json_row(id, kind, unit_of[c], number(a), number(b), q_mid, q_low, q_high, n, limit, met)
}

function is_ours(tool) {
    return tool ~ /^(io_uring|libev|lockstep)/
}

# A row for a figure by itself; limit "" if there is none.
function value_row(c, name, bound, limit,   i, n, values, met, id, shown, tolerance) {
    done[c, name] = 1
    n = 0
    for (i = 1; i <= rounds[c]; i++)
        if ((c, name, i) in data)
            values[++n] = data[c, name, i]
    if (n == 0)
        return
    quartiles(values, n)
    if (bound == "truth") {
        tolerance = limit * 0.005 > 0.3 ? limit * 0.005 : 0.3
        met = q_mid - limit <= tolerance && limit - q_mid <= tolerance ? "yes" : "no"
        shown = "truth " limit " ms (" sprintf("%+.1f %%", 100 * (q_mid - limit) / limit) ")"
    } else if (limit != "") {
        met = (bound == "max" ? q_mid <= limit : q_mid >= limit) ? "yes" : "no"
        shown = (bound == "max" ? "<= " : ">= ") limit
    }
    id = c "/" name
    printf "| %s | %s | %s %s | %s to %s | %s | %s |\n", c, name, short(q_mid), unit_of[c, name], short(q_low),
        short(q_high), shown, met
    if (bound == "truth" && !is_ours(name))
        met = "" # theirs is no aim of ours
    compare(id, q_mid, q_low, q_high, 10, bound != "min")
    json_row(id, bound == "truth" ? "truth" : "value", unit_of[c, name], number(q_mid), "null", q_mid, q_low, q_high,
        n, limit, met)
}

BEGIN { read_kept() }
FNR == 1 { file++ }
/^#/ || NF == 0 { next }
file == 1 { # machine
    key = $1
    sub(/^[^ ]+ ?/, "")
    fact[key] = $0
    fact_keys[++fact_count] = key
    next
}
file == 2 { # targets
    target[++target_count] = $0
    next
}
$1 == "truth" { # as this run's machine has it
    known[$2, $3] = $4
    next
}
$1 == "note" {
    sub(/^note /, "")
    notes[++note_count] = $0
    next
}
{
    c = $2
    tool = $3
    data[c, tool, $4] = $5
    if ($4 > rounds[c]) rounds[c] = $4
    if (!(c in seen_case)) { seen_case[c] = 1; case_names[++case_count] = c }
    if (!((c, tool) in seen_tool)) { seen_tool[c, tool] = 1; tools[c, ++tool_count[c]] = tool }
    is_run[c] = $1 == "run" || c == "open-seen"
    unit_of[c] = c == "open-seen" ? "us" : "ns/request"
    unit_of[c, tool] = $6
}

END {
    for (i = 1; i <= fact_count; i++)
        printf "- %s: %s\n", fact_keys[i], fact[fact_keys[i]]
    for (i = 1; i <= note_count; i++)
        printf "- note: %s\n", notes[i]

    compared = 0
    for (k = 1; k <= case_count; k++)
        compared += is_run[case_names[k]]
    if (compared > 0)
        print "\nClient CPU per verified request in ns (`open-seen`: error of arrivals in us), medians; the ratio is the\n" \
            "median of the rounds' ratios, with its quartiles. Smaller is better.\n\n" \
            "| case | ours | peer | ratio | target | met |\n" \
            "| --- | ---: | ---: | ---: | ---: | --- |"
    for (i = 1; i <= target_count; i++) {
        split(target[i], t, " ")
        if (t[1] == "ratio" || t[1] == "error")
            ratio_row(t[2], t[3], t[4], t[5] == "-" ? "" : t[5], t[1])
    }
    for (k = 1; k <= case_count; k++) {
        c = case_names[k]
        for (a = 1; is_run[c] && a <= tool_count[c]; a++)
            for (b = 1; b <= tool_count[c]; b++)
                if (is_ours(tools[c, a]) && !is_ours(tools[c, b]) && tools[c, a] !~ /:/ && tools[c, b] !~ /:/ &&
                    !((c, tools[c, a], tools[c, b]) in done))
                    ratio_row(c, tools[c, a], tools[c, b], "", "ratio")
    }

    if (compared < case_count || ("open-seen" in seen_case))
        print "\n| case | what | median | quartiles | target | met |\n| --- | --- | ---: | ---: | ---: | --- |"
    for (i = 1; i <= target_count; i++) {
        split(target[i], t, " ")
        if (t[1] == "value")
            value_row(t[2], t[3], t[5], t[6])
        else if (t[1] == "truth")
            value_row(t[2], t[3], "truth", ((t[2], t[3]) in known) ? known[t[2], t[3]] : t[4])
    }
    for (k = 1; k <= case_count; k++) {
        c = case_names[k]
        for (a = 1; a <= tool_count[c]; a++)
            if ((!is_run[c] || c == "open-seen") && !((c, tools[c, a]) in done))
                value_row(c, tools[c, a], "max", "")
    }

    printf "\n%d targets met, %d missed", met_count, missed_count
    for (i = 1; i <= missed_count; i++)
        printf "%s%s", i == 1 ? ": " : ", ", missed[i]
    print ""
    if (kept_count > 0) {
        if (moved_count > 0)
            print "\nMoved beyond noise since the kept table:\n"
        else
            print "\nNothing moved beyond noise since the kept table."
        for (i = 1; i <= moved_count; i++)
            print moved[i]
    }

    printf "{\n" > json
    for (i = 1; i <= fact_count; i++) {
        gsub(/["\\]/, "", fact[fact_keys[i]])
        printf "\"%s\": \"%s\",\n", fact_keys[i], fact[fact_keys[i]] > json
    }
    for (i = 1; i <= kept_count; i++) {
        split(kept_ids[i], parts, "/")
        if (!(parts[1] in seen_case))
            rows[++row_count] = kept_line[kept_ids[i]]
    }
    printf "\"rows\": [\n" > json
    for (i = 1; i <= row_count; i++)
        printf("%s%s\n", rows[i], (i < row_count ? "," : "")) > json
    printf "]\n}\n" > json
}
