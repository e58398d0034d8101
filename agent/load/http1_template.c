#include "agent/load/http1_template.h"

#include <string.h>
#include <strings.h>

/* After so many heads in a row that were learned in vain, the next are left alone until the count
 * wraps: heads with serial numbers, or more kinds of heads than templates, would be learned for
 * ever, and learning costs more than parsing. */
enum { TRIES = 8 };

static bool is_digit(unsigned char c)
{
    return c >= '0' && c <= '9';
}

/* Equal to the learned head but for digits of the date. A digit for a digit in the value of a field
 * that says nothing about framing cannot change what the parser makes of the head. */
static bool equal_but_date(const struct http1_template *t, const unsigned char *in)
{
    if (memcmp(in, t->head, t->date_from) != 0 ||
        memcmp(in + t->date_to, t->head + t->date_to, t->len - t->date_to) != 0)
        return false;
    for (size_t i = t->date_from; i < t->date_to; i++) {
        if (in[i] != t->head[i] && !(is_digit(in[i]) && is_digit(t->head[i])))
            return false;
    }
    return true;
}

bool http1_template_redate(struct http1_template *t, const unsigned char *in)
{
    if (!equal_but_date(t, in))
        return false;
    /* So that the plain comparison is enough until the next second. */
    memcpy(t->head + t->date_from, in + t->date_from, t->date_to - t->date_from);
    return true;
}

bool http1_template_use(struct http1_template *t, unsigned flags, struct ls_bytes *in,
                        struct http1_parser *parser)
{
    if (!http1_template_fits(t, flags) || !http1_template_begins(t, *in))
        return false;
    *parser = t->after;
    in->data += t->len;
    in->len -= t->len;
    return true;
}

static void find_date(struct http1_template *t)
{
    static const char name[] = "date:";
    const unsigned char *end = t->head + t->len;
    const unsigned char *line = t->head;

    t->date_from = 0;
    t->date_to = 0;
    while (line < end) {
        const unsigned char *lf = memchr(line, '\n', (size_t)(end - line));
        size_t len = (size_t)(lf - line); /* a head ends in a line end */

        if (len > sizeof(name) && strncasecmp((const char *)line, name, sizeof(name) - 1) == 0) {
            t->date_from = (uint16_t)(line - t->head + (ptrdiff_t)sizeof(name) - 1);
            t->date_to = (uint16_t)(lf - t->head);
            return;
        }
        line = lf + 1;
    }
}

void http1_template_learn(struct http1_template *t, struct ls_bytes head,
                          const struct http1_parser *parser)
{
    if (head.len > HTTP1_TEMPLATE_MAX)
        return;
    if (t->used && t->vain < TRIES)
        t->vain = 0;
    if (t->vain++ >= TRIES)
        return;
    t->used = false;
    memcpy(t->head, head.data, head.len);
    t->len = (uint16_t)head.len;
    t->after = *parser;
    t->after.reason = NULL; /* may not live as long */
    find_date(t);
}
