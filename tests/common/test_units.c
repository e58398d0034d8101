#include "tests/support/test.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "common/rng.h"
#include "common/units.h"

static void durations_read_as_people_write_them(void **state)
{
    static const struct {
        const char *text;
        int64_t ns;
        const char *again; /* as it is written back */
    } cases[] = {
        { "0s", 0, "0s" },
        { "0ns", 0, "0s" },
        { "1ns", 1, "1ns" },
        { "250ms", 250000000, "250ms" },
        { "10s", 10000000000, "10s" },
        { "1.5s", 1500000000, "1.5s" },
        { "0.25ms", 250000, "250us" },
        { "1m30s", 90000000000, "1m30s" },
        { "90s", 90000000000, "1m30s" },
        { "1h", 3600000000000, "1h" },
        { "1h0m1s", 3601000000000, "1h1s" },
        { "1m0.5s", 60500000000, "1m500ms" },
        { "1s1ns", 1000000001, "1.000000001s" },
        { "0001s", 1000000000, "1s" },
        { "1.50000000000s", 1500000000, "1.5s" },
        { "9223372036854775807ns", INT64_MAX, "2562047h47m16.854775807s" },
    };

    (void)state;
    for (size_t i = 0; i < LS_ARRAY_LEN(cases); i++) {
        char out[48];
        int64_t ns = -1;

        if (ls_parse_duration(cases[i].text, &ns, NULL) != LS_OK)
            fail_msg("refused: %s", cases[i].text);
        assert_int_equal(ns, cases[i].ns);
        assert_string_equal(ls_format_duration(ns, out, sizeof(out)), cases[i].again);
    }
}

struct refusal {
    const char *text;
    enum ls_err rc;
};

static void durations_that_are_none_are_refused(void **state)
{
    static const struct refusal cases[] = {
        { "", LS_EINVAL },
        { "10", LS_EINVAL },
        { "s", LS_EINVAL },
        { "-1s", LS_EINVAL },
        { "+1s", LS_EINVAL },
        { " 1s", LS_EINVAL },
        { "1s ", LS_EINVAL },
        { "1 s", LS_EINVAL },
        { "1S", LS_EINVAL },
        { "1sec", LS_EINVAL },
        { "1d", LS_EINVAL },
        { "1.s", LS_EINVAL },
        { ".5s", LS_EINVAL },
        { "1.5.5s", LS_EINVAL },
        { "1e3s", LS_EINVAL },
        { "0x1s", LS_EINVAL },
        { "30s1m", LS_EINVAL }, /* the larger unit comes first */
        { "1s1s", LS_EINVAL },
        { "1m30", LS_EINVAL },
        { "0.5ns", LS_EINVAL },
        { "1.0000000001s", LS_EINVAL },
        { "1.0000000000000000001s", LS_EINVAL },
        { "0.0000000000000000000s", LS_EINVAL }, /* more digits than anything needs */
        { "infs", LS_EINVAL },
        { "9223372036854775808ns", LS_ERANGE },
        { "2562048h", LS_ERANGE },
        { "2562047h47m17s", LS_ERANGE },
        { "99999999999999999999s", LS_ERANGE },
    };

    (void)state;
    for (size_t i = 0; i < LS_ARRAY_LEN(cases); i++) {
        struct ls_diag diag = { 0 };
        int64_t ns = 42;

        if (ls_parse_duration(cases[i].text, &ns, &diag) != cases[i].rc)
            fail_msg("\"%s\" is not answered with %s", cases[i].text, ls_err_name(cases[i].rc));
        assert_int_equal(ns, 42);
        assert_int_equal(diag.code, cases[i].rc);
        assert_non_null(strstr(diag.text, cases[i].text));
    }
}

static void rates_read_as_people_write_them(void **state)
{
    static const struct {
        const char *text;
        double per_s;
        const char *again;
    } cases[] = {
        { "0/s", 0, "0/s" },
        { "500/s", 500, "500/s" },
        { "20k/s", 20000, "20k/s" },
        { "20000/s", 20000, "20k/s" },
        { "1.5k/s", 1500, "1500/s" },
        { "1.1k/s", 1100, "1100/s" },
        { "2M/s", 2e6, "2M/s" },
        { "1G/s", 1e9, "1G/s" },
        { "0.1/s", 0.1, "0.1/s" },
        { "0.3333333333333333/s", 1.0 / 3, "0.3333333333333333/s" },
        { "12345.678/s", 12345.678, "12345.678/s" },
        { "0.000000001/s", 1e-9, "0.000000001/s" },
        { "1000G/s", 1e12, "1000G/s" },
    };

    (void)state;
    for (size_t i = 0; i < LS_ARRAY_LEN(cases); i++) {
        char out[48];
        double per_s = -1;

        if (ls_parse_rate(cases[i].text, &per_s, NULL) != LS_OK)
            fail_msg("refused: %s", cases[i].text);
        assert_true(per_s == cases[i].per_s);
        assert_string_equal(ls_format_rate(per_s, out, sizeof(out)), cases[i].again);
    }
}

