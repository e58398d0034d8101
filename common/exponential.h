/* common/exponential.h - random numbers by index, and a logarithm that is the same on every
 * machine: what exponential times are made of. */
#ifndef LS_COMMON_EXPONENTIAL_H
#define LS_COMMON_EXPONENTIAL_H

#include <stdint.h>

/* Number index of the sequence that seed names, in (0, 1] in steps of 2^-53. */
double ls_uniform_at(uint64_t seed, uint64_t index);
/* -ln(x) for a normal x in (0, 1], off by less than 2^-50 of itself: with a uniform x, exponential
 * with mean 1. */
double ls_minus_log(double x);

#endif
