/* Any text as a trace of rates: refused with a reason, or points in order that make a schedule. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "coordinator/plan/trace_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    Ls__Trace trace = LS__TRACE__INIT;
    struct ls_diag diag = { 0 };
    char *text = malloc(size + 1);
    int64_t last_ns = -1;
    enum ls_err rc;

    if (text == NULL)
        return 0;
    (void)memcpy(text, data, size);
    text[size] = '\0';
    rc = coord_trace_parse(&trace, text, &diag);
    assert(rc == LS_OK ? trace.n_points > 0 : diag.text[0] != '\0' && trace.points == NULL);
    for (size_t i = 0; i < trace.n_points; i++) {
        assert(trace.points[i]->at->ns > last_ns && (i > 0 || trace.points[i]->at->ns == 0));
        assert(trace.points[i]->rate->per_s >= 0 && trace.points[i]->rate->per_s <= 1e9);
        last_ns = trace.points[i]->at->ns;
        ls__trace_point__free_unpacked(trace.points[i], NULL);
    }
    free(trace.points);
    free(text);
    return 0;
}
