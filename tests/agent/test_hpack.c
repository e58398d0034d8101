/* Header blocks: the RFC's own examples, and nghttp2's coder as the oracle for everything else. */
#include "tests/support/test.h"

#include <nghttp2/nghttp2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/load/hpack.h"

enum { FIELDS_MAX = 16, TEXT_MAX = 5000, BLOCK_MAX = 70000 };

/* Reads a whole block, in pieces of step bytes. -1: it is none. */
static int read_block(struct hpack *h, struct ls_bytes block, size_t step,
                      struct hpack_field out[FIELDS_MAX])
{
    enum hpack_step last = HPACK_MORE;
    struct hpack_field field;
    int n = 0;

    hpack_begin(h);
    while (block.len > 0) {
        struct ls_bytes piece = { block.data, block.len < step ? block.len : step };

        block.data += piece.len;
        block.len -= piece.len;
        while ((last = hpack_next(h, &piece, &field)) == HPACK_FIELD) {
            assert_true(n < FIELDS_MAX);
            out[n++] = field;
        }
        if (last == HPACK_BAD) {
            assert_non_null(h->why);
            return -1;
        }
        assert_int_equal(piece.len, 0);
    }
    return hpack_end(h) ? n : -1;
}

static size_t from_hex(const char *hex, unsigned char *out)
{
    size_t len = 0;
    unsigned byte;

    while (sscanf(hex, "%2x", &byte) == 1) {
        out[len++] = (unsigned char)byte;
        hex += 2 + (hex[2] == ' ');
    }
    return len;
}

/* ---- RFC 7541, Appendix C -------------------------------------------------------------------- */

struct example {
    const char *hex;
    const char *fields; /* kind, name length, value length, number; kinds as letters */
    uint32_t used;      /* bytes of the dynamic table afterwards */
};

static const char *show(const struct hpack_field *fields, int n, char *out, size_t cap)
{
    size_t len = 0;

    out[0] = '\0';
    for (int i = 0; i < n; i++)
        len += (size_t)snprintf(out + len, cap - len, "%s%c%u:%u=%llu%s", i > 0 ? " " : "",
                                ".slgpci"[fields[i].kind], fields[i].name_len, fields[i].value_len,
                                (unsigned long long)fields[i].number, fields[i].ill ? "!" : "");
    return out;
}

static void check_examples(const struct example *examples, size_t count, uint32_t table)
{
    for (size_t step = 1; step < 200; step += step < 4 ? 1 : 190) {
        struct hpack h;

        hpack_init(&h);
        if (table != HPACK_TABLE_MAX) {
            const unsigned char resize[] = { 0x3f, (unsigned char)(0x80 | ((table - 31) & 0x7f)),
                                             (unsigned char)((table - 31) >> 7) };
            struct hpack_field none[FIELDS_MAX];

            assert_int_equal(read_block(&h, (struct ls_bytes){ resize, 3 }, step, none), 0);
        }
        for (size_t i = 0; i < count; i++) {
            unsigned char block[256];
            struct hpack_field fields[FIELDS_MAX];
            char seen[512];
            size_t len = from_hex(examples[i].hex, block);
            int n = read_block(&h, (struct ls_bytes){ block, len }, step, fields);

            assert_string_equal(show(fields, n, seen, sizeof(seen)), examples[i].fields);
            assert_int_equal(h.used, examples[i].used);
        }
    }
}

