#include "tests/support/test.h"

#include <stdlib.h>
#include <string.h>

#include "common/buf.h"
#include "common/hist_codec.h"
#include "common/rng.h"
#include "tests/support/failmalloc.h"

static struct ls_hist *new_hist(void)
{
    struct ls_hist *hist = NULL;

    assert_int_equal(ls_hist_create(&hist), LS_OK);
    return hist;
}

/* Values spread over n octaves of the range. */
static void fill(struct ls_hist *hist, uint64_t seed, unsigned values, unsigned octaves)
{
    struct ls_rng rng;

    ls_rng_init(&rng, seed, 1);
    for (unsigned i = 0; i < values; i++) {
        unsigned octave = (unsigned)ls_rng_below(&rng, octaves);

        ls_hist_record(hist, (int64_t)ls_rng_below(&rng, UINT64_C(1) << (octave + 1)));
    }
}

static enum ls_err decode(struct ls_hist *dst, const void *data, size_t len, struct ls_diag *diag)
{
    enum ls_err rc;
    unsigned char *copy = malloc(len + 1); /* so that a sanitizer sees a read beyond the end */

    assert_non_null(copy);
    (void)memcpy(copy + 1, data, len);
    rc = ls_hist_decode_add(dst, (struct ls_bytes){ copy + 1, len }, diag);
    free(copy);
    return rc;
}

static void check_round_trip(const struct ls_hist *hist)
{
    struct ls_hist *back = new_hist();
    struct ls_diag diag = { 0 };
    unsigned char *data = NULL;
    size_t len = 0;

    assert_int_equal(ls_hist_encode(hist, &data, &len), LS_OK);
    assert_true(len <= LS_HIST_WIRE_MAX);
    assert_int_equal(decode(back, data, len, &diag), LS_OK);
    assert_true(ls_hist_equal(hist, back));
    free(data);
    ls_hist_destroy(back);
}

static void what_is_encoded_comes_back(void **state)
{
    struct ls_hist *hist = new_hist();

    (void)state;
    check_round_trip(hist);
    for (unsigned octaves = 1; octaves <= 46; octaves += 5) { /* up to beyond the range */
        for (unsigned values = 1; values <= 100000; values *= 10) {
            ls_hist_reset(hist);
            fill(hist, octaves, values, octaves);
            check_round_trip(hist);
        }
    }
    ls_hist_destroy(hist);
}

static void the_largest_histograms_fit(void **state)
{
    struct ls_hist *full = new_hist();
    struct ls_hist *comb = new_hist();
    struct ls_rng rng;

    (void)state;
    ls_rng_init(&rng, 7, 7); /* counters that do not deflate */
    for (uint32_t i = 0; ls_hist_highest_at(i) < LS_HIST_MAX_NS; i++) {
        ls_hist_record_n(full, ls_hist_lowest_at(i), 1 + ls_rng_below(&rng, UINT64_C(1) << 47));
        if (i % 2 == 0)
            ls_hist_record_n(comb, ls_hist_lowest_at(i), 1 + ls_rng_below(&rng, 1u << 30));
    }
    ls_hist_record(full, INT64_MAX);
    check_round_trip(full);
    check_round_trip(comb);
    ls_hist_destroy(full);
    ls_hist_destroy(comb);
}

static void decoding_adds_like_merging(void **state)
{
    struct ls_hist *a = new_hist();
    struct ls_hist *b = new_hist();
    struct ls_hist *sum = new_hist();
    unsigned char *data = NULL;
    size_t len = 0;

    (void)state;
    fill(a, 1, 5000, 30);
    fill(b, 2, 500, 44);
    ls_hist_merge(sum, a);
    ls_hist_merge(sum, b);
    assert_int_equal(ls_hist_encode(b, &data, &len), LS_OK);
    assert_int_equal(decode(a, data, len, NULL), LS_OK);
    assert_true(ls_hist_equal(a, sum));
    free(data);
    ls_hist_destroy(a);
    ls_hist_destroy(b);
    ls_hist_destroy(sum);
}

static void an_empty_histogram_takes_a_few_bytes(void **state)
{
    struct ls_hist *hist = new_hist();
    unsigned char *data = NULL;
    size_t len = 0;

    (void)state;
    assert_int_equal(ls_hist_encode(hist, &data, &len), LS_OK);
    assert_true(len <= 8);
    free(data);
    ls_hist_destroy(hist);
}

