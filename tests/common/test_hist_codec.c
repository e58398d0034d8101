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
    struct ls_hist_sparse sparse;

    assert_non_null(copy);
    assert_int_equal(ls_hist_sparse_init(&sparse), LS_OK);
    (void)memcpy(copy + 1, data, len);
    rc = ls_hist_decode((struct ls_bytes){ copy + 1, len }, &sparse, diag);
    ls_hist_sparse_add_to(&sparse, dst); /* after a failure it is empty */
    ls_hist_sparse_fini(&sparse);
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

/* Bytes from a peer, written by hand, with one mistake each. */
static void a_damaged_histogram_is_refused_and_changes_nothing(void **state)
{
#define BYTES(literal) sizeof(literal) - 1, literal
    static const struct {
        const char *what;
        const char *why;
        size_t len;
        const char *bytes;
    } cases[] = {
        { "nothing", "too few", BYTES("") },
        { "version only", "too few", BYTES("\001") },
        { "another version", "encoding 2", BYTES("\002\000\000\000\000\000\000") },
        { "an unknown flag", "unknown flags", BYTES("\001\002\000\000\000\000\000") },
        { "no summary", "ends too early", BYTES("\001\000") },
        { "half a summary", "ends too early", BYTES("\001\000\001\005\005") },
        { "empty, but with a run", "extremes and its count",
          BYTES("\001\000\000\000\000\000\001\005\001\001") },
        { "empty, but with a maximum", "extremes and its count",
          BYTES("\001\000\000\000\005\000\000") },
        { "a count, but no run", "extremes and its count", BYTES("\001\000\001\005\005\000\000") },
        { "minimum above maximum", "extremes and its count",
          BYTES("\001\000\002\006\005\000\001\005\002\001") },
        { "one value, two extremes", "extremes and its count",
          BYTES("\001\000\001\005\006\000\001\005\001\001") },
        { "a maximum beyond any time", "extremes and its count",
          BYTES("\001\000\002\005\200\200\200\200\200\200\200\200\200\001\001\001\005\001\001") },
        { "clipped within the range", "clipped values",
          BYTES("\001\000\001\005\005\001\001\005\001\001") },
        { "beyond the range, but not clipped", "clipped values",
          BYTES(
              "\001\000\002\005\201\300\342\205\343\150\000\002\005\001\001\206\205\002\001\001") },
        { "all beyond the range, but not all clipped", "clipped values",
          BYTES(
              "\001\000\002\205\300\342\205\343\150\205\300\342\205\343\150\001\001\214\205\002\001\002") },
        { "more clipped than the last bucket holds", "more values are clipped",
          BYTES(
              "\001\000\003\005\201\300\342\205\343\150\002\002\005\001\002\206\205\002\001\001") },
        { "an empty run", "empty run", BYTES("\001\000\001\005\005\000\001\005\000") },
        { "an empty run before another", "empty run",
          BYTES("\001\000\001\005\005\000\002\000\000\005\001\001") },
        { "a zero counter", "missing or zero", BYTES("\001\000\001\005\005\000\001\005\001\000") },
        { "no gap between runs", "empty run or gap",
          BYTES("\001\000\002\005\006\000\002\005\001\001\000\001\001") },
        { "counters above the count", "add up", BYTES("\001\000\001\005\005\000\001\005\001\002") },
        { "counters below the count", "add up", BYTES("\001\000\003\005\005\000\001\005\001\002") },
        { "counters that add up only modulo 2^64", "overflow",
          BYTES(
              "\001\000\002\005\006\000\001\005\002\200\200\200\200\200\200\200\200\200\001\202\200\200\200\200\200\200\200\200\001") },
        { "a bucket below the minimum", "are not where",
          BYTES("\001\000\001\005\005\000\001\004\001\001") },
        { "a bucket above the maximum", "are not where",
          BYTES("\001\000\001\005\005\000\001\006\001\001") },
        { "a run beyond the end", "more buckets",
          BYTES("\001\000\002\005\005\000\001\377\207\002\002\001\001") },
        { "a gap beyond the end", "more buckets",
          BYTES("\001\000\001\005\005\000\001\200\210\002\001\001") },
        { "a gap beyond any end", "more buckets",
          BYTES("\001\000\001\005\005\000\001\205\200\200\200\020\001\001") },
        { "a missing counter", "missing or zero", BYTES("\001\000\001\005\005\000\001\005\001") },
        { "something behind", "follows", BYTES("\001\000\001\005\005\000\001\005\001\001\000") },
        { "a number in more bytes than it needs", "ends too early",
          BYTES("\001\000\201\000\005\005\000\001\005\001\001") },
        { "a number of 65 bits", "ends too early",
          BYTES("\001\000\201\200\200\200\200\200\200\200\200\002\005\005\000\001\005\001\001") },
        { "a number without end", "ends too early",
          BYTES(
              "\001\000\200\200\200\200\200\200\200\200\200\200\200\200\200\200\200\200\200\200\200\200") },
        { "an inflated length of 0", "inflated length", BYTES("\001\001\000") },
        { "too large an inflated length", "inflated length", BYTES("\001\001\201\200\040") },
        { "what is not deflated", "damaged", BYTES("\001\001\005\172\154\151\142") },
        { "an inflated length that is too long", "damaged",
          BYTES("\001\001\011\170\234\143\144\145\145\140\144\145\144\004\000\000\147\000\024") },
        { "an inflated length that is too short", "damaged",
          BYTES("\001\001\007\170\234\143\144\145\145\140\144\145\144\004\000\000\147\000\024") },
        { "something behind the deflated bytes", "damaged",
          BYTES(
              "\001\001\010\170\234\143\144\145\145\140\144\145\144\004\000\000\147\000\024\000") },
        { "deflated bytes cut off", "damaged",
          BYTES("\001\001\010\170\234\143\144\145\145\140\144\145\144\004\000\000\147\000") },
    };
    static const struct {
        size_t len;
        const char *bytes;
    } sound[] = {
        { BYTES("\001\000\001\005\005\000\001\005\001\001") },
        { BYTES("\001\001\010\170\234\143\144\145\145\140\144\145\144\004\000\000\147\000\024") }
    };
#undef BYTES
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
        if (strstr(diag.text, cases[i].why) == NULL)
            fail_msg("%s: %s", cases[i].what, diag.text);
        assert_true(ls_hist_equal(hist, before));
    }
    /* ... and the same without a mistake is accepted: 5 ns, once. */
    ls_hist_record_n(before, 5, LS_ARRAY_LEN(sound));
    for (size_t i = 0; i < LS_ARRAY_LEN(sound); i++)
        assert_int_equal(decode(hist, sound[i].bytes, sound[i].len, NULL), LS_OK);
    assert_true(ls_hist_equal(hist, before));
    ls_hist_destroy(hist);
    ls_hist_destroy(before);
}

