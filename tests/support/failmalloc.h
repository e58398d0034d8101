/* tests/support/failmalloc.h - runs code once for each of its allocations, with that one failing.
 *
 * Every test program is linked with it (-Wl,--wrap): malloc, calloc, realloc, aligned_alloc,
 * posix_memalign, strdup and strndup called from our own code fail on demand, on the calling thread
 * only. What a shared library (zlib, libcrypto, cmocka) allocates is its own affair.
 */
#ifndef LS_TESTS_SUPPORT_FAILMALLOC_H
#define LS_TESTS_SUPPORT_FAILMALLOC_H

#include <stdbool.h>

/* Calls once(ctx) with its first allocation failing, then its second, and so on, and a last time
 * with none failing. Returns the number of allocations that failed: assert on it, for code that
 * does not allocate proves nothing here. Under AddressSanitizer leaks show as well. */
unsigned failmalloc_each(void (*once)(void *ctx), void *ctx);

/* Inside once(): whether an allocation has failed in this call, so that the code under test has to
 * report it. */
bool failmalloc_hit(void);

#endif
