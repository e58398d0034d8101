#include "tests/support/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <zlib.h>

#include "common/base64.h"
#include "common/hist_log.h"
#include "common/rng.h"
#include "tests/support/failmalloc.h"
#include "tests/support/sparse.h"

static struct ls_hist *new_hist(void)
{
    struct ls_hist *hist = NULL;

    assert_int_equal(ls_hist_create(&hist), LS_OK);
    return hist;
}

/* A log that is written to memory. */
struct text {
    char *data;
    size_t len;
    FILE *file;
};

static struct text *begin_text(void)
{
    struct text *text = calloc(1, sizeof(*text));

    assert_non_null(text);
    text->file = open_memstream(&text->data, &text->len);
    assert_non_null(text->file);
    return text;
}

static FILE *read_text(struct text *text)
{
    FILE *file;

    if (text->file != NULL)
        assert_int_equal(fclose(text->file), 0);
    text->file = NULL;
    file = fmemopen(text->data, text->len, "r");
    assert_non_null(file);
    return file;
}

static void end_text(struct text *text)
{
    if (text->file != NULL)
        assert_int_equal(fclose(text->file), 0);
    free(text->data);
    free(text);
}

static void write_line(struct text *text, const char *tag, int64_t start_ns, int64_t length_ns,
                       const struct ls_hist *hist)
{
    struct ls_diag diag = { 0 };

    if (ls_hist_log_write(text->file, tag, start_ns, length_ns, hist, &diag) != LS_OK)
        fail_msg("%s", diag.text);
}

static void write_sparse_line(struct text *text, int64_t start_ns, int64_t length_ns,
                              const struct ls_hist *hist)
{
    struct ls_hist_sparse sparse;
    struct ls_diag diag = { 0 };
    struct ls_buf line;

    sparse_of(hist, &sparse);
    ls_buf_init(&line, SIZE_MAX);
    if (ls_hist_log_add_sparse(&line, "sparse", start_ns, length_ns, &sparse, &diag) != LS_OK)
        fail_msg("%s", diag.text);
    assert_int_equal(fwrite(line.data, 1, line.len, text->file), line.len);
    ls_buf_fini(&line);
    ls_hist_sparse_fini(&sparse);
}

/* The line is there, with this interval, and holds what was recorded but for the minimum. */
static void expect_line(FILE *file, const char *tag, int64_t start_ns, int64_t length_ns,
                        const struct ls_hist *expected)
{
    struct ls_hist *hist = new_hist();
    int64_t got_start_ns = -1;
    int64_t got_length_ns = -1;
    struct ls_diag diag = { 0 };

    ls_hist_record(hist, 5); /* is reset first */
    if (ls_hist_log_read(file, tag, hist, &got_start_ns, &got_length_ns, &diag) != LS_OK)
        fail_msg("%s", diag.text);
    assert_int_equal(got_start_ns, start_ns);
    assert_int_equal(got_length_ns, length_ns);
    assert_int_equal(ls_hist_count(hist), ls_hist_count(expected));
    assert_int_equal(ls_hist_max(hist), ls_hist_max(expected));
    assert_int_equal(ls_hist_index(ls_hist_min(hist)), ls_hist_index(ls_hist_min(expected)));
    for (uint32_t i = 0; i < LS_HIST_LEN; i++)
        assert_int_equal(ls_hist_count_at(hist, i), ls_hist_count_at(expected, i));
    ls_hist_destroy(hist);
}

static void expect_end(FILE *file, const char *tag)
{
    struct ls_hist *hist = new_hist();
    int64_t unused = 0;

    assert_int_equal(ls_hist_log_read(file, tag, hist, &unused, &unused, NULL), LS_EAGAIN);
    assert_int_equal(ls_hist_count(hist), 0);
    ls_hist_destroy(hist);
}

static void the_head_is_what_readers_look_for(void **state)
{
    struct text *text = begin_text();

    (void)state;
    assert_int_equal(
        ls_hist_log_begin(text->file, "lockstep 0.1.0\nrun x", INT64_C(1700000000123456789), NULL),
        LS_OK);
    assert_int_equal(fflush(text->file), 0);
    assert_string_equal(
        text->data,
        "#lockstep 0.1.0\n"
        "#run x\n"
        "#[Histogram log format version 1.3]\n"
        "#[StartTime: 1700000000.123456789 (seconds since epoch), 2023-11-14T22:13:20.123Z]\n"
        "#[BaseTime: 1700000000.123456789 (seconds since epoch)]\n"
        "\"StartTimestamp\",\"Interval_Length\",\"Interval_Max\",\"Interval_Compressed_Histogram\"\n");
    end_text(text);
}

