#include "common/hist.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/hist_impl.h"

enum { HALF_BITS = 10, HALF = 1 << HALF_BITS };

static_assert(LS_HIST_SUB_BUCKETS == 2 * HALF, "an octave has half the sub-buckets");
static_assert(LS_HIST_MAX_NS < (INT64_C(2) * HALF) << (LS_HIST_LEN / HALF - 2),
              "the last octave holds the range's end");

enum ls_err ls_hist_create(struct ls_hist **out_hist)
{
    struct ls_hist *hist = calloc(1, sizeof(*hist));

    if (hist == NULL)
        return LS_ENOMEM;
    hist->min_ns = INT64_MAX;
    hist->max_ns = -1;
    *out_hist = hist;
    return LS_OK;
}

void ls_hist_destroy(struct ls_hist *hist)
{
    free(hist);
}

/* Values are v = s x 2^octave with s in [1024, 2048), or below 2048 in octave 0. */
static inline uint32_t index_of(uint64_t value)
{
    unsigned octave = LS_TOP_BIT(value | (LS_HIST_SUB_BUCKETS - 1)) - HALF_BITS;

    return (uint32_t)(octave << HALF_BITS) + (uint32_t)(value >> octave);
}

static unsigned octave_of(uint32_t i)
{
    return i < LS_HIST_SUB_BUCKETS ? 0 : (i >> HALF_BITS) - 1;
}

uint32_t ls_hist_index(int64_t value_ns)
{
    if (value_ns < 0)
        return 0;
    return index_of((uint64_t)(value_ns > LS_HIST_MAX_NS ? LS_HIST_MAX_NS : value_ns));
}

int64_t ls_hist_lowest_at(uint32_t i)
{
    unsigned octave = octave_of(i);

    return (int64_t)(i - (octave << HALF_BITS)) << octave;
}

int64_t ls_hist_highest_at(uint32_t i)
{
    return ls_hist_lowest_at(i) + (INT64_C(1) << octave_of(i)) - 1;
}

void ls_hist_range(const struct ls_hist *hist, uint32_t *out_first, uint32_t *out_end)
{
    if (hist->count == 0) {
        *out_first = *out_end = 0;
        return;
    }
    *out_first = ls_hist_index(hist->min_ns);
    *out_end = ls_hist_index(hist->max_ns) + 1;
}

void ls_hist_reset(struct ls_hist *hist)
{
    uint32_t first;
    uint32_t end;

    ls_hist_range(hist, &first, &end);
    (void)memset(hist->counts + first, 0, (end - first) * sizeof(hist->counts[0]));
    hist->count = 0;
    hist->clipped = 0;
    hist->min_ns = INT64_MAX;
    hist->max_ns = -1;
}

void ls_hist_record_n(struct ls_hist *hist, int64_t value_ns, uint64_t n)
{
    int64_t kept_ns = value_ns < 0 ? 0 : value_ns;

    if (LS_UNLIKELY(n == 0))
        return;
    hist->min_ns = kept_ns < hist->min_ns ? kept_ns : hist->min_ns;
    hist->max_ns = kept_ns > hist->max_ns ? kept_ns : hist->max_ns;
    if (LS_UNLIKELY(kept_ns > LS_HIST_MAX_NS)) {
        kept_ns = LS_HIST_MAX_NS;
        hist->clipped += n;
    }
    hist->count += n;
    hist->counts[index_of((uint64_t)kept_ns)] += n;
}

void ls_hist_record(struct ls_hist *hist, int64_t value_ns)
{
    ls_hist_record_n(hist, value_ns, 1);
}

void ls_hist_merge(struct ls_hist *dst, const struct ls_hist *src)
{
    uint32_t first;
    uint32_t end;

    ls_hist_range(src, &first, &end);
    for (uint32_t i = first; i < end; i++)
        dst->counts[i] += src->counts[i];
    dst->count += src->count;
    dst->clipped += src->clipped;
    dst->min_ns = src->min_ns < dst->min_ns ? src->min_ns : dst->min_ns;
    dst->max_ns = src->max_ns > dst->max_ns ? src->max_ns : dst->max_ns;
}

uint64_t ls_hist_above(const struct ls_hist *hist, int64_t value_ns)
{
    uint32_t first, end, from = value_ns < 0 ? 0 : ls_hist_index(value_ns) + 1;
    uint64_t above = 0;

    ls_hist_range(hist, &first, &end);
    for (uint32_t i = from > first ? from : first; i < end; i++)
        above += hist->counts[i];
    return above;
}

bool ls_hist_equal(const struct ls_hist *a, const struct ls_hist *b)
{
    uint32_t first;
    uint32_t end;

    if (a->count != b->count || a->clipped != b->clipped || a->min_ns != b->min_ns ||
        a->max_ns != b->max_ns)
        return false;
    ls_hist_range(a, &first, &end);
    return memcmp(a->counts + first, b->counts + first, (end - first) * sizeof(a->counts[0])) == 0;
}

uint64_t ls_hist_count(const struct ls_hist *hist)
{
    return hist->count;
}

uint64_t ls_hist_clipped(const struct ls_hist *hist)
{
    return hist->clipped;
}

int64_t ls_hist_min(const struct ls_hist *hist)
{
    return hist->count == 0 ? 0 : hist->min_ns;
}

int64_t ls_hist_max(const struct ls_hist *hist)
{
    return hist->count == 0 ? 0 : hist->max_ns;
}

uint64_t ls_hist_count_at(const struct ls_hist *hist, uint32_t i)
{
    return i < LS_HIST_LEN ? hist->counts[i] : 0;
}

/* ceil(q x count), where a product that rounding put just above a whole number counts as that
 * number: 0.999 x 1000 is rank 999. The same steps as in HdrHistogram, hence the same ranks. */
static uint64_t rank_of(double q, uint64_t count)
{
    double rank = q * (double)count;

    rank = ceil(nextafter(rank, 0.0));
    if (!(rank > 1))
        return 1;
    return rank < (double)count ? (uint64_t)rank : count;
}

int64_t ls_hist_quantile(const struct ls_hist *hist, double q)
{
    uint64_t rank = rank_of(q, hist->count);
    uint64_t seen = 0;
    uint32_t first;
    uint32_t end;

    ls_hist_range(hist, &first, &end);
    for (uint32_t i = first; i < end; i++) {
        seen += hist->counts[i];
        if (seen >= rank) {
            int64_t highest_ns = ls_hist_highest_at(i);

            return highest_ns < hist->max_ns ? highest_ns : hist->max_ns;
        }
    }
    return 0;
}

static double middle_of(uint32_t i)
{
    return (double)(ls_hist_lowest_at(i) + ((INT64_C(1) << octave_of(i)) >> 1));
}

double ls_hist_mean(const struct ls_hist *hist)
{
    double sum = 0;
    uint32_t first;
    uint32_t end;

    if (hist->count == 0)
        return 0;
    ls_hist_range(hist, &first, &end);
    for (uint32_t i = first; i < end; i++)
        sum += middle_of(i) * (double)hist->counts[i];
    return sum / (double)hist->count;
}

double ls_hist_stdev(const struct ls_hist *hist)
{
    double mean = ls_hist_mean(hist);
    double sum = 0;
    uint32_t first;
    uint32_t end;

    if (hist->count == 0)
        return 0;
    ls_hist_range(hist, &first, &end);
    for (uint32_t i = first; i < end; i++) {
        double away = middle_of(i) - mean;

        sum += away * away * (double)hist->counts[i];
    }
    return sqrt(sum / (double)hist->count);
}
