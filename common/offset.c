#include "common/offset.h"

#include <stddef.h>

#include "common/attr.h"

static bool fits(ls_i128 x)
{
    return x >= INT64_MIN && x <= INT64_MAX;
}

void ls_offset_init(struct ls_offset *offset)
{
    *offset = (struct ls_offset){ 0 };
}

/* What two clocks may drift apart in age. Divided by 64 bits where those do: each new exchange
 * of thousands of agents asks this for each of the samples. */
static ls_i128 drifted(ls_i128 age)
{
    if (age >= 0 && age < INT64_MAX / LS_OFFSET_DRIFT_PPM - 999999)
        return ((uint64_t)age * LS_OFFSET_DRIFT_PPM + 999999) / 1000000;
    return (age * LS_OFFSET_DRIFT_PPM + 999999) / 1000000;
}

/* Half a round trip, which is not negative, and the drift. */
static ls_i128 bound(int64_t round_trip_ns, ls_i128 age)
{
    return (ls_i128)(((uint64_t)round_trip_ns + 1) / 2) + drifted(age);
}

static ls_i128 error_at(const struct ls_offset *offset, uint32_t i, int64_t now_ns)
{
    ls_i128 age = (ls_i128)now_ns - offset->samples[i].at_ns;

    if (age < 0)
        age = 0;
    return bound(offset->samples[i].round_trip_ns, age);
}

static uint32_t newest(const struct ls_offset *offset)
{
    return (offset->next + LS_OFFSET_SAMPLES - 1) % LS_OFFSET_SAMPLES;
}

/* Of the samples kept, the one that bounds the offset best. Drift adds the same to all from the
 * newest on, so the choice does not depend on when it is asked for. */
static uint32_t find_best(const struct ls_offset *offset)
{
    int64_t now_ns = offset->samples[newest(offset)].at_ns;
    uint32_t found = newest(offset);
    ls_i128 least = error_at(offset, found, now_ns);

    for (uint32_t i = 0; i < offset->count; i++) {
        ls_i128 error = error_at(offset, i, now_ns);

        if (error < least) {
            least = error;
            found = i;
        }
    }
    return found;
}

/* How far the bounds of a new exchange and of what is known are from touching; at most 0: they do.
 */
static ls_i128 contradiction(const struct ls_offset *offset, int64_t at_ns, int64_t offset_ns,
                             int64_t round_trip_ns)
{
    uint32_t known = offset->best;
    ls_i128 apart = (ls_i128)offset_ns - offset->samples[known].offset_ns;

    /* Two for the halves that were cut off. */
    return (apart < 0 ? -apart : apart) - error_at(offset, known, at_ns) - bound(round_trip_ns, 0) -
           2;
}

static void set_anchor(struct ls_offset *offset, int64_t at_ns, int64_t offset_ns,
                       int64_t round_trip_ns)
{
    offset->anchor.at_ns = at_ns;
    offset->anchor.offset_ns = offset_ns;
    offset->anchor.round_trip_ns = round_trip_ns;
}

static void forget(struct ls_offset *offset, ls_i128 stepped)
{
    offset->count = offset->next = 0;
    offset->steps++;
    if (stepped > offset->stepped_ns)
        offset->stepped_ns = fits(stepped) ? (int64_t)stepped : INT64_MAX;
}

