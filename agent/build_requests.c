#include "agent/build_requests.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "agent/load/http2_request.h"
#include "agent/load/http_request.h"
#include "agent/load/mix.h"
#include "agent/load/variation.h"
#include "common/csv.h"

struct agent_requests {
    struct load_request *items;        /* owned, with what they hold */
    struct load_variation *variations; /* owned; one for each, used if it varies */
    unsigned char **bodies;            /* owned: expected bodies that do not vary */
    size_t count;
    struct load_http2 *http2; /* owned; NULL: HTTP/1 */
    struct ls_csv *csv;       /* owned */
    struct load_place *mix;   /* owned */
    uint32_t mix_len;
};

/* While one request is made. */
struct making {
    const struct agent_requests_source *source;
    const Ls__Request *in;
    const char *authority;
    struct load_request *out;
    struct load_variation *variation;
    unsigned char **body;
    size_t *budget;
};

void agent_requests_destroy(struct agent_requests *requests)
{
    if (requests == NULL)
        return;
    for (size_t i = 0; i < requests->count; i++) {
        agent_http_request_fini(&requests->items[i]);
        load_variation_fini(&requests->variations[i]);
        free(requests->bodies[i]);
    }
    free(requests->items);
    free(requests->variations);
    free(requests->bodies);
    free(requests->mix);
    http2_shared_destroy(requests->http2);
    ls_csv_destroy(requests->csv);
    free(requests);
}

static enum ls_err find_file(const struct agent_requests_source *source, const char *name,
                             struct ls_bytes *out, struct ls_diag *diag)
{
    for (size_t i = 0; i < source->ref_count; i++) {
        if (strcmp(source->refs[i]->name, name) == 0)
            return agent_files_get(source->files, source->refs[i]->sha256, out, diag);
    }
    return ls_fail(diag, LS_EPROTO, "file '%.120s' did not come with the plan", name);
}

/* ---- one request -------------------------------------------------------------------------------
 */

static bool has_header(const Ls__Request *in, const char *name)
{
    for (size_t i = 0; i < in->n_headers; i++) {
        if (strcasecmp(in->headers[i]->key, name) == 0)
            return true;
    }
    return false;
}

/* The head as the text of a pattern; text in out->bytes until it has been read. */
static enum ls_err format_head(const struct making *m, const char *length, size_t body_bytes,
                               struct ls_diag *diag)
{
    const Ls__Request *in = m->in;
    struct agent_http_header *headers = calloc(in->n_headers + 1, sizeof(*headers));
    size_t n = 0;
    enum ls_err rc;

    if (headers == NULL)
        return ls_fail(diag, LS_ENOMEM, "out of memory for a request's headers");
    for (; n < in->n_headers; n++) {
        headers[n].name = in->headers[n]->key;
        headers[n].value = in->headers[n]->value != NULL ? in->headers[n]->value : "";
    }
    if (m->out->gunzip && !has_header(in, "Accept-Encoding"))
        headers[n++] = (struct agent_http_header){ "Accept-Encoding", "gzip" };
    rc =
        agent_http_request_format_head(&(struct agent_http_request){ .method = in->method,
                                                                     .target = in->path,
                                                                     .host = m->authority,
                                                                     .headers = headers,
                                                                     .header_count = n,
                                                                     .body = { NULL, body_bytes } },
                                       length, m->out, diag);
    free(headers);
    return rc;
}

/* Head and body as patterns; out has a label and flags, and bytes that are of no use any more. */
static enum ls_err read_patterns(const struct making *m, struct ls_diag *diag)
{
    struct load_variation *v = m->variation;
    size_t body_bytes = 0;
    char number[24];
    const char *length = NULL;
    enum ls_err rc;

