# tests/lint/strip.awk - a C file without its comments and without the text of its strings, each
# line with "FILE:LINE:" before it.
{
    out = ""
    for (i = 1; i <= length($0); i++) {
        c = substr($0, i, 1)
        two = substr($0, i, 2)
        if (in_comment) {
            if (two == "*/") {
                in_comment = 0
                i++
            }
        } else if (quote != "") {
            if (c == "\\")
                i++
            else if (c == quote) {
                quote = ""
                out = out c
            }
        } else if (two == "/*") {
            in_comment = 1
            i++
        } else if (two == "//")
            break
        else {
            if (c == "\"" || c == "'")
                quote = c
            out = out c
        }
    }
    quote = ""
    printf "%s:%d:%s\n", file, NR, out
}
