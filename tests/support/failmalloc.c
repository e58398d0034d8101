#include "tests/support/failmalloc.h"

#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "tests/support/test.h"

enum { RUNS_MAX = 100000 };

static _Thread_local uint64_t fail_in; /* 1: the next allocation fails; 0: none does */
static _Thread_local bool hit;

static bool fails(void)
{
    if (fail_in == 0 || --fail_in > 0)
        return false;
    hit = true;
    errno = ENOMEM;
    return true;
}

unsigned failmalloc_each(void (*once)(void *ctx), void *ctx)
{
    for (unsigned n = 1; n <= RUNS_MAX; n++) {
        hit = false;
        fail_in = n;
        once(ctx);
        fail_in = 0;
        if (!hit)
            return n - 1;
    }
    fail_msg("an allocation still fails in run %d", RUNS_MAX);
    return 0;
}

bool failmalloc_hit(void)
{
    return hit;
}

/* The linker sends calls here (__wrap_) and gives us the genuine functions (__real_). */
void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *old, size_t size);
void *__real_aligned_alloc(size_t alignment, size_t size);
int __real_posix_memalign(void **out, size_t alignment, size_t size);
char *__real_strdup(const char *text);
char *__real_strndup(const char *text, size_t len);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *old, size_t size);
void *__wrap_aligned_alloc(size_t alignment, size_t size);
int __wrap_posix_memalign(void **out, size_t alignment, size_t size);
char *__wrap_strdup(const char *text);
char *__wrap_strndup(const char *text, size_t len);

void *__wrap_malloc(size_t size)
{
    return fails() ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t count, size_t size)
{
    return fails() ? NULL : __real_calloc(count, size);
}

void *__wrap_realloc(void *old, size_t size)
{
    return fails() ? NULL : __real_realloc(old, size);
}

void *__wrap_aligned_alloc(size_t alignment, size_t size)
{
    return fails() ? NULL : __real_aligned_alloc(alignment, size);
}

int __wrap_posix_memalign(void **out, size_t alignment, size_t size)
{
    return fails() ? ENOMEM : __real_posix_memalign(out, alignment, size);
}

char *__wrap_strdup(const char *text)
{
    return fails() ? NULL : __real_strdup(text);
}

char *__wrap_strndup(const char *text, size_t len)
{
    return fails() ? NULL : __real_strndup(text, len);
}
