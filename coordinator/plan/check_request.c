#include "coordinator/plan/plan_check_parts.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "common/msg_model.h"
#include "common/pattern.h"
#include "common/units.h"

#define PIPELINE_MAX 1024u
#define STREAMS_MAX  4096u
#define WEIGHT_MAX   1000000u /* also of the sum, once reduced: the table of places has as many */

/* RFC 9110, section 5.6.2 */
static bool is_token(const char *text)
{
    static const char token[] = "!#$%&'*+-.^_`|~0123456789"
                                "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";

    return *text != '\0' && text[strspn(text, token)] == '\0';
}

static const char *shown(const char *text, char *out)
{
    return ls_excerpt((struct ls_bytes){ (const unsigned char *)text, strlen(text) }, out);
}

static void check_method(struct coord_plan_checker *c, const Ls__Request *request)
{
    static const char *const known[] = {
        "GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH"
    };
    char text[LS_EXCERPT_MAX];

    if (!is_token(request->method)) {
        coord_plan_check_say(c, &request->base, "method", -1,
                             "'%s' is no method: one word such as GET or POST is expected",
                             shown(request->method, text));
        return;
    }
    if (strcmp(request->method, "CONNECT") == 0) {
        coord_plan_check_say(c, &request->base, "method", -1,
                             "CONNECT makes a tunnel, which is not supported");
        return;
    }
    for (size_t i = 0; i < LS_ARRAY_LEN(known); i++) {
        if (strcasecmp(request->method, known[i]) == 0 && strcmp(request->method, known[i]) != 0)
            coord_plan_check_say(c, &request->base, "method", -1,
                                 "methods are case-sensitive: write %s", known[i]);
    }
}

bool coord_plan_is_token(const char *text)
{
    return is_token(text);
}

/* ---- texts with placeholders ------------------------------------------------------------------
 */

/* One request's texts. */
struct texts {
    struct coord_plan_checker *c;
    struct ls_variables variables;
    bool http2;
    bool table_lost; /* what is wrong with it has been said, and {csv:...} is not missed again */
};

/* False: it cannot be read, which has been said. The caller ends with ls_pattern_fini(). */
static bool read_text(struct texts *t, const ProtobufCMessage *message, const char *field,
                      const char *text, unsigned flags, struct ls_pattern *out)
{
    struct ls_diag diag = { 0 };

    if (ls_pattern_parse(&t->variables, text, flags, out, &diag) == LS_OK)
        return true;
    if (!t->table_lost || strstr(text, "{csv:") == NULL)
        coord_plan_check_say(t->c, message, field, -1, "%s", diag.text);
    return false;
}

/* What is wrong with a piece of a path; NULL: nothing. byte: where. */
static const char *bad_path_byte(struct ls_bytes text, unsigned char *out_byte)
{
    for (size_t i = 0; i < text.len; i++) {
        unsigned char byte = text.data[i];

        *out_byte = byte;
        if (byte == '#')
            return "'#'";
        if (byte == ' ')
            return "space";
        if (byte < 0x20 || byte == 0x7f)
            return "control character";
        if (byte >= 0x80)
            return "character beyond ASCII";
    }
    return NULL;
}

static const char *bad_header_byte(struct ls_bytes text, unsigned char *out_byte)
{
    for (size_t i = 0; i < text.len; i++) {
        unsigned char byte = text.data[i];

        *out_byte = byte;
        if (byte == '\r' || byte == '\n')
            return "line end";
        if ((byte < 0x20 && byte != '\t') || byte == 0x7f)
            return "control character";
    }
    return NULL;
}

const char *coord_plan_bad_header(const char *value)
{
    unsigned char byte;

    return bad_header_byte((struct ls_bytes){ (const unsigned char *)value, strlen(value) }, &byte);
}

const char *coord_plan_bad_path(const char *path)
{
    unsigned char byte;

    return bad_path_byte((struct ls_bytes){ (const unsigned char *)path, strlen(path) }, &byte);
}

typedef const char *(*bad_byte_fn)(struct ls_bytes text, unsigned char *out_byte);

struct look {
    bad_byte_fn bad_byte;
    const char *what;
    unsigned char byte;
    struct ls_bytes value;
};

static bool see_value(void *ctx, struct ls_bytes value)
{
    struct look *look = ctx;

    look->value = value;
    look->what = look->bad_byte(value, &look->byte);
    return look->what == NULL;
}