/* A second at 200 000 requests: what the stream is sized for. */
static void a_second_of_load_fits_ten_kilobytes(void **state)
{
    struct ls_hist *hist = new_hist();
    struct ls_rng rng;
    unsigned char *data = NULL;
    size_t len = 0;

    (void)state;
    ls_rng_init(&rng, 3, 3);
    for (unsigned i = 0; i < 200000; i++) {
        double x = ls_rng_unit(&rng) + ls_rng_unit(&rng) + ls_rng_unit(&rng);

        ls_hist_record(hist, (int64_t)(200e3 * x) + (i % 100 == 0 ? i * 100 : 0));
    }
    assert_int_equal(ls_hist_encode(hist, &data, &len), LS_OK);
    assert_true(len < 10000);
    free(data);
    ls_hist_destroy(hist);
}

/* Bytes from a peer: written by hand, one mistake each. */
static void a_damaged_histogram_is_refused_and_changes_nothing(void **state)
{
    static const struct {
        const char *what;
        size_t len;
        const char *bytes;
    } cases[] = {
        { "nothing", 0, "" },
        { "version only", 1, "\x01" },
        { "another version", 7, "\x02\0\0\0\0\0\0" },
        { "an unknown flag", 7, "\x01\x02\0\0\0\0\0" },
        { "no summary", 2, "\x01\0" },
        { "half a summary", 5, "\x01\0\x01\x05\x05" },
        { "empty, but with a run", 10, "\x01\0\0\0\0\0\x01\x05\x01\x01" },
        { "empty, but with a maximum", 7, "\x01\0\0\0\x05\0\0" },
        { "a count, but no run", 7, "\x01\0\x01\x05\x05\0\0" },
        { "minimum above maximum", 10, "\x01\0\x02\x06\x05\0\x01\x05\x02\x01" },
        { "one value, two extremes", 10, "\x01\0\x01\x05\x06\0\x01\x05\x01\x01" },
        { "clipped within the range", 10, "\x01\0\x01\x05\x05\x01\x01\x05\x01\x01" },
        { "more clipped than counted", 10, "\x01\0\x01\x05\x05\x02\x01\x05\x01\x01" },
        { "an empty run", 9, "\x01\0\x01\x05\x05\0\x01\x05\0" },
        { "a zero counter", 10, "\x01\0\x01\x05\x05\0\x01\x05\x01\0" },
        { "no gap between runs", 13, "\x01\0\x02\x05\x06\0\x02\x05\x01\x01\0\x01\x01" },
        { "counters above the count", 10, "\x01\0\x01\x05\x05\0\x01\x05\x01\x02" },
        { "counters below the count", 10, "\x01\0\x03\x05\x05\0\x01\x05\x01\x02" },
        { "a bucket below the minimum", 10, "\x01\0\x01\x05\x05\0\x01\x04\x01\x01" },
        { "a bucket above the maximum", 10, "\x01\0\x01\x05\x05\0\x01\x06\x01\x01" },
        { "a run beyond the end", 13, "\x01\0\x01\x05\x05\0\x01\xff\x87\x02\x02\x01\x01" },
        { "a gap beyond the end", 12, "\x01\0\x01\x05\x05\0\x01\x80\x88\x02\x01\x01" },
        { "a missing counter", 9, "\x01\0\x01\x05\x05\0\x01\x05\x01" },
        { "something behind", 11, "\x01\0\x01\x05\x05\0\x01\x05\x01\x01\0" },
        { "a longer form", 11, "\x01\0\x81\0\x05\x05\0\x01\x05\x01\x01" },
        { "65 bits", 19,
          "\x01\0\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02\x05\x05\0\x01\x05\x01\x01" },
        { "inflated length 0", 3, "\x01\x01\0" },
        { "inflated length too large", 5, "\x01\x01\x81\x80\x20" },
        { "not deflated", 7, "\x01\x01\x05zlib" },
    };
    struct ls_hist *hist = new_hist();
    struct ls_hist *before = new_hist();

    (void)state;
    fill(hist, 9, 100, 20);
    ls_hist_merge(before, hist);
    for (size_t i = 0; i < LS_ARRAY_LEN(cases); i++) {
        struct ls_diag diag = { 0 };

        if (decode(hist, cases[i].bytes, cases[i].len, &diag) != LS_EPROTO)
            fail_msg("accepted: %s", cases[i].what);
        assert_int_equal(diag.code, LS_EPROTO);
        assert_true(strlen(diag.text) > 10);
        assert_true(ls_hist_equal(hist, before));
    }
    /* ... and the same without a mistake is accepted. */
    assert_int_equal(decode(hist, "\x01\0\x01\x05\x05\0\x01\x05\x01\x01", 10, NULL), LS_OK);
    assert_false(ls_hist_equal(hist, before));
    ls_hist_destroy(hist);
    ls_hist_destroy(before);
}

