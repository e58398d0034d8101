/* common/rng.h - seeded pseudo-random numbers: PCG XSL RR 128/64 (O'Neill 2014, HMC-CS-2014-0905).
 * The same seed and stream give the same numbers on every machine. Not for secrets. */
#ifndef LS_COMMON_RNG_H
#define LS_COMMON_RNG_H

#include <stdint.h>

struct ls_rng {
    uint64_t state[2];
    uint64_t inc[2];
};

void ls_rng_init(struct ls_rng *rng, uint64_t seed, uint64_t stream);
uint64_t ls_rng_next(struct ls_rng *rng);
uint64_t ls_rng_below(struct ls_rng *rng, uint64_t bound); /* unbiased; bound >= 1 */
double ls_rng_unit(struct ls_rng *rng);                    /* [0, 1) */

#endif
