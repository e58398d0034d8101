#include "common/rng.h"

#include <assert.h>

#include "common/attr.h"

static const ls_u128 multiplier = ((ls_u128)2549297995355413924 << 64) | 4865540595714422341;

static ls_u128 join(const uint64_t half[2])
{
    return ((ls_u128)half[1] << 64) | half[0];
}

static void split(ls_u128 x, uint64_t half[2])
{
    half[0] = (uint64_t)x;
    half[1] = (uint64_t)(x >> 64);
}

static ls_u128 step(struct ls_rng *rng)
{
    ls_u128 state = join(rng->state) * multiplier + join(rng->inc);

    split(state, rng->state);
    return state;
}

void ls_rng_init(struct ls_rng *rng, uint64_t seed, uint64_t stream)
{
    split(((ls_u128)stream << 1) | 1, rng->inc);
    split(0, rng->state);
    (void)step(rng);
    split(join(rng->state) + seed, rng->state);
    (void)step(rng);
}

uint64_t ls_rng_next(struct ls_rng *rng)
{
    ls_u128 state = step(rng);
    uint64_t folded = (uint64_t)(state >> 64) ^ (uint64_t)state;
    unsigned turn = (unsigned)(state >> 122);

    return (folded >> turn) | (folded << (-turn & 63));
}

/* Lemire, "Fast Random Integer Generation in an Interval" (2019): the high half of a product is
 * uniform once the few low halves that would favour some results are drawn again. */
uint64_t ls_rng_below(struct ls_rng *rng, uint64_t bound)
{
    ls_u128 product;

    assert(bound >= 1);
    product = (ls_u128)ls_rng_next(rng) * bound;
    if ((uint64_t)product < bound) {
        uint64_t uneven = -bound % bound;

        while ((uint64_t)product < uneven)
            product = (ls_u128)ls_rng_next(rng) * bound;
    }
    return (uint64_t)(product >> 64);
}

double ls_rng_unit(struct ls_rng *rng)
{
    return (double)(ls_rng_next(rng) >> 11) * 0x1p-53;
}
