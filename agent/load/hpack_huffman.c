/* The code of RFC 7541, Appendix B. It is canonical: codes in the order of their lengths, then of
 * their symbols, so that the tables below follow from the 257 lengths. */
#include "agent/load/hpack.h"

#define SHORT_BITS 8u
#define EOS        256u

/* By the next eight bits: the symbol that they begin with, and the length of its code; 0: longer.
 */
static const struct {
    uint8_t symbol;
    uint8_t bits;
} starts[256] = {
    { 48, 5 },  { 48, 5 },  { 48, 5 },  { 48, 5 },  { 48, 5 },  { 48, 5 },  { 48, 5 },  { 48, 5 },
    { 49, 5 },  { 49, 5 },  { 49, 5 },  { 49, 5 },  { 49, 5 },  { 49, 5 },  { 49, 5 },  { 49, 5 },
    { 50, 5 },  { 50, 5 },  { 50, 5 },  { 50, 5 },  { 50, 5 },  { 50, 5 },  { 50, 5 },  { 50, 5 },
    { 97, 5 },  { 97, 5 },  { 97, 5 },  { 97, 5 },  { 97, 5 },  { 97, 5 },  { 97, 5 },  { 97, 5 },
    { 99, 5 },  { 99, 5 },  { 99, 5 },  { 99, 5 },  { 99, 5 },  { 99, 5 },  { 99, 5 },  { 99, 5 },
    { 101, 5 }, { 101, 5 }, { 101, 5 }, { 101, 5 }, { 101, 5 }, { 101, 5 }, { 101, 5 }, { 101, 5 },
    { 105, 5 }, { 105, 5 }, { 105, 5 }, { 105, 5 }, { 105, 5 }, { 105, 5 }, { 105, 5 }, { 105, 5 },
    { 111, 5 }, { 111, 5 }, { 111, 5 }, { 111, 5 }, { 111, 5 }, { 111, 5 }, { 111, 5 }, { 111, 5 },
    { 115, 5 }, { 115, 5 }, { 115, 5 }, { 115, 5 }, { 115, 5 }, { 115, 5 }, { 115, 5 }, { 115, 5 },
    { 116, 5 }, { 116, 5 }, { 116, 5 }, { 116, 5 }, { 116, 5 }, { 116, 5 }, { 116, 5 }, { 116, 5 },
    { 32, 6 },  { 32, 6 },  { 32, 6 },  { 32, 6 },  { 37, 6 },  { 37, 6 },  { 37, 6 },  { 37, 6 },
    { 45, 6 },  { 45, 6 },  { 45, 6 },  { 45, 6 },  { 46, 6 },  { 46, 6 },  { 46, 6 },  { 46, 6 },
    { 47, 6 },  { 47, 6 },  { 47, 6 },  { 47, 6 },  { 51, 6 },  { 51, 6 },  { 51, 6 },  { 51, 6 },
    { 52, 6 },  { 52, 6 },  { 52, 6 },  { 52, 6 },  { 53, 6 },  { 53, 6 },  { 53, 6 },  { 53, 6 },
    { 54, 6 },  { 54, 6 },  { 54, 6 },  { 54, 6 },  { 55, 6 },  { 55, 6 },  { 55, 6 },  { 55, 6 },
    { 56, 6 },  { 56, 6 },  { 56, 6 },  { 56, 6 },  { 57, 6 },  { 57, 6 },  { 57, 6 },  { 57, 6 },
    { 61, 6 },  { 61, 6 },  { 61, 6 },  { 61, 6 },  { 65, 6 },  { 65, 6 },  { 65, 6 },  { 65, 6 },
    { 95, 6 },  { 95, 6 },  { 95, 6 },  { 95, 6 },  { 98, 6 },  { 98, 6 },  { 98, 6 },  { 98, 6 },
    { 100, 6 }, { 100, 6 }, { 100, 6 }, { 100, 6 }, { 102, 6 }, { 102, 6 }, { 102, 6 }, { 102, 6 },
    { 103, 6 }, { 103, 6 }, { 103, 6 }, { 103, 6 }, { 104, 6 }, { 104, 6 }, { 104, 6 }, { 104, 6 },
    { 108, 6 }, { 108, 6 }, { 108, 6 }, { 108, 6 }, { 109, 6 }, { 109, 6 }, { 109, 6 }, { 109, 6 },
    { 110, 6 }, { 110, 6 }, { 110, 6 }, { 110, 6 }, { 112, 6 }, { 112, 6 }, { 112, 6 }, { 112, 6 },
    { 114, 6 }, { 114, 6 }, { 114, 6 }, { 114, 6 }, { 117, 6 }, { 117, 6 }, { 117, 6 }, { 117, 6 },
    { 58, 7 },  { 58, 7 },  { 66, 7 },  { 66, 7 },  { 67, 7 },  { 67, 7 },  { 68, 7 },  { 68, 7 },
    { 69, 7 },  { 69, 7 },  { 70, 7 },  { 70, 7 },  { 71, 7 },  { 71, 7 },  { 72, 7 },  { 72, 7 },
    { 73, 7 },  { 73, 7 },  { 74, 7 },  { 74, 7 },  { 75, 7 },  { 75, 7 },  { 76, 7 },  { 76, 7 },
    { 77, 7 },  { 77, 7 },  { 78, 7 },  { 78, 7 },  { 79, 7 },  { 79, 7 },  { 80, 7 },  { 80, 7 },
    { 81, 7 },  { 81, 7 },  { 82, 7 },  { 82, 7 },  { 83, 7 },  { 83, 7 },  { 84, 7 },  { 84, 7 },
    { 85, 7 },  { 85, 7 },  { 86, 7 },  { 86, 7 },  { 87, 7 },  { 87, 7 },  { 89, 7 },  { 89, 7 },
    { 106, 7 }, { 106, 7 }, { 107, 7 }, { 107, 7 }, { 113, 7 }, { 113, 7 }, { 118, 7 }, { 118, 7 },
    { 119, 7 }, { 119, 7 }, { 120, 7 }, { 120, 7 }, { 121, 7 }, { 121, 7 }, { 122, 7 }, { 122, 7 },
    { 38, 8 },  { 42, 8 },  { 44, 8 },  { 59, 8 },  { 88, 8 },  { 90, 8 },  { 0, 0 },   { 0, 0 }
};

