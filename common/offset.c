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

/* The peer's instants may be anything: sums are 128 bits wide, and what does not fit is ignored. */
void ls_offset_add(struct ls_offset *offset, int64_t t1, int64_t t2, int64_t t3, int64_t t4)
{
    ls_i128 ahead = ((ls_i128)t2 - t1 + ((ls_i128)t3 - t4)) / 2;
    ls_i128 round_trip = (ls_i128)t4 - t1 - ((ls_i128)t3 - t2);

    if (t3 < t2 || round_trip < 0 || !fits(round_trip) || !fits(ahead))
        return;
    offset->samples[offset->next].at_ns = t4;
    offset->samples[offset->next].offset_ns = (int64_t)ahead;
    offset->samples[offset->next].round_trip_ns = (int64_t)round_trip;
    offset->next = (offset->next + 1) % LS_OFFSET_SAMPLES;
    if (offset->count < LS_OFFSET_SAMPLES)
        offset->count++;
    offset->taken++;
}

bool ls_offset_known(const struct ls_offset *offset)
{
    return offset->count > 0;
}

static ls_i128 error_at(const struct ls_offset *offset, uint32_t i, int64_t now_ns)
{
    ls_i128 age = (ls_i128)now_ns - offset->samples[i].at_ns;

    if (age < 0)
        age = 0;
    return ((ls_i128)offset->samples[i].round_trip_ns + 1) / 2 +
           (age * LS_OFFSET_DRIFT_PPM + 999999) / 1000000;
}

/* Of the samples kept, the one that bounds the offset best. Drift adds the same to all from the
 * newest on, so the choice does not depend on when it is asked for. */
static uint32_t best(const struct ls_offset *offset)
{
    uint32_t newest = (offset->next + LS_OFFSET_SAMPLES - 1) % LS_OFFSET_SAMPLES;
    int64_t now_ns = offset->samples[newest].at_ns;
    uint32_t found = newest;

    for (uint32_t i = 0; i < offset->count; i++) {
        if (error_at(offset, i, now_ns) < error_at(offset, found, now_ns))
            found = i;
    }
    return found;
}

int64_t ls_offset_ns(const struct ls_offset *offset)
{
    return offset->count == 0 ? 0 : offset->samples[best(offset)].offset_ns;
}

int64_t ls_offset_error_ns(const struct ls_offset *offset, int64_t now_ns)
{
    ls_i128 error;

    if (offset->count == 0)
        return INT64_MAX;
    error = error_at(offset, best(offset), now_ns);
    return fits(error) ? (int64_t)error : INT64_MAX;
}

int64_t ls_offset_round_trip_ns(const struct ls_offset *offset)
{
    return offset->count == 0 ? 0 : offset->samples[best(offset)].round_trip_ns;
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
