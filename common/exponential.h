/* common/exponential.h - random numbers by index, and a logarithm that is the same on every
 * machine: what exponential times are made of. */
#ifndef LS_COMMON_EXPONENTIAL_H
#define LS_COMMON_EXPONENTIAL_H

#include <stdint.h>

/* The finishing steps of SplitMix64 (Steele, Lea, Flood 2014). */
static inline uint64_t ls_mix64(uint64_t x)
{
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

/* What names a sequence: seeds that differ little have nothing in common. */
static inline uint64_t ls_uniform_stream(uint64_t seed)
{
    return ls_mix64(seed + 1);
}

/* Number index of a sequence, in (0, 1] in steps of 2^-53: SplitMix64 looked up anywhere. Inline,
 * for the hot path passes over many. */
static inline double ls_uniform_at(uint64_t stream, uint64_t index)
{
    uint64_t bits = ls_mix64(stream + (index + 1) * UINT64_C(0x9e3779b97f4a7c15));

    return (double)((bits >> 11) + 1) * 0x1p-53;
}

/* -ln(x) for a normal x in (0, 1], off by less than 2^-50 of itself: with a uniform x, exponential
 * with mean 1. */
double ls_minus_log(double x);

#endif
