#include "agent/load/http2_use.h"

#include <string.h>

#include "agent/load/http2_conn.h"

const char *http2_reset_text(uint32_t code)
{
    static const char *const texts[] = {
        "stream reset by the peer: NO_ERROR",
        "stream reset by the peer: PROTOCOL_ERROR",
        "stream reset by the peer: INTERNAL_ERROR",
        "stream reset by the peer: FLOW_CONTROL_ERROR",
        "stream reset by the peer: SETTINGS_TIMEOUT",
        "stream reset by the peer: STREAM_CLOSED",
        "stream reset by the peer: FRAME_SIZE_ERROR",
        "stream reset by the peer: REFUSED_STREAM",
        "stream reset by the peer: CANCEL",
        "stream reset by the peer: COMPRESSION_ERROR",
        "stream reset by the peer: CONNECT_ERROR",
        "stream reset by the peer: ENHANCE_YOUR_CALM",
        "stream reset by the peer: INADEQUATE_SECURITY",
        "stream reset by the peer: HTTP_1_1_REQUIRED",
    };

    return code < LS_ARRAY_LEN(texts) ? texts[code] : "stream reset by the peer: unknown code";
}

const char *load_http2_code_name(unsigned code)
{
    return code < HTTP2_ERROR_COUNT ? strrchr(http2_reset_text(code), ' ') + 1 : "other";
}

void load_http2_use_add(struct load_http2_use *dst, const struct load_http2_use *src)
{
    if (src->granted_least > 0 &&
        (dst->granted_least == 0 || src->granted_least < dst->granted_least))
        dst->granted_least = src->granted_least;
    if (src->granted_most > dst->granted_most)
        dst->granted_most = src->granted_most;
    dst->connections += src->connections;
    dst->retried += src->retried;
    dst->pushes_refused += src->pushes_refused;
    dst->pings += src->pings;
    for (unsigned i = 0; i < LOAD_HTTP2_CODES; i++) {
        dst->resets[i] += src->resets[i];
        dst->goaways[i] += src->goaways[i];
    }
    if (dst->why == NULL)
        dst->why = src->why;
}
