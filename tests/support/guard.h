/* tests/support/guard.h - copies of bytes that end where unreadable memory begins. */
#ifndef LS_TESTS_SUPPORT_GUARD_H
#define LS_TESTS_SUPPORT_GUARD_H

#include "common/attr.h"

struct guard {
    unsigned char *base; /* owned mapping; the last page of it is PROT_NONE */
    size_t usable;
};

/* max: most bytes of one copy. Aborts if there is no memory. */
void guard_init(struct guard *guard, size_t max);
void guard_fini(struct guard *guard);
/* Reading one byte past the copy faults. The copy is valid until the next one. */
struct ls_bytes guard_copy(struct guard *guard, struct ls_bytes in);

#endif