static void the_examples_of_the_rfc_are_read_as_it_says(void **state)
{
    static const struct example literals[] = {
        { "400a 6375 7374 6f6d 2d6b 6579 0d63 7573 746f 6d2d 6865 6164 6572", ".10:13=0", 55 },
        { "040c 2f73 616d 706c 652f 7061 7468", "p5:12=0", 55 },
        { "1008 7061 7373 776f 7264 0673 6563 7265 74", ".8:6=0", 55 },
        { "82", "p7:3=0", 55 },
    };
    static const struct example requests[] = {
        { "8286 8441 0f77 7777 2e65 7861 6d70 6c65 2e63 6f6d", "p7:3=0 p7:4=0 p5:1=0 p10:15=0",
          57 },
        { "8286 84be 5808 6e6f 2d63 6163 6865", "p7:3=0 p7:4=0 p5:1=0 p10:15=0 .13:8=0", 110 },
        { "8287 85bf 400a 6375 7374 6f6d 2d6b 6579 0c63 7573 746f 6d2d 7661 6c75 65",
          "p7:3=0 p7:5=0 p5:11=0 p10:15=0 .10:12=0", 164 },
    };
    static const struct example coded_requests[] = {
        { "8286 8441 8cf1 e3c2 e5f2 3a6b a0ab 90f4 ff", "p7:3=0 p7:4=0 p5:1=0 p10:15=0", 57 },
        { "8286 84be 5886 a8eb 1064 9cbf", "p7:3=0 p7:4=0 p5:1=0 p10:15=0 .13:8=0", 110 },
        { "8287 85bf 4088 25a8 49e9 5ba9 7d7f 8925 a849 e95b b8e8 b4bf",
          "p7:3=0 p7:5=0 p5:11=0 p10:15=0 .10:12=0", 164 },
    };
    static const struct example responses[] = {
        { "4803 3330 3258 0770 7269 7661 7465 611d 4d6f 6e2c 2032 3120 4f63 7420 3230 3133 2032 "
          "303a 3133 3a32 3120 474d 546e 1768 7474 7073 3a2f 2f77 7777 2e65 7861 6d70 6c65 2e63 "
          "6f6d",
          "s7:3=302 .13:7=0 .4:29=0 .8:23=0", 222 },
        { "4803 3330 37c1 c0bf", "s7:3=307 .13:7=0 .4:29=0 .8:23=0", 222 },
        { "88c1 611d 4d6f 6e2c 2032 3120 4f63 7420 3230 3133 2032 303a 3133 3a32 3220 474d 54c0 "
          "5a04 677a 6970 7738 666f 6f3d 4153 444a 4b48 514b 425a 584f 5157 454f 5049 5541 5851 "
          "5745 4f49 553b 206d 6178 2d61 6765 3d33 3630 303b 2076 6572 7369 6f6e 3d31",
          "s7:3=200 .13:7=0 .4:29=0 .8:23=0 g16:4=1 .10:56=0", 215 },
    };
    static const struct example coded_responses[] = {
        { "4882 6402 5885 aec3 771a 4b61 96d0 7abe 9410 54d4 44a8 2005 9504 0b81 66e0 82a6 2d1b "
          "ff6e 919d 29ad 1718 63c7 8f0b 97c8 e9ae 82ae 43d3",
          "s7:3=302 .13:7=0 .4:29=0 .8:23=0", 222 },
        { "4883 640e ffc1 c0bf", "s7:3=307 .13:7=0 .4:29=0 .8:23=0", 222 },
        { "88c1 6196 d07a be94 1054 d444 a820 0595 040b 8166 e084 a62d 1bff c05a 839b d9ab 77ad "
          "94e7 821d d7f2 e6c7 b335 dfdf cd5b 3960 d5af 2708 7f36 72c1 ab27 0fb5 291f 9587 3160 "
          "65c0 03ed 4ee5 b106 3d50 07",
          "s7:3=200 .13:7=0 .4:29=0 .8:23=0 g16:4=1 .10:56=0", 215 },
    };

    (void)state;
    check_examples(literals, LS_ARRAY_LEN(literals), HPACK_TABLE_MAX);
    check_examples(requests, LS_ARRAY_LEN(requests), HPACK_TABLE_MAX);
    check_examples(coded_requests, LS_ARRAY_LEN(coded_requests), HPACK_TABLE_MAX);
    check_examples(responses, LS_ARRAY_LEN(responses), 256);
    check_examples(coded_responses, LS_ARRAY_LEN(coded_responses), 256);
}

/* ---- what is no block -------------------------------------------------------------------------
 */

