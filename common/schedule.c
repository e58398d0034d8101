#include "common/schedule.h"

#include <assert.h>
#include <float.h>
#include <inttypes.h>
#include <stdbool.h>
#include <string.h>

#include "common/attr.h"
#include "common/clock.h"

#define RATE_MAX_PER_S 1e9

/* A rate is odd x 2^exponent exactly, so instants and counts are whole-number arithmetic: the same
 * on every machine, and one is the exact inverse of the other. */
struct ratio {
    uint64_t odd;
    int exponent;
};

/* From the bits of the double (IEEE 754), as this is done for each arrival. */
static struct ratio ratio_of(double rate_per_s)
{
    uint64_t bits;
    uint64_t mantissa;
    int biased;
    unsigned low;

    static_assert(sizeof(bits) == sizeof(rate_per_s) && DBL_MANT_DIG == 53, "IEEE 754 binary64");
    (void)memcpy(&bits, &rate_per_s, sizeof(bits));
    biased = (int)(bits >> 52);
    mantissa = bits & ((UINT64_C(1) << 52) - 1);
    if (biased == 0)
        biased = 1; /* subnormal: no leading one */
    else
        mantissa |= UINT64_C(1) << 52;
    low = LS_LOW_BIT(mantissa);
    return (struct ratio){ .odd = mantissa >> low, .exponent = biased - 1075 + (int)low };
}

static uint64_t divide(ls_u128 x, uint64_t by)
{
    /* The plain case, in a fraction of the time. */
    return x <= UINT64_MAX ? (uint64_t)x / by : (uint64_t)(x / by);
}

/* floor(k / rate) in nanoseconds since the start; INT64_MAX if it never comes. */
static int64_t instant_of(double rate_per_s, uint64_t k)
{
    struct ratio rate;
    ls_u128 scaled = (ls_u128)k * (ls_u128)LS_NS_PER_S;

    /* Below this the shifted product is under 2^(63 + 53) and cannot overflow. */
    if ((double)k * 1e9 / rate_per_s >= 0x1p62)
        return INT64_MAX;
    rate = ratio_of(rate_per_s);
    if (rate.exponent >= 0)
        return (int64_t)divide(scaled >> rate.exponent, rate.odd);
    return k == 0 ? 0 : (int64_t)divide(scaled << -rate.exponent, rate.odd);
}

/* at - start, or the end of time. */
static int64_t since(int64_t at_ns, int64_t start_ns)
{
    ls_i128 ns = (ls_i128)at_ns - start_ns;

    return ns > INT64_MAX ? INT64_MAX : (int64_t)ns;
}

/* Smallest k whose instant is at or after since_ns. */
static uint64_t first_at(double rate_per_s, int64_t since_ns)
{
    struct ratio rate;
    ls_u128 scaled;
    ls_u128 unit = (ls_u128)LS_NS_PER_S;

    if (since_ns <= 0)
        return 0;
    rate = ratio_of(rate_per_s);
    scaled = (ls_u128)(uint64_t)since_ns * rate.odd; /* below 2^(63 + 53) */
    if (rate.exponent >= 0)
        scaled <<= rate.exponent; /* rate is below 2^30 */
    else if (rate.exponent > -97)
        unit <<= -rate.exponent;
    else
        return 1; /* the unit is beyond any scaled value */
    return (uint64_t)((scaled + unit - 1) / unit);
}

static bool rate_is_fine(double rate_per_s)
{
    return rate_per_s > 0 && rate_per_s <= RATE_MAX_PER_S; /* false for NaN */
}

enum ls_err ls_schedule_init(struct ls_schedule *schedule, enum ls_law law, double rate_per_s,
                             int64_t start_ns, uint64_t first, uint64_t stride,
                             struct ls_diag *diag)
{
    if ((unsigned)law >= LS_LAW_COUNT)
        return ls_fail(diag, LS_ERANGE, "arrival law %d is not known", (int)law);
    if (!rate_is_fine(rate_per_s))
        return ls_fail(diag, LS_ERANGE, "rate %g/s is not above 0 and at most 1G/s", rate_per_s);
    if (first >= stride)
        return ls_fail(diag, LS_ERANGE,
                       "arrival %" PRIu64 " is not the first of every %" PRIu64 "th", first,
                       stride);
    *schedule = (struct ls_schedule){
        .law = law, .rate_per_s = rate_per_s, .start_ns = start_ns, .k = first, .stride = stride
    };
    return LS_OK;
}

int64_t ls_schedule_peek(const struct ls_schedule *schedule)
{
    int64_t since_ns = instant_of(schedule->rate_per_s, schedule->k);

    if (since_ns > INT64_MAX - (schedule->start_ns > 0 ? schedule->start_ns : 0))
        return INT64_MAX;
    return schedule->start_ns + since_ns;
}

void ls_schedule_advance(struct ls_schedule *schedule)
{
    schedule->k += schedule->stride;
}

uint64_t ls_schedule_count(enum ls_law law, double rate_per_s, int64_t start_ns, int64_t from_ns,
                           int64_t to_ns)
{
    assert(law == LS_LAW_CONSTANT && rate_is_fine(rate_per_s));
    (void)law;
    if (to_ns <= from_ns || to_ns <= start_ns)
        return 0;
    if (from_ns < start_ns)
        from_ns = start_ns;
    return first_at(rate_per_s, since(to_ns, start_ns)) -
           first_at(rate_per_s, since(from_ns, start_ns));
}
