#include "common/share.h"

#include <assert.h>

uint64_t ls_share(uint64_t total, uint64_t parts, uint64_t i)
{
    assert(i < parts);
    return total / parts + (i < total % parts ? 1 : 0);
}