static void no_line_of_the_head_is_too_long_or_not_a_comment(void **state)
{
    struct text *text = begin_text();
    char comment[1000];
    const char *line;

    (void)state;
    (void)memset(comment, 'x', sizeof(comment));
    comment[500] = '\r';
    comment[501] = '\n';
    comment[999] = '\0';
    assert_int_equal(ls_hist_log_begin(text->file, comment, 0, NULL), LS_OK);
    assert_int_equal(fflush(text->file), 0);
    for (line = text->data; *line != '\0'; line = strchr(line, '\n') + 1) {
        assert_true(*line == '#' || *line == '"');
        assert_true(strcspn(line, "\n") < 127);
    }
    assert_int_equal(ls_hist_log_begin(text->file, NULL, 0, NULL), LS_OK);
    end_text(text);
}

static void lines_carry_tag_interval_and_maximum(void **state)
{
    static const struct {
        const char *tag;
        int64_t start_ns, length_ns, value_ns;
        const char *line;
    } cases[] = {
        { NULL, 0, 1000000000, 1, "0.000,1.000,0.000001,HIST" },
        { "", 1, 250000000, 1500000, "0.000000001,0.250,1.500,HIST" },
        { "response_time", 12345678901, 999999999, 123456789,
          "Tag=response_time,12.345678901,0.999999999,123.456789,HIST" },
        { "send-lag.2", 3600000000000, 0, 0, "Tag=send-lag.2,3600.000,0.000,0.000,HIST" },
    };

    (void)state;
    for (size_t i = 0; i < LS_ARRAY_LEN(cases); i++) {
        struct text *text = begin_text();
        struct ls_hist *hist = new_hist();
        FILE *file;

        ls_hist_record(hist, cases[i].value_ns);
        write_line(text, cases[i].tag, cases[i].start_ns, cases[i].length_ns, hist);
        file = read_text(text);
        assert_memory_equal(text->data, cases[i].line, strlen(cases[i].line));
        expect_line(file, cases[i].tag, cases[i].start_ns, cases[i].length_ns, hist);
        expect_end(file, cases[i].tag);
        assert_int_equal(fclose(file), 0);
        end_text(text);
        ls_hist_destroy(hist);
    }
}

static void any_histogram_comes_back_bucket_by_bucket(void **state)
{
    struct ls_rng rng;

    (void)state;
    ls_rng_init(&rng, 1, 2);
    for (unsigned round = 0; round < 60; round++) {
        struct text *text = begin_text();
        struct ls_hist *hist = new_hist();
        FILE *file;

        for (unsigned i = 0; i < round * round; i++)
            ls_hist_record_n(hist, (int64_t)(ls_rng_next(&rng) >> (20 + ls_rng_below(&rng, 44))),
                             1 + (ls_rng_next(&rng) >> (24 + ls_rng_below(&rng, 40))));
        ls_hist_record_n(hist, round, UINT64_C(1) << round); /* words of each length */
        write_line(text, "x", round, round, hist);
        write_sparse_line(text, round, 1, hist);
        file = read_text(text);
        expect_line(file, "x", round, round, hist);
        expect_line(file, "sparse", round, 1, hist);
        assert_int_equal(fclose(file), 0);
        end_text(text);
        ls_hist_destroy(hist);
    }
}

/* As load makes them: runs of small counters, and what is next to each limit of a word's length. */
static void fill_with_runs(struct ls_hist *hist, struct ls_rng *rng)
{
    static const uint32_t gaps[] = { 0, 1, 2, 7, 8, 9, 63, 64, 65, 66, 500 };
    static const uint64_t counts[] = { 1, 2, 3, 62, 63, 64, 65, 127, 128, 254, 255, 256, 100000 };
    uint32_t i = (uint32_t)ls_rng_below(rng, 2000);

    while (i < LS_HIST_LEN) {
        uint32_t run = 1 + (uint32_t)ls_rng_below(rng, 40);
        size_t choice = 3 + ls_rng_below(rng, LS_ARRAY_LEN(counts) - 2);

        for (; run > 0 && i < LS_HIST_LEN; run--)
            ls_hist_record_n(hist, ls_hist_lowest_at(i++), counts[ls_rng_below(rng, choice)]);
        i += gaps[ls_rng_below(rng, LS_ARRAY_LEN(gaps))] * (1 + (uint32_t)ls_rng_below(rng, 3));
        if (ls_rng_below(rng, 30) == 0)
            return;
    }
}

