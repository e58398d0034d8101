/* tests/common/hist_log_writer.c - writes logs as two clients and a coordinator do, for
 * hist_log_npm.sh: a.hlog and b.hlog, whole.hlog with their sum, and expected.json with what
 * common/hist.h finds in it. Ends with 0 if all could be written. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/hist_log.h"
#include "common/rng.h"

enum { CLIENTS = 2, INTERVALS = 5, TAGS = 4 };

static const char *const client_names[CLIENTS] = { "a.hlog", "b.hlog" };
/* Sizes at which percentiles are one sample each, or more, or all the same one; the last has no tag
 * and no sample. */
static const struct {
    const char *tag;
    unsigned samples;
    double median_ns, spread;
} series[TAGS] = {
    { "response_time", 20000, 300e3, 0.5 },
    { "service_time", 1000, 80e6, 3 },
    { "send_lag", 3, 2e3, 1 },
    { "", 0, 1, 0 },
};

static struct ls_hist *new_hist(void)
{
    struct ls_hist *hist;

    if (ls_hist_create(&hist) != LS_OK)
        exit(1);
    return hist;
}

static FILE *begin(const char *name)
{
    FILE *file = fopen(name, "w");

    if (file == NULL || ls_hist_log_begin(file, name, INT64_C(1700000000000000000), NULL) != LS_OK)
        exit(1);
    return file;
}

static void add_line(FILE *file, unsigned s, int64_t interval, const struct ls_hist *hist)
{
    const int64_t second_ns = INT64_C(1000000000);

    if (ls_hist_log_write(file, series[s].tag, interval * second_ns, second_ns, hist, NULL) !=
        LS_OK)
        exit(1);
}

static void end(FILE *file)
{
    if (fclose(file) != 0)
        exit(1);
}

/* Log-normal by the sum of twelve uniform numbers; now and then far out, zero or beyond an hour. */
static int64_t draw(struct ls_rng *rng, unsigned s)
{
    double normal = -6;

    for (unsigned i = 0; i < 12; i++)
        normal += ls_rng_unit(rng);
    if (ls_rng_below(rng, 5000) == 0)
        return ls_rng_below(rng, 2) == 0 ? 0 : LS_HIST_MAX_NS + (int64_t)ls_rng_below(rng, 1000);
    return (int64_t)(series[s].median_ns * exp(series[s].spread * normal));
}

static void write_client(const char *name, struct ls_rng *rng, struct ls_hist *const whole[TAGS])
{
    FILE *file = begin(name);
    struct ls_hist *hist = new_hist();

    for (int64_t interval = 0; interval < INTERVALS; interval++) {
        for (unsigned s = 0; s < TAGS; s++) {
            ls_hist_reset(hist);
            for (unsigned i = 0; i < series[s].samples; i++)
                ls_hist_record(hist, draw(rng, s));
            add_line(file, s, interval, hist);
            ls_hist_merge(whole[s], hist);
        }
    }
    end(file);
    ls_hist_destroy(hist);
}

static void write_expected(struct ls_hist *const whole[TAGS])
{
    static const struct {
        const char *name;
        double q;
    } quantiles[] = { { "p50_ns", 0.5 },  { "p75_ns", 0.75 },   { "p90_ns", 0.9 },
                      { "p99_ns", 0.99 }, { "p999_ns", 0.999 }, { "p9999_ns", 0.9999 } };
    FILE *file = fopen("expected.json", "w");

    if (file == NULL)
        exit(1);
    for (unsigned s = 0; s < TAGS; s++) {
        (void)fprintf(file, "%s\"%s\": {\"count\": %" PRIu64, s == 0 ? "{" : ",\n", series[s].tag,
                      ls_hist_count(whole[s]));
        for (size_t q = 0; q < LS_ARRAY_LEN(quantiles); q++)
            (void)fprintf(file, ", \"%s\": %" PRId64, quantiles[q].name,
                          ls_hist_quantile(whole[s], quantiles[q].q));
        (void)fprintf(file, ", \"max_ns\": %" PRId64 ", \"mean_ns\": %.17g, \"stdev_ns\": %.17g}",
                      ls_hist_max(whole[s]), ls_hist_mean(whole[s]), ls_hist_stdev(whole[s]));
    }
    (void)fputs("}\n", file);
    end(file);
}

int main(int argc, char **argv)
{
    struct ls_hist *whole[TAGS];
    struct ls_rng rng;
    FILE *file;

    if (argc != 2 || chdir(argv[1]) != 0) {
        (void)fputs("usage: hist_log_writer FOLDER\n", stderr);
        return 2;
    }
    ls_rng_init(&rng, 2, 2);
    for (unsigned s = 0; s < TAGS; s++)
        whole[s] = new_hist();
    for (unsigned c = 0; c < CLIENTS; c++)
        write_client(client_names[c], &rng, whole);
    file = begin("whole.hlog");
    for (unsigned s = 0; s < TAGS; s++)
        add_line(file, s, 0, whole[s]);
    end(file);
    write_expected(whole);
    for (unsigned s = 0; s < TAGS; s++)
        ls_hist_destroy(whole[s]);
    return 0;
}