/* Says so if a value of a placeholder cannot stand where it would. */
static bool check_values(struct texts *t, const ProtobufCMessage *message, const char *field,
                         const struct ls_pattern *pattern, bad_byte_fn bad_byte)
{
    struct look look = { .bad_byte = bad_byte };
    char text[LS_EXCERPT_MAX];

    for (size_t i = 0; i < pattern->count; i++) {
        if (pattern->pieces[i].kind != LS_PIECE_VALUE ||
            ls_piece_each(&t->variables, &pattern->pieces[i], see_value, &look))
            continue;
        coord_plan_check_say(t->c, message, field, -1,
                             "a placeholder's value '%s' has a %s in it, which cannot stand here",
                             ls_excerpt(look.value, text), look.what);
        return false;
    }
    return true;
}

static void check_path_text(struct texts *t, const Ls__Request *request,
                            const struct ls_pattern *pattern)
{
    for (size_t i = 0; i < pattern->count; i++) {
        unsigned char byte;
        const char *what = bad_path_byte(pattern->pieces[i].text, &byte);

        if (what == NULL)
            continue;
        if (byte == '#')
            coord_plan_check_say(
                t->c, &request->base, "path", -1,
                "'#' and what follows it is never sent: leave it out, or write %%23");
        else
            coord_plan_check_say(t->c, &request->base, "path", -1,
                                 "has a %s in it: write it as %%%02x", what, byte);
        return;
    }
    (void)check_values(t, &request->base, "path", pattern, bad_path_byte); /* says what is wrong */
}

static void check_path(struct texts *t, const Ls__Request *request)
{
    struct coord_plan_checker *c = t->c;
    const char *path = request->path;
    struct ls_pattern pattern = { 0 };
    char text[LS_EXCERPT_MAX];

    if (strcmp(path, "*") == 0) {
        if (strcmp(request->method, "OPTIONS") != 0)
            coord_plan_check_say(c, &request->base, "path", -1,
                                 "'*' goes with method OPTIONS only");
    } else if (strstr(path, "://") != NULL && path[0] != '/') {
        coord_plan_check_say(
            c, &request->base, "path", -1,
            "only the path belongs here, from '/' on: host and port are the target's");
    } else if (path[0] != '/') {
        coord_plan_check_say(c, &request->base, "path", -1, "'%s' must begin with '/'",
                             shown(path, text));
    } else if (read_text(t, &request->base, "path", path, 0, &pattern)) {
        check_path_text(t, request, &pattern);
        ls_pattern_fini(&pattern);
    }
}

/* The bytes of a body that stays the same, unescaped; false: they are not known here. */
static bool body_bytes(const struct ls_pattern *body, const Ls__Request *request, size_t *out)
{
    *out = 0;
    if (request->body_file != NULL || body->varies)
        return false;
    for (size_t i = 0; i < body->count; i++)
        *out += body->pieces[i].text.len;
    return true;
}

static void check_content_length(struct coord_plan_checker *c, const Ls__Request *request,
                                 const struct ls_pattern *body,
                                 const Ls__Request__HeadersEntry *entry)
{
    size_t len;
    char right[24];
    char text[LS_EXCERPT_MAX];

    if (!body_bytes(body, request, &len)) {
        coord_plan_check_say(c, &entry->base, "value", -1,
                             "cannot be given beside this body: leave it out, it is added");
        return;
    }
    (void)snprintf(right, sizeof(right), "%zu", len);
    if (strcmp(entry->value, right) != 0)
        coord_plan_check_say(c, &entry->base, "value", -1,
                             "is '%s', but the body has %zu bytes: leave it out, it is added",
                             shown(entry->value, text), len);
}

/* These decide about the connection, and are looked at once. */
static bool is_fixed(const char *name)
{
    return strcasecmp(name, "Connection") == 0 || strcasecmp(name, "Content-Length") == 0 ||
           strcasecmp(name, "Upgrade") == 0 || strcasecmp(name, "Expect") == 0;
}

/* RFC 9113, 8.2.2. */
static bool is_of_connection(const char *name)
{
    return strcasecmp(name, "Connection") == 0 || strcasecmp(name, "Keep-Alive") == 0 ||
           strcasecmp(name, "Proxy-Connection") == 0 || strcasecmp(name, "Upgrade") == 0 ||
           strcasecmp(name, "TE") == 0;
}