static void the_line_of_a_report_is_that_of_the_whole_histogram(void **state)
{
    struct ls_rng rng;

    (void)state;
    ls_rng_init(&rng, 4, 4);
    for (unsigned round = 0; round < 200; round++) {
        struct text *whole = begin_text(), *report = begin_text();
        struct ls_hist *hist = new_hist();

        fill_with_runs(hist, &rng);
        write_line(whole, "sparse", round, 1, hist);
        write_sparse_line(report, round, 1, hist);
        assert_int_equal(fflush(whole->file), 0);
        assert_int_equal(fflush(report->file), 0);
        assert_string_equal(report->data, whole->data);
        end_text(whole);
        end_text(report);
        ls_hist_destroy(hist);
    }
}

static void the_fullest_histogram_fits_a_line(void **state)
{
    struct text *text = begin_text();
    struct ls_hist *hist = new_hist();
    struct ls_rng rng;
    FILE *file;

    (void)state;
    ls_rng_init(&rng, 7, 7);
    for (uint32_t i = 0; ls_hist_highest_at(i) < LS_HIST_MAX_NS; i++)
        ls_hist_record_n(hist, ls_hist_lowest_at(i), 1 + ls_rng_below(&rng, UINT64_C(1) << 47));
    write_line(text, NULL, 0, 0, hist);
    write_sparse_line(text, 0, 0, hist); /* of several blocks */
    file = read_text(text);
    expect_line(file, NULL, 0, 0, hist);
    expect_line(file, "sparse", 0, 0, hist);
    assert_int_equal(fclose(file), 0);
    end_text(text);
    ls_hist_destroy(hist);
}

static void clipped_values_show_by_the_maximum(void **state)
{
    struct text *text = begin_text();
    struct ls_hist *hist = new_hist();
    struct ls_hist *back = new_hist();
    int64_t unused = 0;
    FILE *file;

    (void)state;
    ls_hist_record_n(hist, LS_HIST_MAX_NS * 2, 3);
    write_line(text, NULL, 0, 0, hist);
    file = read_text(text);
    assert_int_equal(ls_hist_log_read(file, NULL, back, &unused, &unused, NULL), LS_OK);
    assert_int_equal(ls_hist_max(back), LS_HIST_MAX_NS * 2);
    assert_int_equal(ls_hist_clipped(back), 3);
    assert_int_equal(fclose(file), 0);
    end_text(text);
    ls_hist_destroy(hist);
    ls_hist_destroy(back);
}

static void a_tag_picks_its_lines(void **state)
{
    struct text *text = begin_text();
    struct ls_hist *a = new_hist();
    struct ls_hist *b = new_hist();
    struct ls_hist *none = new_hist();
    FILE *file;

    (void)state;
    ls_hist_record(a, 1000);
    ls_hist_record(b, 2000000);
    assert_int_equal(ls_hist_log_begin(text->file, "two tags", 0, NULL), LS_OK);
    write_line(text, "a", 0, 10, a);
    write_line(text, "b", 0, 10, b);
    write_line(text, NULL, 5, 10, none);
    write_line(text, "a", 10, 10, none);
    write_line(text, "b", 10, 10, a);
    file = read_text(text);
    expect_line(file, "a", 0, 10, a);
    expect_line(file, "a", 10, 10, none);
    expect_end(file, "a");
    rewind(file);
    expect_line(file, "b", 0, 10, b);
    expect_line(file, "b", 10, 10, a);
    expect_end(file, "b");
    rewind(file);
    expect_end(file, "c");
    rewind(file);
    expect_line(file, "", 5, 10, none); /* lines without any tag */
    expect_end(file, "");
    rewind(file);
    expect_line(file, NULL, 0, 10, a); /* all */
    expect_line(file, NULL, 0, 10, b);
    expect_line(file, NULL, 5, 10, none);
    assert_int_equal(fclose(file), 0);
    end_text(text);
    ls_hist_destroy(a);
    ls_hist_destroy(b);
    ls_hist_destroy(none);
}