    /* In the order of the coordinator's check: the path's placeholders come first. */
    rc = ls_pattern_parse(&v->variables, m->in->path, 0, &v->head, diag);
    if (rc != LS_OK)
        return rc;
    ls_pattern_fini(&v->head);
    if (m->in->body_file != NULL)
        rc = find_file(m->source, m->in->body_file, &v->fixed_body, diag);
    else if (m->in->body != NULL)
        rc = ls_pattern_parse(&v->variables, m->in->body, 0, &v->body, diag);
    if (rc != LS_OK)
        return rc;
    body_bytes = v->fixed_body.len;
    for (size_t i = 0; i < v->body.count && !v->body.varies; i++)
        body_bytes += v->body.pieces[i].text.len;
    if (v->body.varies || body_bytes > 0) {
        (void)snprintf(number, sizeof(number), "%zu", body_bytes);
        length = v->body.varies ? "{length}" : number;
    }
    rc = format_head(m, length, body_bytes, diag);
    if (rc != LS_OK)
        return rc;
    /* A text of our own making, NUL-terminated by the buffer that it was in. */
    return ls_pattern_parse(&v->variables, (const char *)m->out->bytes.data, LS_PATTERN_LENGTH,
                            &v->head, diag);
}

static enum ls_err read_expected(const struct making *m, struct ls_diag *diag)
{
    const Ls__Expect *e = m->in->expect;
    struct load_variation *v = m->variation;
    struct load_request *out = m->out;
    enum ls_err rc;

    if (e == NULL)
        return LS_OK;
    if (e->has_status)
        out->expect_status = (uint16_t)e->status;
    out->expect_body_given = e->body != NULL || e->body_file != NULL;
    if (e->body_file != NULL)
        return find_file(m->source, e->body_file, &out->expect_body, diag);
    if (e->body == NULL)
        return LS_OK;
    rc = ls_pattern_parse(&v->variables, e->body, LS_PATTERN_KNOWN, &v->expect, diag);
    if (rc != LS_OK || v->expect.varies)
        return rc;
    *m->body = malloc(strlen(e->body) + 1);
    if (*m->body == NULL)
        return ls_fail(diag, LS_ENOMEM, "out of memory for an expected body");
    out->expect_body.data = *m->body;
    out->expect_body.len = load_variation_expect(v, 0, *m->body);
    return LS_OK;
}

/* One that does not vary is all its bytes in one piece. */
static enum ls_err settle(const struct making *m, struct ls_diag *diag)
{
    struct load_variation *v = m->variation;
    unsigned char *bytes;
    size_t len;

    v->expect_varies = v->expect.varies;
    if (v->variables.count > 0) {
        m->out->varied = v;
        return load_variation_prepare(v, m->budget, diag);
    }
    /* Unescaped it is no longer than it was, and its length stands in it as it is. */
    bytes = malloc(m->out->bytes.len + (m->in->body != NULL ? strlen(m->in->body) : 0) +
                   v->fixed_body.len + 1);
    if (bytes == NULL)
        return ls_fail(diag, LS_ENOMEM, "out of memory for a request");
    len = load_variation_render(v, 0, bytes);
    if (v->fixed_body.len > 0)
        memcpy(bytes + len, v->fixed_body.data, v->fixed_body.len);
    free((void *)(uintptr_t)m->out->bytes.data);
    m->out->bytes = (struct ls_bytes){ bytes, len + v->fixed_body.len };
    load_variation_fini(v);
    return LS_OK;
}

static enum ls_err make(const struct making *m, struct ls_diag *diag)
{
    const Ls__Expect *e = m->in->expect;
    enum ls_err rc;

    if (m->in->method == NULL || m->in->path == NULL)
        return ls_fail(diag, LS_EPROTO, "a request without method or path");
    m->out->weight = m->in->weight;
    m->out->gunzip = e != NULL && e->decode == LS__DECODE__DECODE_GZIP;
    rc = read_patterns(m, diag);
    if (rc == LS_OK)
        rc = read_expected(m, diag);
    if (rc == LS_OK)
        rc = settle(m, diag);
    return rc;
}

/* ---- HTTP/2: frames made of what HTTP/1 would send --------------------------------------------
 */

/* The lines of a head that do not vary. *out_lines is the caller's. */
static enum ls_err fixed_lines(const struct load_request *request, struct ls_bytes *out_lines)
{
    const struct ls_pattern *head = request->varied != NULL ? &request->varied->head : NULL;
    size_t cap = 0;
    unsigned char *lines;
    size_t len = 0;

