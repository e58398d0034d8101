#include "agent/load/http_request.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "common/buf.h"

/* Headers we have to know about. */
struct known {
    bool host;
    bool length;
    bool transfer;
    bool closes;
};

static bool is_token(const char *text)
{
    static const char others[] = "!#$%&'*+-.^_`|~";

    for (const char *c = text; *c != '\0'; c++) {
        bool alnum =
            (*c >= '0' && *c <= '9') || (*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z');

        if (!alnum && strchr(others, *c) == NULL)
            return false;
    }
    return *text != '\0';
}

/* No control bytes; of white space only what min allows. */
static bool is_text(const char *text, unsigned char min, bool tab)
{
    for (const unsigned char *c = (const unsigned char *)text; *c != '\0'; c++) {
        if ((*c < min && !(tab && *c == '\t')) || *c == 0x7f)
            return false;
    }
    return true;
}

/* Is word a member of the comma-separated list? */
static bool list_has(const char *list, const char *word)
{
    size_t len = strlen(word);

    while (*list != '\0') {
        size_t n = strcspn(list, ",");
        const char *at = list;
        size_t left = n;

        while (left > 0 && (*at == ' ' || *at == '\t')) {
            at++;
            left--;
        }
        while (left > 0 && (at[left - 1] == ' ' || at[left - 1] == '\t'))
            left--;
        if (left == len && strncasecmp(at, word, len) == 0)
            return true;
        list += n;
        if (*list == ',')
            list++;
    }
    return false;
}

static enum ls_err check_length(const char *value, size_t body_bytes, struct ls_diag *diag)
{
    char right[24];

    (void)snprintf(right, sizeof(right), "%zu", body_bytes); /* 20 digits at most */
    if (strcmp(value, right) != 0)
        return ls_fail(diag, LS_EINVAL,
                       "header Content-Length says %.40s but the body has %s bytes: leave it away",
                       value, right);
    return LS_OK;
}

static enum ls_err check_header(const struct agent_http_header *header, size_t body_bytes,
                                struct known *known, struct ls_diag *diag)
{
    if (!is_token(header->name))
        return ls_fail(diag, LS_EINVAL, "header name \"%.80s\" is not a token", header->name);
    if (!is_text(header->value, ' ', true))
        return ls_fail(diag, LS_EINVAL, "header %.80s: control byte in the value", header->name);
    if (strcasecmp(header->name, "Host") == 0) {
        if (known->host)
            return ls_fail(diag, LS_EINVAL, "header Host is given twice");
        known->host = true;
    } else if (strcasecmp(header->name, "Content-Length") == 0) {
        if (known->length)
            return ls_fail(diag, LS_EINVAL, "header Content-Length is given twice");
        known->length = true;
        return check_length(header->value, body_bytes, diag);
    } else if (strcasecmp(header->name, "Transfer-Encoding") == 0) {
        known->transfer = true;
    } else if (strcasecmp(header->name, "Connection") == 0) {
        known->closes = known->closes || list_has(header->value, "close");
    }
    return LS_OK;
}

static enum ls_err check(const struct agent_http_request *request, struct known *known,
                         struct ls_diag *diag)
{
    if (!is_token(request->method))
        return ls_fail(diag, LS_EINVAL, "method \"%.80s\" is not a token", request->method);
    if (strcmp(request->method, "CONNECT") == 0)
        return ls_fail(diag, LS_EINVAL, "method CONNECT would turn the connection into a tunnel");
    if (request->target[0] == '\0' || !is_text(request->target, '!', false))
        return ls_fail(diag, LS_EINVAL,
                       "path \"%.80s\" is empty or holds a space or control byte: write %%20",
                       request->target);
    if (!is_text(request->host, '!', false))
        return ls_fail(diag, LS_EINVAL, "host \"%.80s\" holds a space or control byte",
                       request->host);
    for (size_t i = 0; i < request->header_count; i++) {
        enum ls_err rc = check_header(&request->headers[i], request->body.len, known, diag);

        if (rc != LS_OK)
            return rc;
    }
    if (known->length && known->transfer)
        return ls_fail(diag, LS_EINVAL,
                       "headers Content-Length and Transfer-Encoding exclude each other");
    return LS_OK;
}

/* Methods for which a body is usual say that there is none (RFC 9110, 8.6). */
static bool wants_length(const struct agent_http_request *request)
{
    return request->body.len > 0 || strcmp(request->method, "POST") == 0 ||
           strcmp(request->method, "PUT") == 0 || strcmp(request->method, "PATCH") == 0;
}

static void print_head(struct ls_buf *out, const struct agent_http_request *request,
                       const char *length, const struct known *known)
{
    ls_buf_addf(out, "%s %s HTTP/1.1\r\n", request->method, request->target);
    if (!known->host)
        ls_buf_addf(out, "Host: %s\r\n", request->host);
    for (size_t i = 0; i < request->header_count; i++)
        ls_buf_addf(out, "%s: %s\r\n", request->headers[i].name, request->headers[i].value);
    if (length != NULL && !known->length && !known->transfer)
        ls_buf_addf(out, "Content-Length: %s\r\n", length);
    else if (!known->length && !known->transfer && wants_length(request))
        ls_buf_addf(out, "Content-Length: %zu\r\n", request->body.len);
    ls_buf_adds(out, "\r\n");
}

static size_t head_bytes(const struct agent_http_request *request)
{
    size_t len = strlen(request->method) + strlen(request->target) + strlen(request->host);

    for (size_t i = 0; i < request->header_count; i++)
        len += strlen(request->headers[i].name) + strlen(request->headers[i].value) + 4;
    return len;
}

static enum ls_err format(const struct agent_http_request *request, const char *length,
                          struct ls_bytes body, struct load_request *out_request,
                          struct ls_diag *diag)
{
    struct known known = { 0 };
    struct ls_buf bytes;
    struct ls_buf label;
    size_t head = head_bytes(request);
    enum ls_err rc = check(request, &known, diag);

    if (rc != LS_OK)
        return rc;
    if (head > AGENT_HTTP_REQUEST_HEAD_MAX)
        return ls_fail(diag, LS_ERANGE, "request line and headers take %zu bytes: at most %u", head,
                       AGENT_HTTP_REQUEST_HEAD_MAX);

    ls_buf_init(&bytes, 2 * AGENT_HTTP_REQUEST_HEAD_MAX + body.len);
    ls_buf_init(&label, AGENT_HTTP_REQUEST_HEAD_MAX);
    print_head(&bytes, request, length, &known);
    ls_buf_add(&bytes, body.data, body.len);
    ls_buf_addf(&label, "%s %.80s", request->method, request->target);
    if (bytes.ok && label.ok) {
        out_request->bytes.len = bytes.len;
        out_request->bytes.data = (const unsigned char *)ls_buf_detach(&bytes);
        out_request->label = ls_buf_detach(&label);
        out_request->no_body = strcmp(request->method, "HEAD") == 0;
        out_request->closes = known.closes;
    } else {
        rc = ls_fail(diag, LS_ENOMEM, "no memory for a request of %zu bytes", head + body.len);
    }
    ls_buf_fini(&bytes);
    ls_buf_fini(&label);
    return rc;
}

enum ls_err agent_http_request_format(const struct agent_http_request *request,
                                      struct load_request *out_request, struct ls_diag *diag)
{
    return format(request, NULL, request->body, out_request, diag);
}

enum ls_err agent_http_request_format_head(const struct agent_http_request *request,
                                           const char *length, struct load_request *out_request,
                                           struct ls_diag *diag)
{
    return format(request, length, (struct ls_bytes){ NULL, 0 }, out_request, diag);
}

void agent_http_request_fini(struct load_request *request)
{
    /* Ours since agent_http_request_format(); const is for those who send it. */
    free((void *)(uintptr_t)request->bytes.data);
    free((void *)(uintptr_t)request->label);
    request->bytes = (struct ls_bytes){ NULL, 0 };
    request->label = NULL;
}
