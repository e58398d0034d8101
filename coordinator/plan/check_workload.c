#include "coordinator/plan/plan_check_parts.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "common/clock.h"
#include "common/msg_model.h"
#include "common/units.h"
#include "coordinator/plan/load_law.h"

#define PIPELINE_MAX 1024u
#define REPORTS_MAX  100000 /* of one agent in one trial */

/* ---- requests ---------------------------------------------------------------------------------
 */

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

static void check_path(struct coord_plan_checker *c, const Ls__Request *request)
{
    const char *path = request->path;
    char text[LS_EXCERPT_MAX];

    if (strcmp(path, "*") == 0) {
        if (strcmp(request->method, "OPTIONS") != 0)
            coord_plan_check_say(c, &request->base, "path", -1,
                                 "'*' goes with method OPTIONS only");
        return;
    }
    if (strstr(path, "://") != NULL && path[0] != '/') {
        coord_plan_check_say(
            c, &request->base, "path", -1,
            "only the path belongs here, from '/' on: host and port are the target's");
        return;
    }
    if (path[0] != '/') {
        coord_plan_check_say(c, &request->base, "path", -1, "'%s' must begin with '/'",
                             shown(path, text));
        return;
    }
    for (const char *at = path; *at != '\0'; at++) {
        unsigned char byte = (unsigned char)*at;

        if (byte == '#') {
            coord_plan_check_say(
                c, &request->base, "path", -1,
                "'#' and what follows it is never sent: leave it out, or write %%23");
            return;
        }
        if (byte <= 0x20 || byte >= 0x7f) {
            coord_plan_check_say(c, &request->base, "path", -1,
                                 "has a %s in it: write it as %%%02x",
                                 byte == ' '    ? "space"
                                 : byte >= 0x80 ? "character beyond ASCII"
                                                : "control character",
                                 byte);
            return;
        }
    }
}

static void check_content_length(struct coord_plan_checker *c, const Ls__Request *request,
                                 const Ls__Request__HeadersEntry *entry)
{
    size_t len = request->body == NULL ? 0 : strlen(request->body);
    char right[24];
    char text[LS_EXCERPT_MAX];

    (void)snprintf(right, sizeof(right), "%zu", len);
    if (strcmp(entry->value, right) != 0)
        coord_plan_check_say(c, &entry->base, "value", -1,
                             "is '%s', but the body has %zu bytes: leave it out, it is added",
                             shown(entry->value, text), len);
}

static void check_header(struct coord_plan_checker *c, const Ls__Request *request,
                         const Ls__Request__HeadersEntry *entry)
{
    if (!is_token(entry->key)) {
        coord_plan_check_say(c, &entry->base, NULL, -1, "is no name for a header");
        return;
    }
    if (strcasecmp(entry->key, "Transfer-Encoding") == 0) {
        coord_plan_check_say(c, &entry->base, NULL, -1,
                             "cannot be set: bodies are sent with a Content-Length");
        return;
    }
    for (const char *at = entry->value; *at != '\0'; at++) {
        unsigned char byte = (unsigned char)*at;

        if (byte == '\r' || byte == '\n') {
            coord_plan_check_say(c, &entry->base, "value", -1,
                                 "holds a line end: a header is one line");
            return;
        }
        if ((byte < 0x20 && byte != '\t') || byte == 0x7f) {
            coord_plan_check_say(c, &entry->base, "value", -1,
                                 "holds a control character: remove it");
            return;
        }
    }
    if (strcasecmp(entry->key, "Content-Length") == 0)
        check_content_length(c, request, entry);
}