    for (size_t i = 0; head != NULL && i < head->count; i++)
        cap += head->pieces[i].text.len;
    lines = malloc((head != NULL ? cap : request->bytes.len) + 1);
    if (lines == NULL)
        return LS_ENOMEM;
    if (head == NULL) {
        const unsigned char *end = memmem(request->bytes.data, request->bytes.len, "\r\n\r\n", 4);

        len = (size_t)(end + 2 - request->bytes.data);
        memcpy(lines, request->bytes.data, len);
    }
    for (size_t i = 0; head != NULL && i < head->count; i++) {
        const struct ls_bytes *text = &head->pieces[i].text;
        const unsigned char *from, *to;

        if (text->len == 0)
            continue;
        from = i == 0 ? NULL : memchr(text->data, '\n', text->len);
        from = i == 0 ? text->data : from != NULL ? from + 1 : NULL;
        to = memrchr(text->data, '\n', text->len);
        if (from == NULL || to == NULL || to < from)
            continue;
        memcpy(lines + len, from, (size_t)(to + 1 - from));
        len += (size_t)(to + 1 - from);
    }
    *out_lines = (struct ls_bytes){ lines, len };
    return LS_OK;
}

static enum ls_err share_fields(struct agent_requests *r, bool tls, struct ls_diag *diag)
{
    struct ls_bytes *lines = calloc(r->count, sizeof(*lines));
    enum ls_err rc = lines != NULL ? LS_OK : LS_ENOMEM;

    for (size_t i = 0; rc == LS_OK && i < r->count; i++)
        rc = fixed_lines(&r->items[i], &lines[i]);
    if (rc == LS_OK)
        rc = http2_shared_create(lines, r->count, tls, &r->http2, diag);
    else
        (void)ls_fail(diag, rc, "out of memory for requests");
    for (size_t i = 0; lines != NULL && i < r->count; i++)
        free((void *)(uintptr_t)lines[i].data);
    free(lines);
    return rc;
}

static void note_frame(struct agent_requests *r, size_t bytes)
{
    if (bytes > r->http2->frame_max)
        r->http2->frame_max = (uint32_t)bytes;
}

/* Frame and body in one piece. Returns its length. */
static size_t put_frame(struct agent_requests *r, struct ls_bytes text, bool more,
                        unsigned char *out)
{
    struct ls_bytes body;
    size_t len = http2_encode(r->http2, text, more, out, &body);

    note_frame(r, len);
    if (body.len > 0)
        memcpy(out + len, body.data, body.len);
    return len + body.len;
}

static enum ls_err frame_table(struct agent_requests *r, struct load_variation *v)
{
    bool more = v->fixed_body.len > 0;
    size_t bytes = 0;
    unsigned char *at;

    for (uint64_t i = 0; i < v->table_len; i++)
        bytes += http2_encoded_max(v->table[i].len);
    at = v->frames = malloc(bytes + 1);
    if (at == NULL)
        return LS_ENOMEM;
    for (uint64_t i = 0; i < v->table_len; i++) {
        struct load_rendering *rendering = &v->table[i];
        size_t len = put_frame(r, (struct ls_bytes){ rendering->bytes, rendering->len }, more, at);

        rendering->bytes = at;
        rendering->len = (uint32_t)len;
        at += len;
    }
    return LS_OK;
}

static enum ls_err frame_request(struct agent_requests *r, size_t i, struct ls_diag *diag)
{
    struct load_request *request = &r->items[i];
    struct load_variation *v = &r->variations[i];
    struct ls_bytes head = request->bytes;
    unsigned char *first = NULL;
    unsigned char *frame;
    enum ls_err rc = LS_OK;

    if (request->varied != NULL) {
        first = malloc(v->bytes_max + 1);
        if (first == NULL)
            return ls_fail(diag, LS_ENOMEM, "out of memory for a request");
        head = (struct ls_bytes){ first, load_variation_render(v, 0, first) };
    }
    if (http2_check_head(head, diag) != LS_OK)
        rc = ls_fail_in(diag, LS_EINVAL, "%s", request->label);
    free(first);
    if (rc != LS_OK)
        return rc;
    if (request->varied != NULL) {
        if (v->table == NULL)
            note_frame(r, http2_encoded_max(v->bytes_max));
        else if (frame_table(r, v) != LS_OK)
            rc = ls_fail(diag, LS_ENOMEM, "out of memory for requests");
        return rc;
    }
    frame = malloc(http2_encoded_max(request->bytes.len));
    if (frame == NULL)
        return ls_fail(diag, LS_ENOMEM, "out of memory for a request");
    request->bytes.len = put_frame(r, head, false, frame);
    free((void *)(uintptr_t)request->bytes.data);
    request->bytes.data = frame;
    return LS_OK;
}