/* The payload as plain bytes; out holds out_bytes. */
static size_t payload_of(const struct ls_hist *hist, unsigned char *out, size_t out_bytes)
{
    struct text *text = begin_text();
    struct ls_buf outer;
    uLongf len = out_bytes;
    const char *payload;

    write_line(text, NULL, 0, 0, hist);
    assert_int_equal(fflush(text->file), 0);
    payload = strrchr(text->data, ',') + 1;
    ls_buf_init(&outer, 1 << 20);
    assert_int_equal(ls_base64_decode(&outer, (struct ls_bytes){ (const unsigned char *)payload,
                                                                 strcspn(payload, "\n") }),
                     LS_OK);
    assert_memory_equal(outer.data, "\x1c\x84\x93\x14", 4); /* then the length, and the rest */
    assert_int_equal(outer.len, 8 + ((size_t)outer.data[6] << 8 | outer.data[7]));
    assert_int_equal(uncompress(out, &len, outer.data + 8, outer.len - 8), Z_OK);
    ls_buf_fini(&outer);
    end_text(text);
    return len;
}

/* Put together from the description of the format: one zero is a counter, more are a negative one;
 * the ninth byte of a word has all its bits. */
static void payloads_are_laid_out_as_the_format_says(void **state)
{
    static const unsigned char empty[] = {
        0x1c, 0x84, 0x93, 0x13, 0x00, 0x00, 0x00, 0x01, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
        0x00, 0x03, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x01, 0x00, 0x00, 0x03, 0x46,
        0x30, 0xb8, 0xa0, 0x00, 0x3f, 0xf0, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
    };
    static const unsigned char some[] = {
        0x1c, 0x84, 0x93, 0x13, 0x00, 0x00, 0x00, 0x10, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
        0x00, 0x03, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x01, 0x00, 0x00, 0x03, 0x46,
        0x30, 0xb8, 0xa0, 0x00, 0x3f, 0xf0, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x02,
        0x00, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0xc7, 0x0f, 0x8c, 0x01,
    };
    struct ls_hist *hist = new_hist();
    unsigned char got[100];

    (void)state;
    assert_int_equal(payload_of(hist, got, sizeof(got)), sizeof(empty));
    assert_memory_equal(got, empty, sizeof(empty));
    ls_hist_record(hist, 1);
    ls_hist_record_n(hist, 3, UINT64_C(1) << 62);
    ls_hist_record_n(hist, 1000, 70);
    assert_int_equal(payload_of(hist, got, sizeof(got)), sizeof(some));
    assert_memory_equal(got, some, sizeof(some));
    ls_hist_destroy(hist);
}

/* Put together from the description of the format by a few lines of Python: 1 ns once, 1 us twice,
 * 1 ms 300 times, 5 s once. */
#define FOREIGN_PAYLOAD                                                      \
    "HISTFAAAAC942pNpmSzMwMDAxwABzFCaEch0M9ixgMH+A1SE6TQ/y/t5jDdYuo8wMgEArk" \
    "4I9Q=="
static const char foreign[] =
    "#[Histogram log format version 1.3]\n"
    "#[StartTime: 1700000000.000 (seconds since epoch), Tue Nov 14 2023 22:13:20 GMT+0000]\n"
    "\n"
    "\"StartTimestamp\",\"Interval_Length\",\"Interval_Max\",\"Interval_Compressed_Histogram\"\r\n"
    "Tag=t,1.000,1.000,5000.000," FOREIGN_PAYLOAD "\r\n";

static void logs_of_another_writer_are_read(void **state)
{
    struct text text = { .data = strdup(foreign), .len = strlen(foreign) };
    struct ls_hist *expected = new_hist();
    FILE *file;

    (void)state;
    assert_non_null(text.data);
    ls_hist_record(expected, 1);
    ls_hist_record_n(expected, 1000, 2);
    ls_hist_record_n(expected, 1000000, 300);
    ls_hist_record(expected, INT64_C(5000000000));
    file = read_text(&text);
    expect_line(file, "t", 1000000000, 1000000000, expected);
    expect_end(file, "t");
    assert_int_equal(fclose(file), 0);
    free(text.data);
    ls_hist_destroy(expected);
}

