#include "common/series.h"

#include <assert.h>

#include "common/attr.h"

static const char *const names[] = { "response_time", "service_time",   "send_lag",   "first_byte",
                                     "connect_time",  "handshake_time", "read_delay", "kernel_time",
                                     "delivery_time", "loop_lag" };
static_assert(LS_ARRAY_LEN(names) == LS_SERIES_COUNT, "a name for each series");

const char *ls_series_name(enum ls_series series)
{
    return (unsigned)series < LS_SERIES_COUNT ? names[series] : "?";
}
