#include "agent/respond/answer.h"

#include <stdlib.h>
#include <string.h>

#include "common/buf.h"

#define ANSWER_MAX    ((size_t)40 << 20)
#define COPIES_BYTES  32768u
#define CHUNK_BYTES   4096u
#define FLOOD         10000
#define ENDLESS_BYTES (1u << 20)

/* The forms of one answer. */
enum form { FORM_BODY, FORM_HEAD, FORM_BODY_LAST, FORM_HEAD_LAST, FORM_COUNT };

struct respond_answers {
    struct respond_answer bad;
    struct respond_answer go_on;
    struct respond_answer of[RESPOND_RULES_MAX + 1][FORM_COUNT]; /* [0] is the normal one */
};

static const char *reason(unsigned status)
{
    static const struct {
        unsigned status;
        const char *reason;
    } known[] = {
        { 200, "OK" },
        { 204, "No Content" },
        { 304, "Not Modified" },
        { 400, "Bad Request" },
        { 404, "Not Found" },
        { 429, "Too Many Requests" },
        { 500, "Internal Server Error" },
        { 503, "Service Unavailable" },
    };

    for (size_t i = 0; i < LS_ARRAY_LEN(known); i++) {
        if (known[i].status == status)
            return known[i].reason;
    }
    return "Other";
}

static void add_chunked(struct ls_buf *out, const char *body, size_t len)
{
    /* Two chunks at least, so that there is something to put together. */
    size_t chunk = len / 2 + 1 < CHUNK_BYTES ? len / 2 + 1 : CHUNK_BYTES;

    for (size_t at = 0; at < len; at += chunk) {
        size_t n = len - at < chunk ? len - at : chunk;

        ls_buf_addf(out, "%zx\r\n", n);
        ls_buf_add(out, body + at, n);
        ls_buf_adds(out, "\r\n");
    }
    ls_buf_adds(out, "0\r\n\r\n");
}

static void add_framing(struct ls_buf *out, const struct respond_settings *settings,
                        enum respond_action action)
{
    if (action == RESPOND_BAD_LENGTH)
        ls_buf_addf(out, "Content-Length: %zux\r\n", settings->body_len);
    else if (!settings->chunked || action == RESPOND_BOTH_FRAMINGS)
        ls_buf_addf(out, "Content-Length: %zu\r\n", settings->body_len);
    if (settings->chunked || action == RESPOND_BOTH_FRAMINGS)
        ls_buf_adds(out, "Transfer-Encoding: chunked\r\n");
}

/* The whole answer, without what an action cuts off or adds. Returns where its head ends. */
static size_t add_message(struct ls_buf *out, const struct respond_settings *settings,
                          enum respond_action action, unsigned status, bool last)
{
    bool bodiless = status == 204 || status == 304;
    bool chunked = settings->chunked || action == RESPOND_BOTH_FRAMINGS;
    size_t head_end;
    size_t body_at;

    ls_buf_addf(out, "HTTP/1.1 %u %s\r\n", status, reason(status));
    if (!bodiless)
        add_framing(out, settings, action);
    ls_buf_adds(out, "Content-Type: text/plain\r\n");
    if (last)
        ls_buf_adds(out, "Connection: close\r\n");
    ls_buf_adds(out, "\r\n");
    head_end = out->len;
    if (bodiless)
        return head_end;
    body_at = out->len;
    if (chunked)
        add_chunked(out, settings->body, settings->body_len);
    else
        ls_buf_add(out, settings->body, settings->body_len);
    if (action == RESPOND_WRONG_BODY && out->ok) {
        /* The first byte of the body; with chunks it stands behind the first size line. */
        unsigned char *first = out->data + body_at;

        if (chunked)
            first = (unsigned char *)memchr(first, '\n', out->len - body_at) + 1;
        *first ^= 1;
    }
    return head_end;
}

static void add_endless(struct ls_buf *out)
{
    ls_buf_adds(out, "HTTP/1.1 200 OK\r\n");
    for (unsigned i = 0; out->ok && out->len < ENDLESS_BYTES; i++)
        ls_buf_addf(out, "X-Endless-%u: and so on\r\n", i);
}

/* Writes the bytes of an action in the form for HEAD or not; sets how it ends. */
static void compose(struct ls_buf *out, const struct respond_settings *settings,
                    const struct respond_rule *rule, bool head, bool last,
                    struct respond_answer *answer)
{
    enum respond_action action = rule->action;
    unsigned status = action == RESPOND_STATUS ? rule->status : 200;
    size_t start;
    size_t head_end;

    if (action == RESPOND_GARBAGE)
        ls_buf_add(out, "\x16\x03\x01\x02\x00\x01\x00garbage\r\n\r\n\xff\xfe", 20);
    if (action == RESPOND_ENDLESS_HEAD)
        add_endless(out);
    if (action == RESPOND_CLOSE || action == RESPOND_RESET || action == RESPOND_NO_ANSWER ||
        out->len > 0)
        return;
    if (settings->interim)
        ls_buf_adds(out, "HTTP/1.1 103 Early Hints\r\nLink: </style.css>; rel=preload\r\n\r\n");
    for (unsigned i = 0; action == RESPOND_INTERIM_FLOOD && i < FLOOD; i++)
        ls_buf_adds(out, "HTTP/1.1 102 Processing\r\n\r\n");
    start = out->len;
    head_end = add_message(out, settings, action, status, last);
    if (head)
        out->len = head_end;
    if (action == RESPOND_SHORT)
        out->len -= head ? 0 : 1;
    else if (action == RESPOND_LONG)
        ls_buf_adds(out, "!");
    else if (action == RESPOND_HALF)
        out->len = start + (out->len - start) / 2;
    else if (action == RESPOND_CUT_HEAD)
        out->len = start + (head_end - start) / 2;
    else if (action == RESPOND_UNASKED_408)
        ls_buf_adds(out, "HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\n"
                         "Connection: close\r\n\r\n");
    else if (action == RESPOND_TWICE) {
        (void)add_message(out, settings, action, status, last);
        if (head)
            out->len = head_end + (head_end - start);
    }
    if (action != RESPOND_SHORT && action != RESPOND_HALF && action != RESPOND_CUT_HEAD)
        answer->part = RESPOND_COMPLETE;
}