static void rates_that_are_none_are_refused(void **state)
{
    static const struct refusal cases[] = {
        { "", LS_EINVAL },
        { "500", LS_EINVAL },
        { "/s", LS_EINVAL },
        { "500/m", LS_EINVAL },
        { "500/", LS_EINVAL },
        { "500/s ", LS_EINVAL },
        { "-5/s", LS_EINVAL },
        { "5K/s", LS_EINVAL },
        { "1e3/s", LS_EINVAL },
        { "nan/s", LS_EINVAL },
        { "inf/s", LS_EINVAL },
        { "0x10/s", LS_EINVAL },
        { "1./s", LS_EINVAL },
        { ".1/s", LS_EINVAL },
        { "5k k/s", LS_EINVAL },
        { "1001G/s", LS_ERANGE },
        { "0.0000000001/s", LS_ERANGE },
        { "9999999999999999999999999/s", LS_ERANGE },
    };

    (void)state;
    for (size_t i = 0; i < LS_ARRAY_LEN(cases); i++) {
        struct ls_diag diag = { 0 };
        double per_s = 42;

        if (ls_parse_rate(cases[i].text, &per_s, &diag) != cases[i].rc)
            fail_msg("\"%s\" is not answered with %s", cases[i].text, ls_err_name(cases[i].rc));
        assert_true(per_s == 42);
        assert_int_equal(diag.code, cases[i].rc);
    }
}

static void counts_and_sizes_read_as_people_write_them(void **state)
{
    static const struct {
        enum ls_err (*parse)(const char *text, uint64_t *out, struct ls_diag *diag);
        const char *(*format)(uint64_t n, char *out, size_t out_bytes);
        const char *text;
        uint64_t n;
        const char *again;
    } cases[] = {
        { ls_parse_count, ls_format_count, "0", 0, "0" },
        { ls_parse_count, ls_format_count, "1000", 1000, "1k" },
        { ls_parse_count, ls_format_count, "1500", 1500, "1500" },
        { ls_parse_count, ls_format_count, "1.5k", 1500, "1500" },
        { ls_parse_count, ls_format_count, "50k", 50000, "50k" },
        { ls_parse_count, ls_format_count, "2M", 2000000, "2M" },
        { ls_parse_count, ls_format_count, "3G", UINT64_C(3000000000), "3G" },
        { ls_parse_count, ls_format_count, "18446744073709551615", UINT64_MAX,
          "18446744073709551615" },
        { ls_parse_size, ls_format_size, "0", 0, "0" },
        { ls_parse_size, ls_format_size, "512", 512, "512" },
        { ls_parse_size, ls_format_size, "512B", 512, "512" },
        { ls_parse_size, ls_format_size, "64KiB", 65536, "64KiB" },
        { ls_parse_size, ls_format_size, "64kB", 64000, "64000" },
        { ls_parse_size, ls_format_size, "1.5MiB", 1572864, "1536KiB" },
        { ls_parse_size, ls_format_size, "4MiB", 4194304, "4MiB" },
        { ls_parse_size, ls_format_size, "2TiB", UINT64_C(2) << 40, "2TiB" },
    };

    (void)state;
    for (size_t i = 0; i < LS_ARRAY_LEN(cases); i++) {
        char out[48];
        uint64_t n = 1;

        if (cases[i].parse(cases[i].text, &n, NULL) != LS_OK)
            fail_msg("refused: %s", cases[i].text);
        assert_int_equal(n, cases[i].n);
        assert_string_equal(cases[i].format(n, out, sizeof(out)), cases[i].again);
    }
}