static void what_is_not_a_log_of_ours_is_refused(void **state)
{
    static const struct {
        const char *what;
        const char *line;
        const char *why;
    } cases[] = {
        { "no line", "nonsense\n", "does not begin with" },
        { "no maximum", "1.0,1.0\n", "does not begin with" },
        { "no payload", "1.0,1.0,1.0\n", "does not begin with" },
        { "an empty payload", "1.0,1.0,1.0,\n", "compressed V2" },
        { "a tag alone", "Tag=t\n", "does not begin with" },
        { "a tag and no payload", "Tag=t,1.0,1.0\n", "does not begin with" },
        { "a time below zero", "-1.0,1.0,1.0," FOREIGN_PAYLOAD "\n", "does not begin with" },
        { "no digit before the point", ".5,1.0,1.0," FOREIGN_PAYLOAD "\n", "does not begin with" },
        { "two points", "1.0.0,1.0,1.0," FOREIGN_PAYLOAD "\n", "does not begin with" },
        { "an exponent", "1e3,1.0,1.0," FOREIGN_PAYLOAD "\n", "does not begin with" },
        { "a time too large", "99999999999999999999,1.0,1.0," FOREIGN_PAYLOAD "\n",
          "does not begin with" },
        { "a time too large in nanoseconds", "9999999999999,1.0,1.0," FOREIGN_PAYLOAD "\n",
          "does not begin with" },
        { "less than a nanosecond", "1.0000000001,1.0,1.0," FOREIGN_PAYLOAD "\n",
          "does not begin with" },
        { "the maximum in another bucket", "1.0,1.0,5010.0," FOREIGN_PAYLOAD "\n",
          "not in the last bucket" },
        { "not base64", "1.0,1.0,1.0,not base64 at all\n", "not base64" },
        { "too short", "1.0,1.0,1.0,HIST\n", "compressed V2" },
        { "another cookie", "1.0,1.0,1.0,AAAAAAAAAAAAAAAA\n", "compressed V2" },
        { "another range",
          "1.0,1.0,5000.0,"
          "HISTFAAAAC542pNpmSzMwMDAxwABzFCaEYh5f7hHMNh/gIowneZneT+P8QZL9xFGJgCqfg"
          "jI"
          "\n",
          "another range" },
        { "two digits",
          "1.0,1.0,5000.0,"
          "HISTFAAAAC942pNpmSzMwMDAxwABTFCakYGB2c1gxwIG+w8wmdP8LO/nMd5g6T7CyAQAri"
          "cI9A=="
          "\n",
          "another range" },
        { "another unit",
          "1.0,1.0,5000.0,"
          "HISTFAAAAC542pNpmSzMwMDAxwABzFDqBRC7GexYwGD/ASrDdJqf5f08xhss3UcYmQDKpw"
          "nf"
          "\n",
          "another range" },
        { "rotated",
          "1.0,1.0,5000.0,"
          "HISTFAAAADF42pNpmSzMwMDAB8SMQMzMAAFANrObwY4FDPYfoCJMp/lZ3s9jvMHSfYSRCQ"
          "CueQj2"
          "\n",
          "another range" },
        { "another encoding",
          "1.0,1.0,5000.0,"
          "HISTFAAAAC942pNpmSzIwMDAxwABzFCaEch0M9ixgMH+A1SE6TQ/y/t5jDdYuo8wMgEAre"
          "gI8w=="
          "\n",
          "not in the V2" },
        { "a length that is not its own",
          "1.0,1.0,5000.0,"
          "HISTFAAAAC942pNpmSzMwMCQzAABzFCaEch0M9ixgMH+A1SE6TQ/y/t5jDdYuo8wMgEAve"
          "kJSg=="
          "\n",
          "another length" },
        { "a counter cut off",
          "1.0,1.0,5000.0,"
          "HISTFAAAAC942pNpmSzMwMDAxwABzFCaEch0M9ixgMH+A1SE6TQ/y/t5jDdYuo8wNgAArs"
          "wJcw=="
          "\n",
          "counter is cut off" },
        { "more zeros than buckets",
          "1.0,1.0,5000.0,"
          "HISTFAAAACd42pNpmSzMwMDAxgABzFCaEch0M9ixgMH+A0SgcQILExMTAG7XBWw="
          "\n",
          "more buckets" },
        { "a counter behind the last",
          "1.0,1.0,5000.0,"
          "HISTFAAAACV42pNpmSzMwMDAwgABzFCaEch0M9ixgMH+A0Tgfz8LEwBlrAXj"
          "\n",
          "more buckets" },
        { "counters that overflow",
          "1.0,1.0,5000.0,"
          "HISTFAAAACd42pNpmSzMwMAAwiDADKUZgUw3gx0LGOw/QAT+/YcCOIMJAF/dFkw="
          "\n",
          "overflow" },
        { "no head",
          "1.0,1.0,5000.0,"
          "HISTFAAAAAh4nAMAAAAAAQ=="
          "\n",
          "not in the V2" },
        { "damaged bytes",
          "1.0,1.0,5000.0,"
          "HISTFAAAAC942pNpmSzMwMDAxwAAzFCaEch0M9ixgMH+A1SE6TQ/y/t5jDdYuo8wMgEArk"
          "4I9Q=="
          "\n",
          "damaged" },
        { "cut off",
          "1.0,1.0,5000.0,"
          "HISTFAAAAC942pNpmSzMwMDAxwABzFCaEch0M9ixgMH+A1SE6TQ/y/t5jDdYuo8="
          "\n",
          "payload is cut off" },
    };

    (void)state;
    for (size_t i = 0; i < LS_ARRAY_LEN(cases); i++) {
        struct text text = { .data = strdup(cases[i].line), .len = strlen(cases[i].line) };
        struct ls_hist *hist = new_hist();
        struct ls_hist *empty = new_hist();
        struct ls_diag diag = { 0 };
        int64_t start_ns = 42;
        int64_t length_ns = 42;
        FILE *file;

        assert_non_null(text.data);
        file = read_text(&text);
        if (ls_hist_log_read(file, NULL, hist, &start_ns, &length_ns, &diag) != LS_EPROTO)
            fail_msg("accepted: %s", cases[i].what);
        assert_int_equal(diag.code, LS_EPROTO);
        if (strstr(diag.text, cases[i].why) == NULL)
            fail_msg("%s: %s", cases[i].what, diag.text);
        assert_true(start_ns == 42 && length_ns == 42);
        assert_true(ls_hist_equal(hist, empty));
        for (uint32_t b = 0; b < LS_HIST_LEN; b++)
            assert_int_equal(ls_hist_count_at(hist, b), 0);
        assert_int_equal(fclose(file), 0);
        free(text.data);
        ls_hist_destroy(hist);
        ls_hist_destroy(empty);
    }
}

