#include "agent/load/probe_text.h"

#include <inttypes.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <sys/un.h>

#include "agent/load/http1_parse.h"
#include "agent/load/http2_frame.h"

enum { QUOTE_TEXT = PROBE_QUOTE_BYTES * 4 + 6 }; /* all escaped, quotes, dots, NUL */

void probe_answer_init(struct probe_answer *answer)
{
    ls_buf_init(&answer->kept, PROBE_ANSWER_KEPT);
    answer->total = 0;
    answer->http2 = false;
}

void probe_answer_fini(struct probe_answer *answer)
{
    ls_buf_fini(&answer->kept);
}

void probe_answer_reset(struct probe_answer *answer)
{
    ls_buf_reset(&answer->kept);
    answer->total = 0;
}

void probe_answer_add(struct probe_answer *answer, struct ls_bytes in)
{
    size_t room = PROBE_ANSWER_KEPT - answer->kept.len;

    answer->total += in.len;
    ls_buf_add(&answer->kept, in.data, in.len < room ? in.len : room);
}

/* "text" in quotes, escaped, with dots if there is more. */
static const char *quote(struct ls_bytes text, char out[QUOTE_TEXT])
{
    size_t n = text.len < PROBE_QUOTE_BYTES ? text.len : PROBE_QUOTE_BYTES;
    char *at = out;

    *at++ = '"';
    for (size_t i = 0; i < n; i++) {
        unsigned char c = text.data[i];

        if (c == '\n' || c == '\r' || c == '\t' || c == '"' || c == '\\') {
            *at++ = '\\';
            *at++ = c == '\n' ? 'n' : c == '\r' ? 'r' : c == '\t' ? 't' : (char)c;
        } else if (c < ' ' || c > '~') {
            at += snprintf(at, 5, "\\x%02x", c);
        } else {
            *at++ = (char)c;
        }
    }
    *at++ = '"';
    (void)snprintf(at, 4, "%s", n < text.len ? "..." : "");
    return out;
}

/* Reads what was kept once more, now that there is time: head into parser, body appended. */
static void read_again(const struct probe_answer *answer, const struct load_request *request,
                       struct http1_parser *parser, char reason[HTTP1_REASON_KEPT],
                       struct ls_buf *body)
{
    struct ls_bytes in = { answer->kept.data, answer->kept.len };
    struct ls_bytes piece;
    enum http1_step step;

    http1_begin(parser, request->no_body ? HTTP1_TO_HEAD : 0);
    parser->reason = reason;
    do {
        step = http1_parse(parser, &in, &piece);
        if (step == HTTP1_BODY)
            ls_buf_add(body, piece.data, piece.len);
    } while (step == HTTP1_INTERIM || step == HTTP1_HEAD || step == HTTP1_BODY);
}

/* The same of frames: there is only one stream, so all data is its. */
static void read_frames(const struct probe_answer *answer, struct ls_buf *body)
{
    struct ls_bytes in = { answer->kept.data, answer->kept.len };

    while (in.len >= HTTP2_HEAD_BYTES) {
        size_t len = http2_frame_len(in.data);
        size_t pad = 0;

        if (len > in.len - HTTP2_HEAD_BYTES)
            len = in.len - HTTP2_HEAD_BYTES;
        if (in.data[3] == HTTP2_DATA) {
            if ((in.data[4] & HTTP2_PADDED) != 0 && len > 0)
                pad = 1u + in.data[HTTP2_HEAD_BYTES];
            if (pad <= len)
                ls_buf_add(body, in.data + HTTP2_HEAD_BYTES + (pad > 0), len - pad);
        }
        in.data += HTTP2_HEAD_BYTES + len;
        in.len -= HTTP2_HEAD_BYTES + len;
    }
}

static struct ls_bytes bytes_from(struct ls_bytes all, uint64_t at)
{
    if (at > all.len)
        at = all.len;
    return (struct ls_bytes){ all.data + at, all.len - (size_t)at };
}

static void explain_status(const struct load_request *request, const struct agent_reply *reply,
                           const struct http1_parser *parser, struct ls_bytes body,
                           struct ls_diag *diag)
{
    char want[32] = "a status of 200 to 399";
    char got[QUOTE_TEXT];