/* Of the longer codes: those of one length are first, first + 1, ... for the count symbols from
 * long_symbols[at] on. */
static const struct {
    uint32_t first;
    uint16_t count;
    uint16_t at;
    uint8_t bits;
} lengths[] = { { 0x3f8, 5, 0, 10 },        { 0x7fa, 3, 5, 11 },        { 0xffa, 2, 8, 12 },
                { 0x1ff8, 6, 10, 13 },      { 0x3ffc, 2, 16, 14 },      { 0x7ffc, 3, 18, 15 },
                { 0x7fff0, 3, 21, 19 },     { 0xfffe6, 8, 24, 20 },     { 0x1fffdc, 13, 32, 21 },
                { 0x3fffd2, 26, 45, 22 },   { 0x7fffd8, 29, 71, 23 },   { 0xffffea, 12, 100, 24 },
                { 0x1ffffec, 4, 112, 25 },  { 0x3ffffe0, 15, 116, 26 }, { 0x7ffffde, 19, 131, 27 },
                { 0xfffffe2, 29, 150, 28 }, { 0x3ffffffc, 4, 179, 30 } };

static const uint16_t long_symbols[] = {
    33,  34,  40,  41,  63,  39,  43,  124, 35,  62,  0,   36,  64,  91,  93,  126, 94,  125, 60,
    96,  123, 92,  195, 208, 128, 130, 131, 162, 184, 194, 224, 226, 153, 161, 167, 172, 176, 177,
    179, 209, 216, 217, 227, 229, 230, 129, 132, 133, 134, 136, 146, 154, 156, 160, 163, 164, 169,
    170, 173, 178, 181, 185, 186, 187, 189, 190, 196, 198, 228, 232, 233, 1,   135, 137, 138, 139,
    140, 141, 143, 147, 149, 150, 151, 152, 155, 157, 158, 165, 166, 168, 174, 175, 180, 182, 183,
    188, 191, 197, 231, 239, 9,   142, 144, 145, 148, 159, 171, 206, 215, 225, 236, 237, 199, 207,
    234, 235, 192, 193, 200, 201, 202, 205, 210, 213, 218, 219, 238, 240, 242, 243, 255, 203, 204,
    211, 212, 214, 221, 222, 223, 241, 244, 245, 246, 247, 248, 250, 251, 252, 253, 254, 2,   3,
    4,   5,   6,   7,   8,   11,  12,  14,  15,  16,  17,  18,  19,  20,  21,  23,  24,  25,  26,
    27,  28,  29,  30,  31,  127, 220, 249, 10,  13,  22,  256
};

/* A code of more than eight bits. 0: there are not bits enough; -1: that of EOS. */
static int long_code(struct hpack_bits *b, uint8_t *out)
{
    for (unsigned i = 0; i < LS_ARRAY_LEN(lengths) && b->count >= lengths[i].bits; i++) {
        uint32_t code =
            (uint32_t)(b->acc >> (b->count - lengths[i].bits)) & ((1u << lengths[i].bits) - 1);

        if (code - lengths[i].first < lengths[i].count) {
            uint16_t symbol = long_symbols[lengths[i].at + (code - lengths[i].first)];

            if (symbol == EOS)
                return -1;
            *out = (uint8_t)symbol;
            b->count -= lengths[i].bits;
            return 1;
        }
    }
    return 0;
}

int hpack_huffman(struct hpack_bits *b, struct ls_bytes *in, uint8_t *out, uint32_t cap)
{
    uint32_t n = 0;

    for (;;) {
        unsigned next;

        while (b->count <= 56 && in->len > 0) {
            b->acc = b->acc << 8 | *in->data++;
            in->len--;
            b->count += 8;
        }
        if (b->count < SHORT_BITS || n == cap)
            return (int)n;
        next = (unsigned)(b->acc >> (b->count - SHORT_BITS)) & 0xff;
        if (LS_LIKELY(starts[next].bits > 0)) {
            out[n++] = starts[next].symbol;
            b->count -= starts[next].bits;
        } else {
            int found = long_code(b, &out[n]);

            if (found <= 0)
                return found < 0 ? -1 : (int)n;
            n++;
        }
    }
}

int hpack_huffman_end(struct hpack_bits *b, uint8_t *out)
{
    int n = 0;

    while (b->count > 0 && b->count < SHORT_BITS) {
        unsigned pad = SHORT_BITS - b->count;
        unsigned next = ((unsigned)(b->acc << pad) | ((1u << pad) - 1)) & 0xff;

        if (starts[next].bits == 0 || starts[next].bits > b->count)
            break;
        out[n++] = starts[next].symbol;
        b->count -= starts[next].bits;
    }
    /* The padding is the beginning of EOS: ones, and less than a byte of them. */
    if (b->count >= SHORT_BITS || (~b->acc & ((UINT64_C(1) << b->count) - 1)) != 0)
        return -1;
    b->count = 0;
    return n;
}
