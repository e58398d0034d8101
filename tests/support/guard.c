#include "tests/support/guard.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

void guard_init(struct guard *guard, size_t max)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    void *base;

    guard->usable = (max + page - 1) / page * page;
    base = mmap(NULL, guard->usable + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
                0);
    if (base == MAP_FAILED)
        abort();
    guard->base = base;
    if (mprotect(guard->base + guard->usable, page, PROT_NONE) != 0)
        abort();
}

void guard_fini(struct guard *guard)
{
    (void)munmap(guard->base, guard->usable + (size_t)sysconf(_SC_PAGESIZE));
    guard->base = NULL;
}

struct ls_bytes guard_copy(struct guard *guard, struct ls_bytes in)
{
    struct ls_bytes copy = { guard->base + guard->usable - in.len, in.len };

    if (in.len > guard->usable)
        abort();
    if (in.len > 0)
        memcpy(guard->base + guard->usable - in.len, in.data, in.len);
    return copy;
}
