#include "coordinator/result/escape.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* One character of UTF-8: its length, 0 if this is not the start of a valid one (overlong forms
 * and surrogates are not). */
static size_t decode(const unsigned char *p, uint32_t *out)
{
    size_t len = p[0] < 0x80 ? 1 : p[0] < 0xc2 ? 0 : p[0] < 0xe0 ? 2 : p[0] < 0xf0 ? 3 : 4;
    uint32_t c = len == 1 ? p[0] : p[0] & (0xffu >> (len + 1));

    if (len == 0 || p[0] > 0xf4)
        return 0;
    for (size_t i = 1; i < len; i++) {
        if ((p[i] & 0xc0) != 0x80) /* also the end of the text */
            return 0;
        c = c << 6 | (p[i] & 0x3f);
    }
    if ((len == 3 && (c < 0x800 || (c >= 0xd800 && c <= 0xdfff))) ||
        (len == 4 && (c < 0x10000 || c > 0x10ffff)))
        return 0;
    *out = c;
    return len;
}

static bool is_visible(uint32_t c)
{
    if (c < 0x20 || (c >= 0x7f && c < 0xa0))
        return false; /* C0, DEL, C1 */
    if ((c >= 0x200b && c <= 0x200f) || (c >= 0x2028 && c <= 0x202e) ||
        (c >= 0x2060 && c <= 0x206f) || c == 0xfeff || c == 0xad || c == 0x61c)
        return false; /* zero-width, line separators, bidirectional controls */
    return (c < 0xe000 || c > 0xf8ff) && (c < 0xe0000 || c > 0xe0fff); /* private, tags */
}

/* A character that can be shown, with the bytes beside it; 0: none. */
struct shown {
    const char *bytes;
    size_t len;
    char before;
    char after;
    bool number; /* nothing but digits is before it, from the start */
};

/* Calls put for each character that can be shown as it is, and for those of the escapes that stand
 * for the others. */
static void each(struct ls_buf *out, const char *text,
                 void (*put)(struct ls_buf *out, const struct shown *shown))
{
    const unsigned char *p = (const unsigned char *)text;
    char before = '\0';
    bool number = false;

    while (*p != '\0') {
        uint32_t c = *p;
        size_t len = decode(p, &c);
        char escape[16];

        if (len > 0 && is_visible(c)) {
            put(out, &(struct shown){ (const char *)p, len, before, (char)p[len], number });
        } else {
            (void)snprintf(escape, sizeof(escape), c < 0x100 ? "\\x%02x" : "\\u%04x", (unsigned)c);
            for (const char *e = escape; *e != '\0'; e++)
                put(out, &(struct shown){ e, 1, 'x', 'x', false });
        }
        number = (number || before == '\0') && c >= '0' && c <= '9';
        p += len > 0 ? len : 1;
        before = (char)p[-1];
    }
}

static void put_plain(struct ls_buf *out, const struct shown *shown)
{
    ls_buf_add(out, shown->bytes, shown->len);
}

void coord_escape_text(struct ls_buf *out, const char *text)
{
    each(out, text, put_plain);
}

static bool is_word(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           (unsigned char)c >= 0x80;
}

/* CommonMark with GitHub's extensions: only where a character could mean something, for the page
 * is read as it is, too. */
static bool is_markup(const struct shown *shown)
{
    switch (*shown->bytes) {
    case '_':
        return !is_word(shown->before) || !is_word(shown->after);
    case ':':
        return shown->after == '/'; /* http:// is a link by itself */
    case '-':
    case '+':
    case '=':
        return shown->before == '\0'; /* a list, a heading's underline */
    case '.':
    case ')':
        return shown->number && (shown->after == ' ' || shown->after == '\0'); /* a list */
    default:
        return strchr("\\`*[]|~$@#", *shown->bytes) != NULL;
    }
}

static void put_markdown(struct ls_buf *out, const struct shown *shown)
{
    char c = shown->len == 1 ? *shown->bytes : 'x';

    if (c == '<')
        ls_buf_adds(out, "&lt;");
    else if (c == '>')
        ls_buf_adds(out, "&gt;");
    else if (c == '&')
        ls_buf_adds(out, "&amp;");
    else {
        if (shown->len == 1 && is_markup(shown))
            ls_buf_adds(out, "\\");
        ls_buf_add(out, shown->bytes, shown->len);
    }
}

void coord_escape_markdown(struct ls_buf *out, const char *text)
{
    each(out, text, put_markdown);
}

static void put_csv(struct ls_buf *out, const struct shown *shown)
{
    if (*shown->bytes == '"')
        ls_buf_adds(out, "\"");
    ls_buf_add(out, shown->bytes, shown->len);
}

void coord_escape_csv(struct ls_buf *out, const char *text)
{
    bool formula = text[0] != '\0' && strchr("=+-@\t\r|%", text[0]) != NULL;
    bool quote = formula || strpbrk(text, ",\"\n\r;") != NULL || text[0] == ' ';

    if (quote)
        ls_buf_adds(out, "\"");
    if (formula)
        ls_buf_adds(out, "'");
    each(out, text, put_csv);
    if (quote)
        ls_buf_adds(out, "\"");
}

static void put_json(struct ls_buf *out, const struct shown *shown)
{
    if (strchr("\"\\<>&", *shown->bytes) != NULL)
        ls_buf_addf(out, "\\u%04x", (unsigned)*shown->bytes);
    else
        ls_buf_add(out, shown->bytes, shown->len);
}

void coord_escape_json(struct ls_buf *out, const char *text, size_t most)
{
    struct ls_buf start;
    size_t len = strnlen(text, most + 1);

    ls_buf_adds(out, "\"");
    if (len <= most) {
        each(out, text, put_json);
    } else {
        /* Not within a character. */
        for (len = most; len > 0 && ((unsigned char)text[len] & 0xc0) == 0x80;)
            len--;
        ls_buf_init(&start, most + 1);
        ls_buf_add(&start, text, len);
        each(out, start.data != NULL ? (const char *)start.data : "", put_json);
        out->ok = out->ok && start.ok;
        ls_buf_fini(&start);
        ls_buf_adds(out, "\xe2\x80\xa6"); /* an ellipsis */
    }
    ls_buf_adds(out, "\"");
}

size_t coord_text_width(const char *escaped)
{
    size_t width = 0;

    for (const char *p = escaped; *p != '\0'; p++)
        width += ((unsigned char)*p & 0xc0) != 0x80;
    return width;
}
