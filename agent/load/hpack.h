/* agent/load/hpack.h - decoder of header blocks (RFC 7541), for one who only counts.
 *
 * Incremental, in any slicing, without allocation and without the text of what it does not need: of
 * each field it tells what it is about, how long name and value are, and the value of those few
 * that a load has to understand. The dynamic table therefore holds sizes and meanings, not strings;
 * eviction, indexes, table size updates and Huffman codes are those of the RFC. Whatever a peer
 * sends, the state stays the 2.5 KiB that it is.
 *
 *     hpack_begin(h);
 *     while ((step = hpack_next(h, &piece, &field)) == HPACK_FIELD) ...
 *     then the next piece, and at the end hpack_end(h)
 */
#ifndef LS_AGENT_LOAD_HPACK_H
#define LS_AGENT_LOAD_HPACK_H

#include <stdbool.h>
#include <stdint.h>

#include "common/attr.h"

#define HPACK_TABLE_MAX  4096u  /* bytes as RFC 7541, 4.1 counts them; what we announce */
#define HPACK_ENTRIES    128u   /* HPACK_TABLE_MAX / 32 */
#define HPACK_STRING_MAX 65536u /* coded bytes of one name or value */
#define HPACK_OVERHEAD   32u    /* of a field, in the sizes of RFC 7541 and 9113 */
#define HPACK_TEXT_KEPT  24u

enum hpack_kind {
    HPACK_OTHER,
    HPACK_STATUS,     /* number: 100 to 999 */
    HPACK_LENGTH,     /* content-length; number: below 2^63 */
    HPACK_CODING,     /* content-encoding; number: enum hpack_coding */
    HPACK_PSEUDO,     /* another name with a colon in front: never right in a response */
    HPACK_CONNECTION, /* a field about a connection of HTTP/1: never right (RFC 9113, 8.2.2) */
    HPACK_ILL_NAMED   /* empty, upper case, or no token */
};

enum hpack_coding { HPACK_CODING_NONE, HPACK_CODING_GZIP, HPACK_CODING_OTHER };

struct hpack_field {
    uint8_t kind;   /* enum hpack_kind */
    bool ill;       /* the value is not what kind needs, or holds NUL, CR or LF */
    uint16_t spare; /* so that entries compare as bytes */
    uint32_t name_len;
    uint32_t value_len;
    uint64_t number;
};

enum hpack_step {
    HPACK_MORE,  /* the piece is used up */
    HPACK_FIELD, /* *out_field is the next one */
    HPACK_BAD    /* not a header block: why says what. No later block can be understood */
};

/* The bits of a Huffman code that have not been used. */
struct hpack_bits {
    uint64_t acc; /* the low count bits */
    uint32_t count;
};

struct hpack_entry {
    uint8_t kind;
    bool ill;
    uint16_t name_len;
    uint32_t value_len;
    uint64_t number;
};

/* Zeroed and given to hpack_init(). changes and why are for reading. */
struct hpack {
    uint32_t changes; /* how often the dynamic table has changed; it may wrap */
    const char *why;  /* static text, after HPACK_BAD */

    /* Private. The newest entry is table[newest]; older ones have lower numbers, modulo. */
    struct hpack_entry table[HPACK_ENTRIES];
    uint32_t newest;
    uint32_t count;
    uint32_t used; /* bytes */
    uint32_t max;  /* as last set by the peer */

    uint8_t state;
    uint8_t form;     /* of the field under way */
    bool in_value;    /* the string under way is the value */
    bool huffman;     /* ... and coded */
    bool fields_seen; /* in this block: no table size update any more */
    uint8_t shift;    /* of the integer under way */
    uint32_t integer;
    uint32_t left; /* of the string under way, coded bytes */
    struct hpack_bits bits;
    struct hpack_field field;
    uint32_t text_len; /* of the string under way, decoded */
    bool text_ill;
    char text[HPACK_TEXT_KEPT]; /* and how it begins */
};

void hpack_init(struct hpack *h);
void hpack_begin(struct hpack *h);
/* Advances *in. */
enum hpack_step hpack_next(struct hpack *h, struct ls_bytes *in, struct hpack_field *out_field);
/* The block has ended: false if it was cut, why then says so. */
bool hpack_end(struct hpack *h);

/* ---- Huffman codes, hpack_huffman.c */

/* Decodes what is whole of in, at most cap symbols; *in advances by the bytes that were taken. A
 * zeroed state begins. -1: the code of a symbol that must not occur. */
int hpack_huffman(struct hpack_bits *bits, struct ls_bytes *in, uint8_t *out, uint32_t cap);
/* Symbols that are left after the last byte (cap is 8 at least); -1: what is left is no padding. */
int hpack_huffman_end(struct hpack_bits *bits, uint8_t *out);

#endif
