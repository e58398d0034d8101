/* agent/load/http_request.h - turns what a plan says about a request into the bytes that are sent:
 * once, before the load. */
#ifndef LS_AGENT_LOAD_HTTP_REQUEST_H
#define LS_AGENT_LOAD_HTTP_REQUEST_H

#include "agent/load/workload.h"
#include "common/err.h"

#define AGENT_HTTP_REQUEST_HEAD_MAX 65536u /* bytes of method, target, host and headers */

struct agent_http_header {
    const char *name;
    const char *value;
};

/* All borrowed. Text that would break the request apart (line breaks, spaces in the target, names
 * that are no tokens) is refused, as it may come from outside. */
struct agent_http_request {
    const char *method; /* "GET": a token, sent as written */
    const char *target; /* "/path?query"; also "*" or an absolute URL */
    const char *host;   /* "127.0.0.1:8080" */
    const struct agent_http_header *headers;
    size_t header_count;
    struct ls_bytes body;
};

/* Sets bytes, label ("GET /hello", cut if long), no_body and closes of *out_request and leaves what
 * is expected alone. Adds Host unless a header gives it, and Content-Length unless a header gives
 * that or Transfer-Encoding; a Content-Length that is given has to be right. LS_EINVAL, LS_ERANGE,
 * LS_ENOMEM; on LS_OK the caller owns bytes and label: agent_http_request_fini(). */
enum ls_err agent_http_request_format(const struct agent_http_request *request,
                                      struct load_request *out_request,
                                      struct ls_diag *diag) LS_NODISCARD;
/* The same without the body, whose length is said to be length (NULL: that of body). */
enum ls_err agent_http_request_format_head(const struct agent_http_request *request,
                                           const char *length, struct load_request *out_request,
                                           struct ls_diag *diag) LS_NODISCARD;
/* Frees bytes and label; a zeroed request is fine, and twice. */
void agent_http_request_fini(struct load_request *request);

#endif