static enum ls_err make_frames(struct agent_requests *r, bool tls, struct ls_diag *diag)
{
    enum ls_err rc = share_fields(r, tls, diag);

    for (size_t i = 0; rc == LS_OK && i < r->count; i++)
        rc = frame_request(r, i, diag);
    return rc;
}

/* ---- all of them -------------------------------------------------------------------------------
 */

static enum ls_err read_table(struct agent_requests *r, const struct agent_requests_source *source,
                              struct ls_diag *diag)
{
    struct ls_bytes text;
    enum ls_err rc;

    if (source->data == NULL || source->data->file == NULL)
        return LS_OK;
    rc = find_file(source, source->data->file, &text, diag);
    if (rc == LS_OK)
        rc = ls_csv_parse(text, &r->csv, diag);
    return rc;
}

static enum ls_err make_all(struct agent_requests *r, const struct agent_requests_source *source,
                            struct ls_diag *diag)
{
    size_t budget = LOAD_RENDERINGS_BYTES_MAX;
    char authority[128];
    enum ls_err rc = LS_OK;

    (void)snprintf(authority, sizeof(authority),
                   strchr(source->target->host, ':') != NULL ? "[%s]:%u" : "%s:%u",
                   source->target->host, source->target->port);
    for (size_t i = 0; i < source->count && rc == LS_OK; i++) {
        struct making m = { .source = source,
                            .in = source->requests[i],
                            .authority = authority,
                            .out = &r->items[i],
                            .variation = &r->variations[i],
                            .body = &r->bodies[i],
                            .budget = &budget };

        m.variation->variables.csv = r->csv;
        m.variation->variables.csv_random =
            source->data != NULL && source->data->order == LS__DATA_ORDER__DATA_ORDER_RANDOM;
        m.variation->variables.seed = source->seed + (uint64_t)i * LS_PATTERN_VARIABLES_MAX;
        rc = make(&m, diag);
    }
    return rc;
}

enum ls_err agent_requests_create(const struct agent_requests_source *source,
                                  struct agent_requests **out_requests, struct ls_diag *diag)
{
    struct agent_requests *r;
    enum ls_err rc;

    if (source->count == 0 || source->count > UINT32_MAX)
        return ls_fail(diag, LS_EINVAL, "the workload has no requests");
    r = calloc(1, sizeof(*r));
    if (r == NULL)
        return ls_fail(diag, LS_ENOMEM, "out of memory for requests");
    r->items = calloc(source->count, sizeof(*r->items));
    r->variations = calloc(source->count, sizeof(*r->variations));
    r->bodies = calloc(source->count, sizeof(*r->bodies));
    if (r->items == NULL || r->variations == NULL || r->bodies == NULL) {
        rc = ls_fail(diag, LS_ENOMEM, "out of memory for %zu requests", source->count);
    } else {
        r->count = source->count;
        rc = read_table(r, source, diag);
        if (rc == LS_OK)
            rc = make_all(r, source, diag);
        if (rc == LS_OK && source->http2)
            rc = make_frames(r, source->target->tls != NULL, diag);
        if (rc == LS_OK)
            rc = load_mix_create(r->items, (uint32_t)r->count, &r->mix, &r->mix_len, diag);
    }
    if (rc != LS_OK) {
        agent_requests_destroy(r);
        return rc;
    }
    *out_requests = r;
    return LS_OK;
}

void agent_requests_give(const struct agent_requests *r, struct load_workload *workload)
{
    workload->requests = r->items;
    workload->request_count = (uint32_t)r->count;
    workload->http2 = r->http2;
    workload->mix = r->mix;
    workload->mix_len = r->mix_len;
    workload->rendered_max = workload->expected_max = 0;
    workload->gunzips = false;
    for (size_t i = 0; i < r->count; i++) {
        const struct load_variation *v = r->items[i].varied;

        workload->gunzips |= r->items[i].gunzip;
        if (v == NULL || v->table != NULL)
            continue;
        if (v->bytes_max > workload->rendered_max)
            workload->rendered_max = v->bytes_max;
        if (v->expect_max > workload->expected_max)
            workload->expected_max = v->expect_max;
    }
}