/* Any single change of a byte gives an error, or a histogram that adds up and encodes again. */
static void check_damage(const unsigned char *data, size_t len, size_t step)
{
    unsigned char *copy = malloc(len);

    assert_non_null(copy);
    (void)memcpy(copy, data, len);
    for (size_t i = 0; i < len; i += step) {
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
    for (unsigned values = 10; values <= 3010; values += 3000) { /* plain, deflated */
        size_t step;

        ls_hist_reset(hist);
        fill(hist, values, values, 40);
        assert_int_equal(ls_hist_encode(hist, &data, &len), LS_OK);
        assert_int_equal(data[1], values == 10 ? 0 : 1);
        step = len / 256 + 1;
        for (size_t cut = 0; cut < len; cut += step)
            assert_int_equal(decode(sink, data, cut, NULL), LS_EPROTO);
        check_damage(data, len, step);
        free(data);
    }
    assert_int_equal(ls_hist_count(sink), 0);
    ls_hist_destroy(hist);
    ls_hist_destroy(sink);
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
    struct ls_hist_sparse dst;
    unsigned char *data;
    size_t len;
};

static void decode_once(void *ctx)
{
    struct wire *wire = ctx;
    struct ls_bytes in = { wire->data, wire->len };
    enum ls_err rc = ls_hist_decode(in, &wire->dst, NULL);

    assert_int_equal(rc, failmalloc_hit() ? LS_ENOMEM : LS_OK);
    assert_int_equal(wire->dst.count, rc == LS_OK ? 4000 : 0);
}

static void a_failing_allocation_is_reported_and_leaks_nothing(void **state)
{
    struct ls_hist *hist = new_hist();
    struct wire wire;

    (void)state;
    assert_int_equal(ls_hist_sparse_init(&wire.dst), LS_OK);
    fill(hist, 5, 4000, 30); /* enough to be deflated */
    assert_true(failmalloc_each(encode_once, hist) >= 2);
    assert_int_equal(ls_hist_encode(hist, &wire.data, &wire.len), LS_OK);
    assert_int_equal(failmalloc_each(decode_once, &wire), 1);
    free(wire.data);
    ls_hist_sparse_fini(&wire.dst);
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
        cmocka_unit_test(a_failing_allocation_is_reported_and_leaks_nothing),
    };
    return cmocka_run_group_tests_name("common.hist_codec", tests, NULL, NULL);
}
