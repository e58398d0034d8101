#include "tests/support/http1_view.h"

#include <openssl/sha.h>
#include <stdio.h>
#include <string.h>

#define REASON_AT 13u /* "HTTP/1.1 200 " */

static char *next_row(struct http1_view *view)
{
    unsigned at = view->rows < HTTP1_VIEW_ROWS ? view->rows++ : HTTP1_VIEW_ROWS - 1;

    return view->row[at];
}

static void sha1_start(const unsigned char *data, size_t len, char out[11])
{
    unsigned char sum[SHA_DIGEST_LENGTH];

    (void)SHA1(data, len, sum);
    for (int i = 0; i < 5; i++)
        (void)snprintf(out + i * 2, 3, "%02x", sum[i]);
}

static void show_framing(const struct http1_parser *p, char *out, size_t out_bytes)
{
    if (p->framing != HTTP1_FRAMING_NONE)
        (void)snprintf(out, out_bytes, "%s", http1_framing_name(p->framing));
    else if (p->status == 204 || p->status == 304 || p->status == 101)
        (void)snprintf(out, out_bytes, "none(%u)", p->status);
    else
        (void)snprintf(out, out_bytes, "none(HEAD)");
}

/* missing: what the length promised and did not come. */
static void show_response(struct http1_view *view, uint64_t missing, const char *why)
{
    const struct http1_parser *p = &view->parser;
    char reason[HTTP1_REASON_KEPT + 3] = "None";
    char framing[24];
    char sha1[11];
    char rest[64] = "";

    if (p->reason_given)
        (void)snprintf(reason, sizeof(reason), "'%.*s'", (int)p->reason_len, view->reason);
    show_framing(p, framing, sizeof(framing));
    sha1_start(view->body, view->body_bytes, sha1);
    if (missing > 0)
        (void)snprintf(rest, sizeof(rest), " SHORT want %llu",
                       (unsigned long long)(view->body_bytes + missing));
    else if (why != NULL)
        (void)snprintf(rest, sizeof(rest), " CUT %s", why);
    (void)snprintf(next_row(view), sizeof(view->row[0]),
                   "HTTP/1.%u %u reason=%s %s body=%zu sha1=%s conn-hdr=%s%s%s", p->minor,
                   p->status, reason, framing, view->body_bytes, sha1,
                   p->keep_alive ? "keep" : "close", p->trailers > 0 ? " trailer" : "", rest);
}

static void show_bad(struct http1_view *view)
{
    view->over = true;
    (void)snprintf(next_row(view), sizeof(view->row[0]), "BAD %s", view->parser.why);
}

static void keep_body(struct http1_view *view, struct ls_bytes body)
{
    size_t room = sizeof(view->body) - view->body_bytes;
    size_t n = body.len < room ? body.len : room;

    memcpy(view->body + view->body_bytes, body.data, n);
    view->body_bytes += n;
}

static void begin(struct http1_view *view, struct ls_bytes *in)
{
    unsigned flags = view->flags_of != NULL ? view->flags_of(view->ctx, view->index) : 0;

    view->index++;
    view->begun = true;
    view->body_bytes = 0;
    if (view->template != NULL && http1_template_use(view->template, flags, in, &view->parser)) {
        view->hits++;
        memcpy(view->reason, view->template->head + REASON_AT, view->parser.reason_len);
    } else {
        http1_begin(&view->parser, flags);
        view->parser.reason = view->reason;
    }
}

/* One step; start is where the response began if that is in this piece. */
static enum http1_step one_step(struct http1_view *view, const unsigned char *start,
                                struct ls_bytes *in)
{
    const struct http1_parser *p = &view->parser;
    struct ls_bytes body = { NULL, 0 };
    enum http1_step step = http1_parse(&view->parser, in, &body);

    if (step == HTTP1_BODY)
        keep_body(view, body);
    else if (step == HTTP1_INTERIM)
        (void)snprintf(next_row(view), sizeof(view->row[0]), "HTTP/1.%u %u interim", p->minor,
                       p->status);
    else if (step == HTTP1_HEAD && view->template != NULL && start != NULL && p->interims == 0)
        http1_template_learn(view->template, (struct ls_bytes){ start, (size_t)(in->data - start) },
                             p);
    return step;
}

void http1_view_feed(struct http1_view *view, struct ls_bytes in)
{
    while (!view->over && in.len > 0) {
        const unsigned char *start = view->begun ? NULL : in.data;
        enum http1_step last;

        if (!view->begun)
            begin(view, &in);
        do
            last = one_step(view, start, &in);
        while (last != HTTP1_MORE && last != HTTP1_DONE && last != HTTP1_BAD);
        if (last == HTTP1_DONE) {
            show_response(view, 0, NULL);
            view->begun = false;
            view->over = view->parser.status == 101; /* what follows is another protocol */
        } else if (last == HTTP1_BAD) {
            show_bad(view);
        }
    }
}

void http1_view_end(struct http1_view *view)
{
    const struct http1_parser *p = &view->parser;
    enum http1_step step;

    if (view->over || !view->begun)
        return;
    view->over = true;
    step = http1_end(&view->parser);
    if (step == HTTP1_DONE)
        show_response(view, 0, NULL);
    else if (step == HTTP1_BAD)
        show_bad(view);
    else if (strstr(p->why, "content-length") != NULL)
        show_response(view, p->body_left, p->why);
    else if (strstr(p->why, "chunk") != NULL || strstr(p->why, "trailers") != NULL)
        show_response(view, 0, p->why);
    else if (p->interims == 0)
        (void)snprintf(next_row(view), sizeof(view->row[0]), "CUT %s", p->why);
}

void http1_view_text(const struct http1_view *view, char *out, size_t out_bytes)
{
    size_t len = 0;
    bool same = view->rows > 2;

    for (unsigned i = 1; i < view->rows; i++)
        same = same && strcmp(view->row[i], view->row[0]) == 0;
    out[0] = '\0';
    if (same) {
        (void)snprintf(out, out_bytes, "%u x %s", view->rows, view->row[0]);
        return;
    }
    for (unsigned i = 0; i < view->rows && len < out_bytes; i++)
        len +=
            (size_t)snprintf(out + len, out_bytes - len, "%s%s", i > 0 ? " || " : "", view->row[i]);
}