/* Any single change of a byte gives an error, or a histogram that adds up and encodes again. */
static void check_damage(const unsigned char *data, size_t len)
{
    unsigned char *copy = malloc(len);

    assert_non_null(copy);
    (void)memcpy(copy, data, len);
    for (size_t i = 0; i < len; i++) {
        for (unsigned bit = 0; bit < 8; bit++) {
            struct ls_hist *hist = new_hist();

            copy[i] ^= (unsigned char)(1u << bit);
            if (decode(hist, copy, len, NULL) == LS_OK)
                check_round_trip(hist);
            copy[i] = data[i];
            ls_hist_destroy(hist);
        }
    }
    free(copy);
}

static void truncated_or_flipped_bytes_do_no_harm(void **state)
{
    struct ls_hist *hist = new_hist();
    struct ls_hist *sink = new_hist();
    unsigned char *data = NULL;
    size_t len = 0;

    (void)state;
    for (unsigned values = 10; values <= 200; values += 190) { /* plain, deflated */
        ls_hist_reset(hist);
        fill(hist, values, values, 40);
        assert_int_equal(ls_hist_encode(hist, &data, &len), LS_OK);
        assert_int_equal(data[1], values == 10 ? 0 : 1);
        for (size_t cut = 0; cut < len; cut++)
            assert_int_equal(decode(sink, data, cut, NULL), LS_EPROTO);
        check_damage(data, len);
        free(data);
    }
    assert_int_equal(ls_hist_count(sink), 0);
    ls_hist_destroy(hist);
    ls_hist_destroy(sink);
}

static void sums_do_not_overflow(void **state)
{
    struct ls_hist *hist = new_hist();
    struct ls_hist *half = new_hist();
    unsigned char *data = NULL;
    size_t len = 0;

    (void)state;
    ls_hist_record_n(half, 1000, UINT64_C(1) << 62);
    assert_int_equal(ls_hist_encode(half, &data, &len), LS_OK);
    assert_int_equal(decode(hist, data, len, NULL), LS_OK);
    assert_int_equal(decode(hist, data, len, NULL), LS_EPROTO);
    assert_true(ls_hist_equal(hist, half));
    free(data);
    ls_hist_destroy(hist);
    ls_hist_destroy(half);
}

static void encode_once(void *ctx)
{
    const struct ls_hist *hist = ctx;
    unsigned char *data = NULL;
    size_t len = 0;
    enum ls_err rc = ls_hist_encode(hist, &data, &len);

    assert_int_equal(rc, failmalloc_hit() ? LS_ENOMEM : LS_OK);
    assert_true((rc == LS_OK) == (data != NULL));
    free(data);
}

struct wire {
    struct ls_hist *dst;
    unsigned char *data;
    size_t len;
};

static void decode_once(void *ctx)
{
    struct wire *wire = ctx;
    struct ls_bytes in = { wire->data, wire->len };
    enum ls_err rc = ls_hist_decode_add(wire->dst, in, NULL);

    assert_int_equal(rc, failmalloc_hit() ? LS_ENOMEM : LS_OK);
    assert_int_equal(ls_hist_count(wire->dst), rc == LS_OK ? 1000 : 0);
}

static void a_failing_allocation_is_reported_and_leaks_nothing(void **state)
{
    struct ls_hist *hist = new_hist();
    struct wire wire = { .dst = new_hist() };

    (void)state;
    fill(hist, 5, 1000, 30);
    assert_true(failmalloc_each(encode_once, hist) >= 2);
    assert_int_equal(ls_hist_encode(hist, &wire.data, &wire.len), LS_OK);
    assert_int_equal(failmalloc_each(decode_once, &wire), 1);
    free(wire.data);
    ls_hist_destroy(wire.dst);
    ls_hist_destroy(hist);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_encoded_comes_back),
        cmocka_unit_test(the_largest_histograms_fit),
        cmocka_unit_test(decoding_adds_like_merging),
        cmocka_unit_test(an_empty_histogram_takes_a_few_bytes),
        cmocka_unit_test(a_second_of_load_fits_ten_kilobytes),
        cmocka_unit_test(a_damaged_histogram_is_refused_and_changes_nothing),
        cmocka_unit_test(truncated_or_flipped_bytes_do_no_harm),
        cmocka_unit_test(sums_do_not_overflow),
        cmocka_unit_test(a_failing_allocation_is_reported_and_leaks_nothing),
    };
    return cmocka_run_group_tests_name("common.hist_codec", tests, NULL, NULL);
}