static void counts_and_sizes_that_are_none_are_refused(void **state)
{
    static const struct refusal counts[] = {
        { "", LS_EINVAL },
        { "k", LS_EINVAL },
        { "1.5", LS_EINVAL },
        { "5K", LS_EINVAL },
        { "-1", LS_EINVAL },
        { "1 000", LS_EINVAL },
        { "1,5k", LS_EINVAL },
        { "1kk", LS_EINVAL },
        { "1T", LS_EINVAL },
        { "1.0001k", LS_EINVAL },
        { "1e3", LS_EINVAL },
        { "18446744073709551616", LS_ERANGE },
        { "18446744073709551615k", LS_ERANGE },
    };
    static const struct refusal sizes[] = {
        { "", LS_EINVAL },      { "KiB", LS_EINVAL },   { "1K", LS_EINVAL },
        { "1KB", LS_EINVAL },   { "1kib", LS_EINVAL },  { "1.5", LS_EINVAL },
        { "1 MiB", LS_EINVAL }, { "1MiBs", LS_EINVAL }, { "16777216TiB", LS_ERANGE },
    };

    (void)state;
    for (size_t i = 0; i < LS_ARRAY_LEN(counts); i++) {
        struct ls_diag diag = { 0 };
        uint64_t n = 42;

        if (ls_parse_count(counts[i].text, &n, &diag) != counts[i].rc)
            fail_msg("\"%s\" is not answered with %s", counts[i].text, ls_err_name(counts[i].rc));
        assert_int_equal(n, 42);
    }
    for (size_t i = 0; i < LS_ARRAY_LEN(sizes); i++) {
        struct ls_diag diag = { 0 };
        uint64_t n = 42;

        if (ls_parse_size(sizes[i].text, &n, &diag) != sizes[i].rc)
            fail_msg("\"%s\" is not answered with %s", sizes[i].text, ls_err_name(sizes[i].rc));
        assert_int_equal(n, 42);
    }
}

static void shares_are_percentages(void **state)
{
    static const struct {
        const char *text;
        double share;
        const char *again;
    } good[] = {
        { "0%", 0, "0%" },           { "0.1%", 0.001, "0.1%" },  { "5%", 0.05, "5%" },
        { "100%", 1, "100%" },       { "2.50%", 0.025, "2.5%" }, { "0.00001%", 1e-7, "0.00001%" },
        { "33.3%", 0.333, "33.3%" },
    };
    static const struct refusal bad[] = {
        { "", LS_EINVAL },    { "%", LS_EINVAL },      { "0.1", LS_EINVAL }, { "-1%", LS_EINVAL },
        { "1 %", LS_EINVAL }, { ".5%", LS_EINVAL },    { "5.%", LS_EINVAL }, { "1e1%", LS_EINVAL },
        { "5%%", LS_EINVAL }, { "100.1%", LS_ERANGE },
    };

    (void)state;
    for (size_t i = 0; i < LS_ARRAY_LEN(good); i++) {
        char out[48];
        double share = 42;

        if (ls_parse_share(good[i].text, &share, NULL) != LS_OK)
            fail_msg("refused: %s", good[i].text);
        assert_true(share == good[i].share);
        assert_string_equal(ls_format_share(share, out, sizeof(out)), good[i].again);
    }
    for (size_t i = 0; i < LS_ARRAY_LEN(bad); i++) {
        double share = 42;

        if (ls_parse_share(bad[i].text, &share, NULL) != bad[i].rc)
            fail_msg("\"%s\" is not answered with %s", bad[i].text, ls_err_name(bad[i].rc));
        assert_true(share == 42);
    }
}

static void whatever_is_written_reads_back_equal(void **state)
{
    struct ls_rng rng;

    (void)state;
    ls_rng_init(&rng, 1, 2);
    for (unsigned i = 0; i < 100000; i++) {
        uint64_t n = ls_rng_next(&rng) >> ls_rng_below(&rng, 64);
        double per_s = exp(log(1e-9) + ls_rng_unit(&rng) * (log(1e12) - log(1e-9)));
        char out[48];
        uint64_t count = 0;
        int64_t ns = 0;
        double rate = 0;

        n = i % 3 == 0 ? n / 1000 * 1000 : i % 3 == 1 ? n & ~UINT64_C(1023) : n;
        assert_int_equal(ls_parse_count(ls_format_count(n, out, sizeof(out)), &count, NULL), LS_OK);
        assert_int_equal(count, n);
        assert_int_equal(ls_parse_size(ls_format_size(n, out, sizeof(out)), &count, NULL), LS_OK);
        assert_int_equal(count, n);
        (void)ls_format_duration((int64_t)(n >> 1), out, sizeof(out));
        assert_int_equal(ls_parse_duration(out, &ns, NULL), LS_OK);
        assert_int_equal(ns, n >> 1);
        assert_int_equal(ls_parse_rate(ls_format_rate(per_s, out, sizeof(out)), &rate, NULL),
                         LS_OK);
        assert_true(rate == per_s);
    }
}