/* Each bit of a line flipped: refused, or another histogram that is sound. */
static void damage_does_no_harm(void **state)
{
    struct text *text = begin_text();
    struct ls_hist *hist = new_hist();
    size_t len;

    (void)state;
    for (int64_t x = 1; x < LS_HIST_MAX_NS; x *= 3)
        ls_hist_record_n(hist, x, (uint64_t)x);
    write_line(text, "t", 1, 2, hist);
    assert_int_equal(fclose(read_text(text)), 0);
    len = text->len;
    for (size_t i = 0; i < len * 8; i++) {
        int64_t unused = 0;
        FILE *file;
        enum ls_err rc;

        text->data[i / 8] = (char)(text->data[i / 8] ^ (1 << i % 8));
        file = read_text(text);
        rc = ls_hist_log_read(file, NULL, hist, &unused, &unused, NULL);
        assert_true(rc == LS_OK || rc == LS_EPROTO || rc == LS_EAGAIN);
        if (rc == LS_OK)
            assert_true(ls_hist_count(hist) > 0);
        assert_int_equal(fclose(file), 0);
        text->data[i / 8] = (char)(text->data[i / 8] ^ (1 << i % 8));
    }
    end_text(text);
    ls_hist_destroy(hist);
}

static void a_line_without_end_does_not_fill_the_memory(void **state)
{
    struct ls_hist *hist = new_hist();
    struct ls_diag diag = { 0 };
    int64_t unused = 0;
    FILE *file = fopen("/dev/zero", "r");

    (void)state;
    assert_non_null(file);
    assert_int_equal(ls_hist_log_read(file, NULL, hist, &unused, &unused, &diag), LS_EPROTO);
    assert_non_null(strstr(diag.text, "too long"));
    assert_int_equal(fclose(file), 0);
    ls_hist_destroy(hist);
}