static void check_value(struct texts *t, const Ls__Request__HeadersEntry *entry)
{
    struct ls_bytes all = { (const unsigned char *)entry->value, strlen(entry->value) };
    unsigned char byte;
    const char *what = bad_header_byte(all, &byte);
    struct ls_pattern pattern = { 0 };

    if (what != NULL) {
        coord_plan_check_say(t->c, &entry->base, "value", -1, "holds a %s: %s", what,
                             what[0] == 'l' ? "a header is one line" : "remove it");
        return;
    }
    if (!read_text(t, &entry->base, "value", entry->value, 0, &pattern))
        return;
    if (pattern.varies && is_fixed(entry->key))
        coord_plan_check_say(t->c, &entry->base, "value", -1,
                             "cannot hold placeholders: this header is the same in each request");
    else
        (void)check_values(t, &entry->base, "value", &pattern, bad_header_byte); /* says it */
    ls_pattern_fini(&pattern);
}

static void check_header(struct texts *t, const Ls__Request *request, const struct ls_pattern *body,
                         const Ls__Request__HeadersEntry *entry)
{
    if (!is_token(entry->key)) {
        coord_plan_check_say(t->c, &entry->base, NULL, -1, "is no name for a header");
        return;
    }
    if (strcasecmp(entry->key, "Transfer-Encoding") == 0) {
        coord_plan_check_say(t->c, &entry->base, NULL, -1,
                             "cannot be set: bodies are sent with a Content-Length");
        return;
    }
    if (t->http2 && is_of_connection(entry->key)) {
        coord_plan_check_say(t->c, &entry->base, NULL, -1,
                             "is about connections of HTTP/1: HTTP/2 has no such header, leave it "
                             "out");
        return;
    }
    check_value(t, entry);
    if (strcasecmp(entry->key, "Content-Length") == 0)
        check_content_length(t->c, request, body, entry);
}

static void check_headers(struct texts *t, const Ls__Request *request,
                          const struct ls_pattern *body)
{
    struct coord_plan_checker *c = t->c;

    if (!coord_plan_check_few(c, &request->base, "headers", request->n_headers))
        return;
    for (size_t i = 0; i < request->n_headers; i++) {
        check_header(t, request, body, request->headers[i]);
        for (size_t k = 0; k < i; k++) {
            if (strcasecmp(request->headers[i]->key, request->headers[k]->key) == 0) {
                coord_plan_check_say(c, &request->headers[i]->base, NULL, -1,
                                     "is given twice, for names of headers are not case-sensitive: "
                                     "keep one");
                break;
            }
        }
    }
}

/* What needs an answer with a body. */
static void check_expects_body(struct texts *t, const Ls__Request *request, const char *field,
                               bool empty)
{
    const Ls__Expect *expect = request->expect;

    if (strcmp(request->method, "HEAD") == 0)
        coord_plan_check_say(t->c, &expect->base, field, -1,
                             "answers to HEAD have no body: leave it out");
    else if (!empty && (expect->status == 204 || expect->status == 304))
        coord_plan_check_say(t->c, &expect->base, field, -1,
                             "answers with status %" PRIu32 " have no body: leave it out",
                             expect->status);
}

static void check_expect(struct texts *t, const Ls__Request *request)
{
    struct coord_plan_checker *c = t->c;
    const Ls__Expect *expect = request->expect;
    struct ls_pattern pattern = { 0 };

    if (expect->has_status && expect->status >= 100 && expect->status < 200)
        coord_plan_check_say(c, &expect->base, "status", -1,
                             "%" PRIu32 " is never the last answer: 200 to 599", expect->status);
    else if (expect->has_status)
        coord_plan_check_range(c, &expect->base, "status", expect->status, 200, 599);
    if (expect->body != NULL && expect->body_file != NULL)
        coord_plan_check_say(c, &expect->base, "body_file", -1,
                             "excludes body: the answer is the one or the other");
    if (expect->body != NULL) {
        check_expects_body(t, request, "body", expect->body[0] == '\0');
        if (read_text(t, &expect->base, "body", expect->body, LS_PATTERN_KNOWN, &pattern))
            ls_pattern_fini(&pattern);
    }
    if (expect->body_file != NULL) {
        check_expects_body(t, request, "body_file", false);
        (void)coord_plan_check_file(c, &expect->base, "body_file", -1, expect->body_file,
                                    COORD_PLAN_FILES_MAX);
    }
    if (expect->decode != LS__DECODE__DECODE_NONE)
        check_expects_body(t, request, "decode", false);
}

