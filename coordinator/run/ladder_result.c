#include "coordinator/run/ladder_result.h"

#include <math.h>
#include <stdlib.h>

#include "coordinator/result/message.h"
#include "coordinator/run/fill.h"
#include "coordinator/run/knee.h"
#include "coordinator/run/scalability.h"

static bool fill_knee(Ls__LadderResult *result, struct coord_knee_point *points, size_t n)
{
    struct coord_knee found;

    if (!coord_knee_find(points, n, COORD_KNEE_SATURATES, &found))
        return true;
    result->knee = coord_fill_knee(&found);
    return result->knee != NULL;
}

static bool fill_law(Ls__LadderResult *result, const struct coord_usl_point *points, size_t n,
                     uint64_t seed)
{
    Ls__Scalability *to;
    struct coord_usl usl;
    char warning[200];

    if (!coord_usl_fit(points, n, seed, &usl))
        return true;
    to = result->scalability = coord_message_new(&ls__scalability__descriptor);
    if (to == NULL)
        return false;
    to->per_s = usl.law.per_s;
    to->per_s_low = usl.low.per_s;
    to->per_s_high = usl.high.per_s;
    to->contention = usl.law.contention;
    to->contention_low = usl.low.contention;
    to->contention_high = usl.high.contention;
    to->coherency = usl.law.coherency;
    to->coherency_low = usl.low.coherency;
    to->coherency_high = usl.high.coherency;
    to->peak_at = isfinite(usl.peak_at) ? usl.peak_at : 0;
    to->peak_low = isfinite(usl.peak_low) ? usl.peak_low : 0;
    to->peak_high = isfinite(usl.peak_high) ? usl.peak_high : 0;
    to->explained = usl.explained;
    to->measured_to = usl.measured_to;
    return coord_message_string(&to->warning, coord_usl_warn(&usl, warning, sizeof(warning)));
}

bool coord_ladder_result_end(Ls__LadderResult *result, uint64_t seed, size_t *out_useful)
{
    size_t n = 0, count = result->n_rungs;
    struct coord_knee_point *curve = calloc(count + 1, sizeof(*curve));
    struct coord_usl_point *law = calloc(count + 1, sizeof(*law));
    bool ok = curve != NULL && law != NULL;

    for (size_t i = 0; ok && i < count; i++) {
        const Ls__LadderRung *rung = result->rungs[i];

        if (!rung->useful)
            continue;
        curve[n] = (struct coord_knee_point){ rung->connections, rung->throughput_per_s };
        law[n++] = (struct coord_usl_point){ rung->connections, rung->throughput_per_s };
    }
    ok = ok && fill_law(result, law, n, seed) && fill_knee(result, curve, n);
    free(curve);
    free(law);
    *out_useful = n;
    return ok;
}
