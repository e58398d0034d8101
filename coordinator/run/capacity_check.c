/* Settings of a search that contradict each other, or cannot be met. */
#include <math.h>

#include "common/attr.h"
#include "coordinator/run/capacity_internal.h"

static int64_t longest_ns(const struct coord_capacity_settings *s)
{
    const int64_t all[] = { s->budget_ns, s->probe_ns, s->probe_most_ns, s->confirm_ns,
                            s->overhead_ns };
    int64_t most = 0;

    for (size_t i = 0; i < LS_ARRAY_LEN(all); i++)
        most = all[i] > most ? all[i] : most;
    return most;
}

enum ls_err coord_capacity_check(const struct coord_capacity_settings *s, struct ls_diag *diag)
{
    double least = 1;

    if (s->limit_count < 1 || s->limit_count > COORD_CAPACITY_LIMITS_MAX)
        return ls_fail(diag, LS_ERANGE, "%zu limits: a search needs 1 to %u", s->limit_count,
                       COORD_CAPACITY_LIMITS_MAX);
    for (size_t i = 0; i < s->limit_count; i++) {
        if (!(s->limits[i].allowed_share > 0 && s->limits[i].allowed_share < 1))
            return ls_fail(diag, LS_ERANGE, "limit %s: its share has to be between 0 and 1",
                           s->limits[i].name);
        if (!s->limits[i].coarse)
            least = fmin(least, s->limits[i].allowed_share);
    }
    if (!(s->least_per_s > 0 && s->least_per_s <= s->first_per_s &&
          s->first_per_s <= s->most_per_s && isfinite(s->most_per_s)))
        return ls_fail(diag, LS_ERANGE,
                       "rates from %g/s over %g/s to %g/s: they have to grow from above 0",
                       s->least_per_s, s->first_per_s, s->most_per_s);
    if (longest_ns(s) > COORD_SEARCH_LONGEST_NS || s->overhead_ns < 0)
        return ls_fail(diag, LS_ERANGE, "budget and probes: up to %.0f s, from 0 on",
                       (double)COORD_SEARCH_LONGEST_NS / 1e9);
    if (s->probe_ns <= 0 || s->probe_most_ns < s->probe_ns || s->confirm_ns <= 0 ||
        !(s->precision > 0 && s->precision < 1) || !(s->above > 0))
        return ls_fail(diag, LS_ERANGE, "lengths of probes, precision: they have to be above 0");
    if (s->budget_ns < 4 * (s->probe_ns + s->overhead_ns) + 2 * (s->confirm_ns + s->overhead_ns))
        return ls_fail(diag, LS_ERANGE,
                       "a budget of %.0f s is less than four probes of %.0f s and two "
                       "confirmations of %.0f s take, with %.1f s around each",
                       (double)s->budget_ns / 1e9, (double)s->probe_ns / 1e9,
                       (double)s->confirm_ns / 1e9, (double)s->overhead_ns / 1e9);
    if (COORD_CAPACITY_TAIL_BRACKET / least / s->most_per_s * 1e9 > (double)s->probe_most_ns)
        return ls_fail(diag, LS_ERANGE,
                       "one request in %.0f may break a limit: at %g/s that takes probes of %.0f s "
                       "to see, and they are at most %.0f s: allow longer ones and a larger budget",
                       1 / least, s->most_per_s,
                       COORD_CAPACITY_TAIL_BRACKET / least / s->most_per_s,
                       (double)s->probe_most_ns / 1e9);
    return LS_OK;
}