static void what_is_no_block_is_refused_with_a_reason(void **state)
{
    static const struct {
        const char *hex;
        const char *why;
    } cases[] = {
        { "80", "header block: an index that the table does not have" },
        { "be", "header block: an index that the table does not have" },
        { "7f00", "header block: an index that the table does not have" },
        { "3fe2 1f", "header block: the table is made larger than it may be" },
        { "8820", "header block: the table's size changes within a block" },
        { "ffff ffff ffff 00", "header block: an integer is too large" },
        { "ff80 8080 8080 8080 00", "header block: an integer is too large" },
        { "007f ff80 0400", "header block: a name or value is too long" },
        { "0003 6162", "header block: ends within a field" },
        { "0001 61", "header block: ends within a field" },
        { "ff", "header block: ends within a field" },
        { "0881 00", "header block: a Huffman code is wrong" },        /* padding of zeros */
        { "0882 1fff", "header block: a Huffman code is wrong" },      /* a byte of padding */
        { "0884 ffff ffff", "header block: a Huffman code is wrong" }, /* EOS */
    };

    (void)state;
    for (size_t i = 0; i < LS_ARRAY_LEN(cases); i++) {
        for (size_t step = 1; step < 12; step += 10) {
            unsigned char block[32];
            struct hpack_field fields[FIELDS_MAX];
            struct hpack h;
            size_t len = from_hex(cases[i].hex, block);

            hpack_init(&h);
            assert_int_equal(read_block(&h, (struct ls_bytes){ block, len }, step, fields), -1);
            assert_string_equal(h.why, cases[i].why);
        }
    }
}

static void values_are_understood_where_they_matter(void **state)
{
    static const struct {
        const char *name;
        const char *value;
        const char *field;
    } cases[] = {
        { ":status", "200", "s7:3=200" },
        { ":status", "099", "s7:3=99!" },
        { ":status", "20", "s7:2=0!" },
        { ":status", "2000", "s7:4=0!" },
        { ":path", "/", "p5:1=0" },
        { ":", "", "p1:0=0" },
        { "content-length", "0", "l14:1=0" },
        { "content-length", "9223372036854775807", "l14:19=9223372036854775807" },
        { "content-length", "9223372036854775808", "l14:19=0!" },
        { "content-length", "-1", "l14:2=0!" },
        { "content-length", "", "l14:0=0!" },
        { "content-length", "00000000000000000013", "l14:20=0!" },
        { "content-encoding", "gzip", "g16:4=1" },
        { "content-encoding", "identity", "g16:8=0" },
        { "content-encoding", "br", "g16:2=2" },
        { "connection", "close", "c10:5=0" },
        { "transfer-encoding", "chunked", "c17:7=0" },
        { "upgrade", "h2c", "c7:3=0" },
        { "Server", "x", "i6:1=0" },
        { "a b", "x", "i3:1=0" },
        { "a:b", "x", "i3:1=0" },
        { "", "x", "i0:1=0" },
        { "server", "a\nb", ".6:3=0!" },
        { "server", "a\tb", ".6:3=0" },
    };

    (void)state;
    for (size_t i = 0; i < LS_ARRAY_LEN(cases); i++) {
        unsigned char block[128] = { 0x40 };
        struct hpack_field fields[FIELDS_MAX];
        size_t name = strlen(cases[i].name);
        size_t value = strlen(cases[i].value);
        char seen[128];
        struct hpack h;
        int n;

        block[1] = (unsigned char)name;
        memcpy(block + 2, cases[i].name, name);
        block[2 + name] = (unsigned char)value;
        memcpy(block + 3 + name, cases[i].value, value);
        block[3 + name + value] = 0xbe; /* and the same again, from the table */
        hpack_init(&h);
        n = read_block(&h, (struct ls_bytes){ block, 4 + name + value }, 1, fields);
        assert_int_equal(n, 2);
        assert_string_equal(show(fields, 1, seen, sizeof(seen)), cases[i].field);
        assert_string_equal(show(fields + 1, 1, seen, sizeof(seen)), cases[i].field);
    }
}

/* ---- nghttp2 as the oracle --------------------------------------------------------------------
 */

static uint32_t seed;

static uint32_t draw(uint32_t below)
{
    seed = seed * 1664525u + 1013904223u;
    return (uint32_t)((uint64_t)seed * below >> 32);
}

static char names[FIELDS_MAX][64];
static char values[FIELDS_MAX][TEXT_MAX + 1];