static void what_cannot_be_written_is_said(void **state)
{
    struct ls_hist *hist = new_hist();
    struct ls_diag diag = { 0 };
    FILE *file = fopen("/dev/full", "w");

    (void)state;
    assert_non_null(file);
    assert_int_equal(setvbuf(file, NULL, _IONBF, 0), 0);
    assert_int_equal(ls_hist_log_begin(file, "x", 0, &diag), LS_EIO);
    assert_non_null(strstr(diag.text, "No space left"));
    assert_int_equal(ls_hist_log_write(file, "t", 0, 0, hist, &diag), LS_EIO);
    assert_non_null(strstr(diag.text, "No space left"));
    assert_int_equal(ls_hist_log_write(file, "a,b", 0, 0, hist, &diag), LS_EINVAL);
    assert_int_equal(ls_hist_log_write(file, "a b", 0, 0, hist, &diag), LS_EINVAL);
    assert_int_equal(ls_hist_log_write(file, "a\n", 0, 0, hist, &diag), LS_EINVAL);
    assert_int_equal(ls_hist_log_write(file, "t", -1, 0, hist, &diag), LS_ERANGE);
    assert_int_equal(ls_hist_log_write(file, "t", 0, -1, hist, &diag), LS_ERANGE);
    (void)fclose(file); /* fails, as it should: the device is full */
    ls_hist_destroy(hist);
}

static void write_once(void *ctx)
{
    const struct ls_hist *hist = ctx;
    FILE *file = fopen("/dev/null", "w");
    enum ls_err rc;

    assert_non_null(file);
    rc = ls_hist_log_begin(file, "x", 0, NULL);
    if (rc == LS_OK)
        rc = ls_hist_log_write(file, "t", 0, 0, hist, NULL);
    assert_int_equal(rc, failmalloc_hit() ? LS_ENOMEM : LS_OK);
    assert_int_equal(fclose(file), 0);
}

struct source {
    struct text *text;
    struct ls_hist *hist;
};

static void read_once(void *ctx)
{
    struct source *source = ctx;
    FILE *file = read_text(source->text);
    int64_t unused = 0;
    enum ls_err rc = ls_hist_log_read(file, "t", source->hist, &unused, &unused, NULL);

    assert_int_equal(rc, failmalloc_hit() ? LS_ENOMEM : LS_OK);
    assert_int_equal(ls_hist_count(source->hist), rc == LS_OK ? 1000 : 0);
    assert_int_equal(fclose(file), 0);
}

static void a_failing_allocation_is_reported_and_leaks_nothing(void **state)
{
    struct source source = { begin_text(), new_hist() };

    (void)state;
    for (int64_t i = 0; i < 1000; i++)
        ls_hist_record(source.hist, i * i * i);
    write_line(source.text, "t", 0, 0, source.hist);
    assert_true(failmalloc_each(write_once, source.hist) >= 5);
    assert_true(failmalloc_each(read_once, &source) >= 5);
    end_text(source.text);
    ls_hist_destroy(source.hist);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_head_is_what_readers_look_for),
        cmocka_unit_test(no_line_of_the_head_is_too_long_or_not_a_comment),
        cmocka_unit_test(lines_carry_tag_interval_and_maximum),
        cmocka_unit_test(any_histogram_comes_back_bucket_by_bucket),
        cmocka_unit_test(the_line_of_a_report_is_that_of_the_whole_histogram),
        cmocka_unit_test(the_fullest_histogram_fits_a_line),
        cmocka_unit_test(clipped_values_show_by_the_maximum),
        cmocka_unit_test(a_tag_picks_its_lines),
        cmocka_unit_test(payloads_are_laid_out_as_the_format_says),
        cmocka_unit_test(logs_of_another_writer_are_read),
        cmocka_unit_test(what_is_not_a_log_of_ours_is_refused),
        cmocka_unit_test(damage_does_no_harm),
        cmocka_unit_test(a_line_without_end_does_not_fill_the_memory),
        cmocka_unit_test(what_cannot_be_written_is_said),
        cmocka_unit_test(a_failing_allocation_is_reported_and_leaks_nothing),
    };
    return cmocka_run_group_tests_name("common.hist_log", tests, NULL, NULL);
}
