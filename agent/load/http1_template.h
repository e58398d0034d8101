/* agent/load/http1_template.h - response heads that repeat are compared, not parsed.
 *
 * A server's answers to a load differ in little but the Date. A template holds one head that the
 * strict parser has read, and the parser as it was behind it. If the next bytes are that head
 * again, but for digits of its Date, the strict parser could come to no other result, so that its
 * state is copied. Anything else is parsed as ever. Results never depend on what was learned.
 */
#ifndef LS_AGENT_LOAD_HTTP1_TEMPLATE_H
#define LS_AGENT_LOAD_HTTP1_TEMPLATE_H

#include <string.h>

#include "agent/load/http1_parse.h"

#define HTTP1_TEMPLATE_MAX 512u /* bytes of a head that is learned */

/* Zeroed: nothing learned. */
struct http1_template {
    struct http1_parser after; /* behind the head, at HTTP1_HEAD */
    uint16_t len;              /* of head; 0: none */
    uint16_t date_from;        /* value of its first Date field; both 0: it has none */
    uint16_t date_to;
    bool used;    /* since it was learned */
    uint8_t vain; /* heads in a row that were learned and never used; see learn() */
    unsigned char head[HTTP1_TEMPLATE_MAX];
};

/* Has a head been learned from an answer to such a request? */
static inline bool http1_template_fits(const struct http1_template *t, unsigned flags)
{
    return t->len > 0 && t->after.begin_flags == flags;
}

/* What http1_template_begins() does if the bytes are not the same. */
bool http1_template_redate(struct http1_template *t, const unsigned char *in);

/* Does in begin with the learned head? The parser would then be as after says, having taken len
 * bytes. Only of one that fits. */
static inline bool http1_template_begins(struct http1_template *t, struct ls_bytes in)
{
    if (in.len < t->len ||
        (LS_UNLIKELY(memcmp(in.data, t->head, t->len) != 0) && !http1_template_redate(t, in.data)))
        return false;
    t->used = true;
    return true;
}

/* If *in begins with the learned head, advances it past that, leaves *parser behind http1_begin(p,
 * flags) and a step HTTP1_HEAD, and returns true. Otherwise nothing happens. */
bool http1_template_use(struct http1_template *t, unsigned flags, struct ls_bytes *in,
                        struct http1_parser *parser);

/* parser has just returned HTTP1_HEAD for head, complete and without an interim response before it.
 * Too long heads, and heads that never come again, are not learned. */
void http1_template_learn(struct http1_template *t, struct ls_bytes head,
                          const struct http1_parser *parser);

#endif