static size_t draw_fields(nghttp2_nv *out)
{
    static const char *const usual[] = { ":status",          "content-length", "content-type",
                                         "content-encoding", "date",           "server" };
    size_t n = draw(8);

    for (size_t i = 0; i < n; i++) {
        uint32_t len = draw(50) == 0 ? draw(TEXT_MAX) : draw(30);

        if (draw(3) > 0)
            (void)snprintf(names[i], sizeof(names[i]), "%s", usual[draw(LS_ARRAY_LEN(usual))]);
        else
            (void)snprintf(names[i], sizeof(names[i]), "x-%u", draw(300));
        for (uint32_t k = 0; k < len; k++)
            values[i][k] = (char)(draw(3) > 0 ? '0' + draw(10) : draw(256));
        if (draw(2) == 0)
            len = (uint32_t)snprintf(values[i], TEXT_MAX, "%u", 100 + draw(900));
        out[i] = (nghttp2_nv){ .name = (uint8_t *)names[i],
                               .value = (uint8_t *)values[i],
                               .namelen = strlen(names[i]),
                               .valuelen = len,
                               .flags = draw(10) == 0 ? NGHTTP2_NV_FLAG_NO_INDEX : 0 };
    }
    return n;
}

static void what_nghttp2_codes_is_read_back(void **state)
{
    static uint8_t block[BLOCK_MAX];
    nghttp2_hd_deflater *deflater;
    struct hpack h;

    (void)state;
    seed = 1;
    assert_int_equal(nghttp2_hd_deflate_new(&deflater, HPACK_TABLE_MAX), 0);
    hpack_init(&h);
    for (unsigned round = 0; round < 20000; round++) {
        nghttp2_nv fields[FIELDS_MAX];
        struct hpack_field seen[FIELDS_MAX];
        size_t count = draw_fields(fields);
        ssize_t len;

        if (draw(50) == 0)
            assert_int_equal(
                nghttp2_hd_deflate_change_table_size(deflater, draw(HPACK_TABLE_MAX + 1)), 0);
        len = nghttp2_hd_deflate_hd(deflater, block, sizeof(block), fields, count);
        assert_true(len >= 0);
        assert_int_equal(
            read_block(&h, (struct ls_bytes){ block, (size_t)len }, 1 + draw(60), seen), count);
        for (size_t i = 0; i < count; i++) {
            assert_int_equal(seen[i].name_len, fields[i].namelen);
            assert_int_equal(seen[i].value_len, fields[i].valuelen);
            if (seen[i].kind == HPACK_LENGTH && !seen[i].ill) {
                values[i][fields[i].valuelen] = '\0';
                assert_int_equal(seen[i].number, strtoull(values[i], NULL, 10));
            }
            assert_int_equal(seen[i].kind == HPACK_STATUS, strcmp(names[i], ":status") == 0);
        }
        assert_int_equal(h.used, nghttp2_hd_deflate_get_dynamic_table_size(deflater));
        assert_int_equal(h.count + 61, nghttp2_hd_deflate_get_num_table_entries(deflater));
    }
    nghttp2_hd_deflate_del(deflater);
}

/* What nghttp2 makes of a block: -1, or how many fields, and their sizes. */
static int inflate(nghttp2_hd_inflater *inflater, const uint8_t *block, size_t len,
                   struct hpack_field *out)
{
    int n = 0;

    for (;;) {
        nghttp2_nv nv;
        int flags = 0;
        ssize_t used = nghttp2_hd_inflate_hd2(inflater, &nv, &flags, block, len, 1);

        if (used < 0)
            return -1;
        block += used;
        len -= (size_t)used;
        if ((flags & NGHTTP2_HD_INFLATE_EMIT) != 0) {
            assert_true(n < FIELDS_MAX);
            out[n].name_len = (uint32_t)nv.namelen;
            out[n++].value_len = (uint32_t)nv.valuelen;
        }
        if ((flags & NGHTTP2_HD_INFLATE_FINAL) != 0) {
            (void)nghttp2_hd_inflate_end_headers(inflater);
            return n;
        }
    }
}