    if (request->expect_status != 0)
        (void)snprintf(want, sizeof(want), "status %u", request->expect_status);
    (void)ls_fail(diag, LS_EPROTO, "%s: expected %s, got %u%s%.*s (%s)", request->label, want,
                  reply->status, parser->reason_len > 0 ? " " : "", (int)parser->reason_len,
                  parser->reason, body.len > 0 ? quote(body, got) : "no body");
}

static void explain_body(const struct load_request *request, const struct agent_reply *reply,
                         struct ls_bytes body, struct ls_diag *diag)
{
    char want[QUOTE_TEXT];
    char got[QUOTE_TEXT];
    struct ls_bytes rest = bytes_from(body, reply->mismatch_at);
    size_t expected = request->expect_body.len;

    /* What was kept is the coded form. */
    if (request->gunzip || strncmp(reply->why, "body differs: ", 14) == 0) {
        (void)ls_fail(diag, LS_EPROTO, "%s: %s (at byte %" PRIu64 "; it begins with %s)",
                      request->label, reply->why, reply->mismatch_at, quote(body, got));
        return;
    }
    if (reply->mismatch_at >= expected)
        (void)ls_fail(diag, LS_EPROTO,
                      "%s: body is longer than the %zu bytes expected: got %" PRIu64
                      ", the rest begins with %s",
                      request->label, expected, reply->body_bytes, quote(rest, got));
    else if (reply->mismatch_at >= reply->body_bytes)
        (void)ls_fail(diag, LS_EPROTO,
                      "%s: body is shorter than the %zu bytes expected: got %" PRIu64 ": %s",
                      request->label, expected, reply->body_bytes, quote(body, got));
    else
        (void)ls_fail(diag, LS_EPROTO, "%s: body differs at byte %" PRIu64 ": expected %s, got %s",
                      request->label, reply->mismatch_at,
                      quote(bytes_from(request->expect_body, reply->mismatch_at), want),
                      rest.len > 0 ? quote(rest, got) : "something else");
}

void probe_answer_explain(const struct probe_answer *answer, const struct load_request *request,
                          const struct agent_reply *reply, struct ls_diag *diag)
{
    char got[QUOTE_TEXT];
    char reason[HTTP1_REASON_KEPT];
    struct http1_parser parser;
    struct ls_buf body;

    if (request->frames && reply->outcome != LOAD_BAD_STATUS) {
        (void)ls_fail(diag, LS_EPROTO, "%s: %s; what the server sent begins with %s",
                      request->label, reply->why,
                      quote((struct ls_bytes){ answer->kept.data, answer->kept.len }, got));
        return;
    }
    if (reply->outcome == LOAD_BAD_FRAMING) {
        (void)ls_fail(diag, LS_EPROTO, "%s: %s%s; it begins with %s", request->label,
                      answer->http2 ? "" : "not a proper HTTP/1 answer: ", reply->why,
                      quote((struct ls_bytes){ answer->kept.data, answer->kept.len }, got));
        return;
    }
    ls_buf_init(&body, PROBE_ANSWER_KEPT);
    if (answer->http2) {
        http1_begin(&parser, 0); /* no reason phrase */
        read_frames(answer, &body);
    } else {
        read_again(answer, request, &parser, reason, &body);
    }
    if (reply->outcome == LOAD_BAD_STATUS)
        explain_status(request, reply, &parser, (struct ls_bytes){ body.data, body.len }, diag);
    else
        explain_body(request, reply, (struct ls_bytes){ body.data, body.len }, diag);
    ls_buf_fini(&body);
}

void probe_address_text(const struct sockaddr_storage *address, socklen_t address_len,
                        char out[PROBE_ADDRESS_BYTES])
{
    char host[INET6_ADDRSTRLEN + 32] = "?"; /* with a scope */
    char port[8] = "?";

    if (address->ss_family == AF_UNIX) {
        const struct sockaddr_un *un = (const struct sockaddr_un *)address;

        (void)snprintf(out, PROBE_ADDRESS_BYTES, "%.*s", (int)sizeof(un->sun_path), un->sun_path);
        return;
    }
    /* If it fails, the marks above are shown. */
    (void)getnameinfo((const struct sockaddr *)address, address_len, host, sizeof(host), port,
                      sizeof(port), NI_NUMERICHOST | NI_NUMERICSERV);
    (void)snprintf(out, PROBE_ADDRESS_BYTES, address->ss_family == AF_INET6 ? "[%s]:%s" : "%s:%s",
                   host, port);
}