static void check_headers(struct coord_plan_checker *c, const Ls__Request *request)
{
    if (!coord_plan_check_few(c, &request->base, "headers", request->n_headers))
        return;
    for (size_t i = 0; i < request->n_headers; i++) {
        check_header(c, request, request->headers[i]);
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

static void check_expect(struct coord_plan_checker *c, const Ls__Request *request)
{
    const Ls__Expect *expect = request->expect;
    bool has_body = expect->body != NULL;

    if (expect->has_status && expect->status >= 100 && expect->status < 200)
        coord_plan_check_say(c, &expect->base, "status", -1,
                             "%" PRIu32 " is never the last answer: 200 to 599", expect->status);
    else if (expect->has_status)
        coord_plan_check_range(c, &expect->base, "status", expect->status, 200, 599);
    if (has_body && strcmp(request->method, "HEAD") == 0)
        coord_plan_check_say(c, &expect->base, "body", -1,
                             "answers to HEAD have no body: leave it out");
    else if (has_body && expect->body[0] != '\0' &&
             (expect->status == 204 || expect->status == 304))
        coord_plan_check_say(c, &expect->base, "body", -1,
                             "answers with status %" PRIu32 " have no body: leave it out",
                             expect->status);
}

void coord_plan_check_request(struct coord_plan_checker *c, const Ls__Request *request)
{
    check_method(c, request);
    check_path(c, request);
    check_headers(c, request);
    if (request->expect != NULL)
        check_expect(c, request);
}

static void check_http(struct coord_plan_checker *c, const Ls__Http *http)
{
    coord_plan_check_range(c, &http->base, "pipeline", http->pipeline, 1, PIPELINE_MAX);
    if (http->n_requests == 0)
        coord_plan_check_say(c, &http->base, "requests", -1,
                             "at least one is needed, such as [{path: /}]");
    for (size_t i = 0; i < http->n_requests; i++)
        coord_plan_check_request(c, http->requests[i]);
}

/* ---- connections -------------------------------------------------------------------------------
 */

static void check_connections(struct coord_plan_checker *c, const Ls__Workload *w)
{
    coord_plan_check_range(c, &w->base, "connections", w->connections, 1,
                           COORD_PLAN_CONNECTIONS_MAX);
    if (w->connections >= 1 && w->connections < c->clients)
        coord_plan_check_say(c, &w->base, "connections", -1,
                             "%" PRIu32 " are too few for %" PRIu32
                             " clients: each opens at least one",
                             w->connections, c->clients);
}

/* ---- time -------------------------------------------------------------------------------------
 */

static void check_interval(struct coord_plan_checker *c, const Ls__Workload *w)
{
    int64_t measure_ns = coord_load_measure_ns(w);
    char interval[48];
    char measure[48];

    if (w->interval == NULL || w->interval->ns <= 0 || measure_ns <= 0)
        return;
    (void)ls_format_duration(w->interval->ns, interval, sizeof(interval));
    (void)ls_format_duration(measure_ns, measure, sizeof(measure));
    if (w->interval->ns > measure_ns)
        coord_plan_check_say(c, &w->base, "interval", -1,
                             "%s is longer than the measurement of %s: shorten it", interval,
                             measure);
    else if (measure_ns / w->interval->ns > REPORTS_MAX)
        coord_plan_check_say(c, &w->base, "interval", -1,
                             "%s in %s make more than %d reports: lengthen it", interval, measure,
                             REPORTS_MAX);
}

static void check_times(struct coord_plan_checker *c, const Ls__Workload *w)
{
    coord_plan_check_duration(c, &w->base, "warmup", w->warmup, 0, 3600 * LS_NS_PER_S);
    coord_plan_check_duration(c, &w->base, "measure", w->measure, 100 * LS_NS_PER_MS,
                              86400 * LS_NS_PER_S);
    coord_plan_check_duration(c, &w->base, "timeout", w->timeout, LS_NS_PER_MS, 600 * LS_NS_PER_S);
    coord_plan_check_duration(c, &w->base, "interval", w->interval, 100 * LS_NS_PER_MS,
                              60 * LS_NS_PER_S);
    check_interval(c, w);
}

void coord_plan_check_workload(struct coord_plan_checker *c, const Ls__Workload *w)
{
    coord_plan_check_name(c, &w->base, w->name, "workload");
    if (w->protocol_case == LS__WORKLOAD__PROTOCOL_HTTP)
        check_http(c, w->http);
    else
        coord_plan_check_say(c, &w->base, "http", -1,
                             "is missing: what to send, such as http: {requests: [{path: /}]}");
    check_connections(c, w);
    check_times(c, w);
    coord_plan_check_load(c, w);
}