/* The peer's instants may be anything: sums are 128 bits wide, and what does not fit is ignored. */
void ls_offset_add(struct ls_offset *offset, int64_t t1, int64_t t2, int64_t t3, int64_t t4)
{
    ls_i128 ahead = ((ls_i128)t2 - t1 + ((ls_i128)t3 - t4)) / 2;
    ls_i128 round_trip = (ls_i128)t4 - t1 - ((ls_i128)t3 - t2);
    ls_i128 stepped;

    if (t3 < t2 || round_trip < 0 || !fits(round_trip) || !fits(ahead))
        return;
    if (offset->count > 0) {
        stepped = contradiction(offset, t4, (int64_t)ahead, (int64_t)round_trip);
        if (stepped > 0)
            forget(offset, stepped);
    }
    if (offset->count == 0 || ((ls_i128)t4 - offset->anchor.at_ns < LS_OFFSET_DRIFT_SPAN_NS &&
                               (int64_t)round_trip < offset->anchor.round_trip_ns))
        set_anchor(offset, t4, (int64_t)ahead, (int64_t)round_trip);
    offset->samples[offset->next].at_ns = t4;
    offset->samples[offset->next].offset_ns = (int64_t)ahead;
    offset->samples[offset->next].round_trip_ns = (int64_t)round_trip;
    offset->next = (offset->next + 1) % LS_OFFSET_SAMPLES;
    if (offset->count < LS_OFFSET_SAMPLES)
        offset->count++;
    offset->taken++;
    offset->best = find_best(offset);
}

bool ls_offset_known(const struct ls_offset *offset)
{
    return offset->count > 0;
}

int64_t ls_offset_ns(const struct ls_offset *offset)
{
    return offset->count == 0 ? 0 : offset->samples[offset->best].offset_ns;
}

int64_t ls_offset_error_ns(const struct ls_offset *offset, int64_t now_ns)
{
    ls_i128 error;

    if (offset->count == 0)
        return INT64_MAX;
    error = error_at(offset, offset->best, now_ns);
    return fits(error) ? (int64_t)error : INT64_MAX;
}

bool ls_offset_at(const struct ls_offset *offset, int64_t at_ns, int64_t *out_offset_ns,
                  int64_t *out_error_ns)
{
    ls_i128 least = 0;
    uint32_t found = 0;

    if (offset->count == 0)
        return false;
    if (at_ns >= offset->samples[newest(offset)].at_ns) { /* each report asks of now */
        *out_offset_ns = ls_offset_ns(offset);
        *out_error_ns = ls_offset_error_ns(offset, at_ns);
        return true;
    }
    for (uint32_t i = 0; i < offset->count; i++) {
        ls_i128 away = (ls_i128)at_ns - offset->samples[i].at_ns;
        ls_i128 error = bound(offset->samples[i].round_trip_ns, away < 0 ? -away : away);

        if (i == 0 || error < least) {
            least = error;
            found = i;
        }
    }
    *out_offset_ns = offset->samples[found].offset_ns;
    *out_error_ns = fits(least) ? (int64_t)least : INT64_MAX;
    return true;
}

bool ls_offset_drift(const struct ls_offset *offset, double *out_ppm, double *out_error_ppm)
{
    uint32_t now;
    double span, moved, error;

    if (offset->count == 0)
        return false;
    now = offset->best;
    span = (double)offset->samples[now].at_ns - (double)offset->anchor.at_ns;
    if (span < (double)LS_OFFSET_DRIFT_SPAN_NS)
        return false;
    moved = (double)offset->samples[now].offset_ns - (double)offset->anchor.offset_ns;
    error = ((double)offset->samples[now].round_trip_ns + (double)offset->anchor.round_trip_ns) / 2;
    *out_ppm = moved / span * 1e6;
    *out_error_ppm = error / span * 1e6;
    return true;
}

int64_t ls_offset_newest_ns(const struct ls_offset *offset)
{
    return offset->count == 0 ? 0 : offset->samples[newest(offset)].at_ns;
}

int64_t ls_offset_round_trip_ns(const struct ls_offset *offset)
{
    return offset->count == 0 ? 0 : offset->samples[offset->best].round_trip_ns;
}

int64_t ls_offset_slowest_ns(const struct ls_offset *offset)
{
    int64_t slowest = 0;

    for (uint32_t i = 0; i < offset->count; i++) {
        if (offset->samples[i].round_trip_ns > slowest)
            slowest = offset->samples[i].round_trip_ns;
    }
    return slowest;
}
