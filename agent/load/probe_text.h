/* agent/load/probe_text.h - what a probe says about an answer that was not the expected one. */
#ifndef LS_AGENT_LOAD_PROBE_TEXT_H
#define LS_AGENT_LOAD_PROBE_TEXT_H

#include "agent/load/driver.h"
#include "common/buf.h"

#define PROBE_ADDRESS_BYTES 128
#define PROBE_ANSWER_KEPT   (1024u * 1024u) /* bytes of an answer kept for messages */
#define PROBE_QUOTE_BYTES   48u             /* of them shown at once */

struct probe_answer {
    struct ls_buf kept; /* as received */
    size_t total;       /* bytes received */
    bool http2; /* ... as frames of HTTP/2, the first of which is whole; set by the caller */
};

void probe_answer_init(struct probe_answer *answer);
void probe_answer_fini(struct probe_answer *answer);
void probe_answer_reset(struct probe_answer *answer);
/* Keeps what fits; without memory, messages say less. */
void probe_answer_add(struct probe_answer *answer, struct ls_bytes in);

/* Fills diag (code LS_EPROTO): what was expected and what came, for a reply whose outcome is
 * LOAD_BAD_STATUS, LOAD_BAD_BODY or LOAD_BAD_FRAMING. */
void probe_answer_explain(const struct probe_answer *answer, const struct load_request *request,
                          const struct agent_reply *reply, struct ls_diag *diag);

/* "127.0.0.1:8080", "[::1]:8080", "/run/socket". */
void probe_address_text(const struct sockaddr_storage *address, socklen_t address_len,
                        char out[PROBE_ADDRESS_BYTES]);

#endif