static void reports_show_three_digits(void **state)
{
    static const struct {
        const char *(*human)(double x, char *out, size_t out_bytes);
        double x;
        const char *text;
    } cases[] = {
        { ls_human_duration, 0, "0 ns" },
        { ls_human_duration, 0.5, "0.50 ns" },
        { ls_human_duration, 7, "7 ns" },
        { ls_human_duration, 999, "999 ns" },
        { ls_human_duration, 999.4, "999 ns" },
        { ls_human_duration, 999.6, "1.00 us" }, /* not 1000 ns */
        { ls_human_duration, 1234, "1.23 us" },
        { ls_human_duration, 1235000, "1.24 ms" },
        { ls_human_duration, 12345678, "12.3 ms" },
        { ls_human_duration, 123456789, "123 ms" },
        { ls_human_duration, 999499999, "999 ms" },
        { ls_human_duration, 999500001, "1.00 s" },
        { ls_human_duration, 59.94e9, "59.9 s" },
        { ls_human_duration, 90e9, "1.50 min" },
        { ls_human_duration, 7200e9, "2.00 h" },
        { ls_human_duration, -1234, "-1.23 us" },
        { ls_human_count, 0, "0" },
        { ls_human_count, 42, "42" },
        { ls_human_count, 42.25, "42.2" },
        { ls_human_count, 48123, "48.1 k" },
        { ls_human_count, 1e6, "1.00 M" },
        { ls_human_count, 3e15, "3000 T" },
        { ls_human_size, 512, "512 B" },
        { ls_human_size, 1023, "1023 B" },
        { ls_human_size, 1024, "1.00 KiB" },
        { ls_human_size, 1023.7 * 1024, "1.00 MiB" },
        { ls_human_size, 12.3 * 1024 * 1024, "12.3 MiB" },
        { ls_human_size, 1024.0 * 1024 * 1024, "1.00 GiB" },
        { ls_human_size, NAN, "?" },
        { ls_human_count, INFINITY, "?" },
    };

    (void)state;
    for (size_t i = 0; i < LS_ARRAY_LEN(cases); i++) {
        char out[48];

        assert_string_equal(cases[i].human(cases[i].x, out, sizeof(out)), cases[i].text);
    }
}

/* Whatever the value, the text is within half a unit of the third digit and never overflows. */
static void rounded_forms_are_right_to_three_digits(void **state)
{
    static const struct {
        const char *name;
        double scale;
    } units[] = { { "ns", 1 },  { "us", 1e3 },   { "ms", 1e6 },
                  { "s", 1e9 }, { "min", 60e9 }, { "h", 3600e9 } };
    struct ls_rng rng;

    (void)state;
    ls_rng_init(&rng, 5, 5);
    for (unsigned i = 0; i < 100000; i++) {
        double ns = exp(ls_rng_unit(&rng) * log(3000e12)) - 0.5;
        char out[48];
        char unit[8] = "";
        double shown = 0;
        double scale = 0;

        (void)ls_human_duration(ns, out, sizeof(out));
        assert_int_equal(sscanf(out, "%lf %7s", &shown, unit), 2);
        for (size_t u = 0; u < LS_ARRAY_LEN(units); u++) {
            if (strcmp(units[u].name, unit) == 0)
                scale = units[u].scale;
        }
        assert_true(scale > 0);
        assert_true(fabs(shown * scale - ns) <= ns * 0.00501 + 0.00501);
        assert_true(scale == 3600e9 || shown < 1000);
        assert_true(scale == 1 || shown >= 1);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(durations_read_as_people_write_them),
        cmocka_unit_test(durations_that_are_none_are_refused),
        cmocka_unit_test(rates_read_as_people_write_them),
        cmocka_unit_test(rates_that_are_none_are_refused),
        cmocka_unit_test(counts_and_sizes_read_as_people_write_them),
        cmocka_unit_test(counts_and_sizes_that_are_none_are_refused),
        cmocka_unit_test(shares_are_percentages),
        cmocka_unit_test(whatever_is_written_reads_back_equal),
        cmocka_unit_test(reports_show_three_digits),
        cmocka_unit_test(rounded_forms_are_right_to_three_digits),
    };
    return cmocka_run_group_tests_name("common.units", tests, NULL, NULL);
}
