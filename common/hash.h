/* common/hash.h - a number for a text, to look it up by among thousands.
 *
 * FNV-1a (http://www.isthe.com/chongo/tech/comp/fnv/), which is no protection from who wants texts
 * of the same number: looking up is only slower then.
 */
#ifndef LS_COMMON_HASH_H
#define LS_COMMON_HASH_H

#include <stdint.h>

static inline uint32_t ls_hash_text(const char *text)
{
    uint32_t hash = 2166136261u;

    for (; *text != '\0'; text++)
        hash = (hash ^ (unsigned char)*text) * 16777619u;
    return hash;
}

#endif
