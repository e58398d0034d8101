/* agent/build_requests.h - the requests of a plan in the load's own form: build.c's, nobody else's.
 */
#ifndef LS_AGENT_BUILD_REQUESTS_H
#define LS_AGENT_BUILD_REQUESTS_H

#include "agent/files.h"
#include "agent/load/workload.h"
#include "proto/wire.pb-c.h"

struct agent_requests; /* requests and all that they point to */

struct agent_requests_source {
    Ls__Request *const *requests;
    size_t count;
    const Ls__Data *data; /* NULL: no table */
    const Ls__Target *target;
    Ls__FileRef *const *refs; /* what files are called in the plan */
    size_t ref_count;
    const struct agent_files *files; /* borrowed for good: bodies are not copied */
    uint64_t seed;
    bool http2; /* requests as HTTP/2 sends them */
};

/* LS_EINVAL, LS_EPROTO, LS_ENOMEM, LS_ERANGE. */
enum ls_err agent_requests_create(const struct agent_requests_source *source,
                                  struct agent_requests **out_requests,
                                  struct ls_diag *diag) LS_NODISCARD;
void agent_requests_destroy(struct agent_requests *requests); /* NULL is fine */

/* Sets what concerns requests in *workload, which borrows them. */
void agent_requests_give(const struct agent_requests *requests, struct load_workload *workload);

#endif