static void blocks_that_were_changed_are_judged_as_nghttp2_does(void **state)
{
    static uint8_t block[BLOCK_MAX];
    unsigned refused = 0;

    (void)state;
    seed = 2;
    for (unsigned round = 0; round < 3000; round++) {
        nghttp2_hd_deflater *deflater;
        nghttp2_hd_inflater *inflater;
        struct hpack h;
        int n = 0;

        assert_int_equal(nghttp2_hd_deflate_new(&deflater, HPACK_TABLE_MAX), 0);
        assert_int_equal(nghttp2_hd_inflate_new(&inflater), 0);
        hpack_init(&h);
        for (unsigned i = 0; i < 4 && n >= 0; i++) {
            nghttp2_nv fields[FIELDS_MAX];
            struct hpack_field seen[FIELDS_MAX];
            struct hpack_field right[FIELDS_MAX];
            size_t count = draw_fields(fields);
            ssize_t len = nghttp2_hd_deflate_hd(deflater, block, sizeof(block), fields, count);
            int expected;

            assert_true(len >= 0);
            for (uint32_t k = draw(4); k > 0 && len > 0; k--)
                block[draw((uint32_t)len)] ^= (uint8_t)(1u << draw(8));
            n = read_block(&h, (struct ls_bytes){ block, (size_t)len }, 1 + draw(60), seen);
            expected = inflate(inflater, block, (size_t)len, right);
            assert_int_equal(n, expected);
            refused += n < 0;
            for (int k = 0; k < n; k++) {
                assert_int_equal(seen[k].name_len, right[k].name_len);
                assert_int_equal(seen[k].value_len, right[k].value_len);
            }
        }
        nghttp2_hd_deflate_del(deflater);
        nghttp2_hd_inflate_del(inflater);
    }
    assert_true(refused > 100);
}

/* Text of every byte, coded by nghttp2, is the same text again. */
static void every_symbol_is_decoded(void **state)
{
    uint8_t block[4096];
    nghttp2_hd_deflater *deflater;

    (void)state;
    assert_int_equal(nghttp2_hd_deflate_new(&deflater, 0), 0);
    for (unsigned symbol = 0; symbol < 256; symbol++) {
        /* Enough short codes around a long one that coding pays. */
        uint8_t name[] = "a";
        uint8_t text[] = "00000000000000000000000000000000x00000000000000000000000000000000";
        nghttp2_nv nv = { .name = name,
                          .value = text,
                          .namelen = 1,
                          .valuelen = sizeof(text) - 1,
                          .flags = NGHTTP2_NV_FLAG_NO_INDEX };
        struct hpack_bits bits = { 0 };
        struct ls_bytes coded;
        uint8_t out[128];
        ssize_t len;
        int n;
        int rest;

        text[32] = (uint8_t)symbol;
        len = nghttp2_hd_deflate_hd(deflater, block, sizeof(block), &nv, 1);
        assert_true(len > 4);
        /* The value is last; its length octet has the Huffman bit. */
        coded = (struct ls_bytes){ block, (size_t)len };
        while (coded.len > 0 && coded.data[0] != (0x80 | (coded.len - 1))) {
            coded.data++;
            coded.len--;
        }
        assert_true(coded.len > 0);
        coded.data++;
        coded.len--;
        n = hpack_huffman(&bits, &coded, out, sizeof(out));
        assert_true(n >= 0);
        rest = hpack_huffman_end(&bits, out + n);
        assert_true(rest >= 0);
        assert_int_equal(n + rest, sizeof(text) - 1);
        assert_memory_equal(out, text, sizeof(text) - 1);
    }
    nghttp2_hd_deflate_del(deflater);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_examples_of_the_rfc_are_read_as_it_says),
        cmocka_unit_test(what_is_no_block_is_refused_with_a_reason),
        cmocka_unit_test(values_are_understood_where_they_matter),
        cmocka_unit_test(what_nghttp2_codes_is_read_back),
        cmocka_unit_test(blocks_that_were_changed_are_judged_as_nghttp2_does),
        cmocka_unit_test(every_symbol_is_decoded),
    };

    return cmocka_run_group_tests_name("agent.hpack", tests, NULL, NULL);
}
