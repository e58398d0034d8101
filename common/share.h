/* common/share.h - an exact split of a total into parts. */
#ifndef LS_COMMON_SHARE_H
#define LS_COMMON_SHARE_H

#include <stdint.h>

/* Part i of total split into parts: floor or ceiling of total / parts, the larger ones first; the
 * parts add up to total. parts >= 1, i < parts. */
uint64_t ls_share(uint64_t total, uint64_t parts, uint64_t i);

#endif
