/* common/attr.h - the compiler extensions we use, and nowhere else. */
#ifndef LS_COMMON_ATTR_H
#define LS_COMMON_ATTR_H

#include <stddef.h>

#define LS_PRINTF(fmt_arg, first_arg) __attribute__((format(printf, fmt_arg, first_arg)))
#define LS_NODISCARD                  __attribute__((warn_unused_result))
#define LS_NORETURN                   __attribute__((noreturn))
#define LS_UNUSED                     __attribute__((unused))
#define LS_LIKELY(x)                  __builtin_expect(!!(x), 1)
#define LS_UNLIKELY(x)                __builtin_expect(!!(x), 0)

/* Index of the highest and of the lowest set bit, 0 to 63; x must not be 0. */
#define LS_TOP_BIT(x) (63u - (unsigned)__builtin_clzll(x))
#define LS_LOW_BIT(x) ((unsigned)__builtin_ctzll(x))

/* 128 bits: products of two 64-bit numbers, which pcg, schedules and clock sums need whole. */
__extension__ typedef __int128 ls_i128;
__extension__ typedef unsigned __int128 ls_u128;

#define LS_ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))

/* A view of bytes that somebody else owns. */
struct ls_bytes {
    const unsigned char *data;
    size_t len;
};

#endif
