# tests/lint/strip.awk - C files without their comments and without the text of their strings, each
# line with "FILE:LINE:" before it.
FNR == 1 { in_comment = 0 }
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
    printf "%s:%d:%s\n", FILENAME, FNR, out
}