/* Of a request in its order of sending, so that what comes later may repeat what came before. */
static void check_texts(struct texts *t, const Ls__Request *request)
{
    struct ls_pattern body = { 0 };
    bool readable = true;

    check_path(t, request);
    if (request->body != NULL && request->body_file != NULL)
        coord_plan_check_say(t->c, &request->base, "body_file", -1,
                             "excludes body: give the one or the other");
    if (request->body != NULL)
        readable = read_text(t, &request->base, "body", request->body, 0, &body);
    if (request->body_file != NULL)
        (void)coord_plan_check_file(t->c, &request->base, "body_file", -1, request->body_file,
                                    COORD_PLAN_FILES_MAX);
    if (readable)
        check_headers(t, request, &body);
    if (request->expect != NULL)
        check_expect(t, request);
    ls_pattern_fini(&body);
}

static void check_request(struct coord_plan_checker *c, const Ls__Request *request,
                          const struct ls_csv *csv, bool table_lost, bool http2)
{
    struct texts t = {
        .c = c, .variables = { .csv = csv }, .http2 = http2, .table_lost = table_lost
    };

    check_method(c, request);
    coord_plan_check_range(c, &request->base, "weight", request->weight, 1, WEIGHT_MAX);
    check_texts(&t, request);
    ls_variables_fini(&t.variables);
}

void coord_plan_check_request(struct coord_plan_checker *c, const Ls__Request *request)
{
    check_request(c, request, NULL, false, false);
}

/* ---- all requests of a workload ---------------------------------------------------------------
 */

/* NULL: there is none, or what is wrong with it has been said. The caller ends it. */
static struct ls_csv *check_data(struct coord_plan_checker *c, const Ls__Data *data)
{
    struct ls_csv *csv = NULL;
    struct ls_diag diag = { 0 };
    enum ls_err rc;

    if (data->file == NULL) {
        coord_plan_check_say(c, &data->base, "file", -1, "is missing: which table?");
        return NULL;
    }
    if (!coord_plan_check_file(c, &data->base, "file", -1, data->file, COORD_PLAN_FILES_MAX))
        return NULL;
    rc = coord_plan_read_table(data, c->base_dir, &csv, &diag);
    if (rc != LS_OK)
        coord_plan_check_say(c, &data->base, "file", -1, "%s", diag.text);
    return csv;
}

static uint64_t common_divisor(uint64_t a, uint64_t b)
{
    return b == 0 ? a : common_divisor(b, a % b);
}

static void check_weights(struct coord_plan_checker *c, const Ls__Http *http)
{
    uint64_t divisor = 0;
    uint64_t sum = 0;

    for (size_t i = 0; i < http->n_requests; i++) {
        divisor = common_divisor(http->requests[i]->weight, divisor);
        sum += http->requests[i]->weight;
    }
    if (divisor > 0 && sum / divisor > WEIGHT_MAX)
        coord_plan_check_say(c, &http->base, "requests", -1,
                             "their weights repeat only after %" PRIu64
                             " requests: at most %u, use rounder ones",
                             sum / divisor, WEIGHT_MAX);
}

static void check_in_flight(struct coord_plan_checker *c, const Ls__Http *http, bool http2)
{
    coord_plan_check_range(c, &http->base, "pipeline", http->pipeline, 1, PIPELINE_MAX);
    coord_plan_check_range(c, &http->base, "streams", http->streams, 1, STREAMS_MAX);
    if (http2 && http->has_pipeline)
        coord_plan_check_say(c, &http->base, "pipeline", -1,
                             "is of HTTP/1: HTTP/2 has streams, such as streams: 16");
    if (!http2 && http->has_streams)
        coord_plan_check_say(c, &http->base, "streams", -1,
                             "is of HTTP/2: set version: http2, or pipeline for HTTP/1");
}

void coord_plan_check_http(struct coord_plan_checker *c, const Ls__Http *http)
{
    bool http2 = http->version == LS__HTTP_VERSION__HTTP_VERSION_HTTP2;
    struct ls_csv *csv = NULL;

    check_in_flight(c, http, http2);
    if (http->data != NULL)
        csv = check_data(c, http->data);
    if (http->n_requests == 0)
        coord_plan_check_say(c, &http->base, "requests", -1,
                             "at least one is needed, such as [{path: /}]");
    for (size_t i = 0; i < http->n_requests; i++)
        check_request(c, http->requests[i], csv, http->data != NULL && csv == NULL, http2);
    check_weights(c, http);
    ls_csv_destroy(csv);
}
