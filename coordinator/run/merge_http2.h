/* coordinator/run/merge_http2.h - what HTTP/2 was like, from several clients. */
#ifndef LS_COORDINATOR_RUN_MERGE_HTTP2_H
#define LS_COORDINATOR_RUN_MERGE_HTTP2_H

#include <stdbool.h>

#include "common/attr.h"
#include "proto/result.pb-c.h"

/* Adds src (NULL: nothing) to *field, which is made when it is needed. False: out of memory. */
bool coord_merge_http2(Ls__Http2Use **field, const Ls__Http2Use *src) LS_NODISCARD;

#endif