static enum respond_ending ending_of(enum respond_action action, bool last)
{
    switch (action) {
    case RESPOND_CLOSE:
    case RESPOND_SHORT:
    case RESPOND_GARBAGE:
    case RESPOND_CUT_HEAD:
    case RESPOND_ENDLESS_HEAD:
    case RESPOND_BYE:
    case RESPOND_UNASKED_408:
        return RESPOND_END_CLOSE;
    case RESPOND_RESET:
    case RESPOND_HALF:
        return RESPOND_END_RESET;
    case RESPOND_NO_ANSWER:
        return RESPOND_END_NEVER;
    default:
        return last ? RESPOND_END_CLOSE : RESPOND_KEEP;
    }
}

/* Takes the bytes of buf, several times in a row if that is worth it. */
static enum ls_err keep_bytes(const struct ls_buf *buf, struct respond_answer *answer)
{
    size_t len = buf->len;

    if (!buf->ok)
        return LS_ENOMEM;
    answer->len = len;
    answer->copies = 1;
    if (len == 0)
        return LS_OK;
    if (answer->ending == RESPOND_KEEP && answer->drip_ns == 0 && len < COPIES_BYTES)
        answer->copies = (uint32_t)(COPIES_BYTES / len);
    answer->bytes = malloc(answer->copies * len);
    if (answer->bytes == NULL)
        return LS_ENOMEM;
    for (uint32_t i = 0; i < answer->copies; i++)
        (void)memcpy(answer->bytes + i * len, buf->data, len);
    return LS_OK;
}

static enum ls_err make(const struct respond_settings *settings, const struct respond_rule *rule,
                        enum form form, struct respond_answer *answer)
{
    bool head = form == FORM_HEAD || form == FORM_HEAD_LAST;
    bool last = form == FORM_BODY_LAST || form == FORM_HEAD_LAST || settings->close ||
                rule->action == RESPOND_BYE;
    struct ls_buf buf;
    enum ls_err rc;

    ls_buf_init(&buf, ANSWER_MAX);
    answer->part = RESPOND_BROKEN;
    answer->ending = ending_of(rule->action, last);
    answer->later_ns = rule->action == RESPOND_SLOW ? rule->duration_ns : 0;
    answer->drip_ns = rule->action == RESPOND_DRIP ? rule->duration_ns : 0;
    compose(&buf, settings, rule, head, last, answer);
    rc = keep_bytes(&buf, answer);
    ls_buf_fini(&buf);
    return rc;
}

static enum ls_err make_extra(const char *text, enum respond_ending ending,
                              struct respond_answer *answer)
{
    struct ls_buf buf;
    enum ls_err rc;

    ls_buf_init(&buf, ANSWER_MAX);
    ls_buf_adds(&buf, text);
    answer->part = RESPOND_EXTRA;
    answer->ending = ending;
    rc = keep_bytes(&buf, answer);
    ls_buf_fini(&buf);
    return rc;
}

static enum ls_err make_extras(struct respond_answers *answers)
{
    enum ls_err rc = make_extra("HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n"
                                "Connection: close\r\n\r\n",
                                RESPOND_END_CLOSE, &answers->bad);

    if (rc != LS_OK)
        return rc;
    return make_extra("HTTP/1.1 100 Continue\r\n\r\n", RESPOND_KEEP, &answers->go_on);
}

enum ls_err respond_answers_create(const struct respond_settings *settings,
                                   struct respond_answers **out_answers, struct ls_diag *diag)
{
    static const struct respond_rule normal = { .action = RESPOND_NORMAL };
    struct respond_answers *answers = calloc(1, sizeof(*answers));
    enum ls_err rc = answers != NULL ? make_extras(answers) : LS_ENOMEM;

    for (size_t i = 0; rc == LS_OK && i <= settings->rule_count; i++) {
        const struct respond_rule *rule = i == 0 ? &normal : &settings->rules[i - 1];

        for (int form = 0; rc == LS_OK && form < FORM_COUNT; form++)
            rc = make(settings, rule, (enum form)form, &answers->of[i][form]);
    }
    if (rc != LS_OK) {
        respond_answers_destroy(answers);
        return ls_fail(diag, rc, "no memory for the answers");
    }
    *out_answers = answers;
    return LS_OK;
}

void respond_answers_destroy(struct respond_answers *answers)
{
    if (answers == NULL)
        return;
    free(answers->bad.bytes);
    free(answers->go_on.bytes);
    for (size_t i = 0; i <= RESPOND_RULES_MAX; i++) {
        for (int form = 0; form < FORM_COUNT; form++)
            free(answers->of[i][form].bytes);
    }
    free(answers);
}

const struct respond_answer *respond_answers_get(const struct respond_answers *answers, int rule,
                                                 bool head, bool last)
{
    return &answers->of[rule + 1][(head ? 1 : 0) + (last ? 2 : 0)];
}

const struct respond_answer *respond_answers_bad(const struct respond_answers *answers)
{
    return &answers->bad;
}

const struct respond_answer *respond_answers_continue(const struct respond_answers *answers)
{
    return &answers->go_on;
}
