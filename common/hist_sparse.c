#include "common/hist_sparse.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "common/hist_impl.h"

#define RUNS_MAX (LS_HIST_LEN / 2)

static_assert(LS_HIST_LEN <= UINT16_MAX && LS_HIST_LEN % 2 == 0, "a run's end fits, as do runs");

/* ---- sparse */

enum ls_err ls_hist_sparse_init(struct ls_hist_sparse *sparse)
{
    *sparse = (struct ls_hist_sparse){
        .low = calloc(LS_HIST_LEN + LS_HIST_SPARSE_CHUNK, sizeof(*sparse->low)),
        .runs = malloc(RUNS_MAX * sizeof(*sparse->runs)),
        .high = malloc(LS_HIST_LEN * sizeof(*sparse->high)),
        .high_counts = malloc(LS_HIST_LEN * sizeof(*sparse->high_counts)),
    };
    ls_hist_sparse_clear(sparse);
    return sparse->low != NULL && sparse->runs != NULL && sparse->high != NULL &&
                   sparse->high_counts != NULL
               ? LS_OK
               : LS_ENOMEM;
}

void ls_hist_sparse_fini(struct ls_hist_sparse *sparse)
{
    free(sparse->low);
    free(sparse->runs);
    free(sparse->high);
    free(sparse->high_counts);
    *sparse = (struct ls_hist_sparse){ 0 };
}

void ls_hist_sparse_clear(struct ls_hist_sparse *sparse)
{
    if (sparse->end > sparse->first)
        (void)memset(sparse->low + sparse->first, 0, sparse->end - sparse->first);
    sparse->first = sparse->end = sparse->run_count = sparse->high_len = 0;
    sparse->count = sparse->clipped = 0;
    sparse->min_ns = INT64_MAX;
    sparse->max_ns = -1;
}

static void add_summary(struct ls_hist *dst, uint64_t count, uint64_t clipped, int64_t min_ns,
                        int64_t max_ns)
{
    dst->count += count;
    dst->clipped += clipped;
    dst->min_ns = min_ns < dst->min_ns ? min_ns : dst->min_ns;
    dst->max_ns = max_ns > dst->max_ns ? max_ns : dst->max_ns;
}

void ls_hist_sparse_add_to(const struct ls_hist_sparse *src, struct ls_hist *dst)
{
    const uint8_t *restrict low = src->low;
    uint64_t *restrict counts = dst->counts;
    uint32_t end = src->end;

    for (uint32_t i = src->first; i < end; i++)
        counts[i] += low[i];
    for (uint32_t i = 0; i < src->high_len; i++)
        counts[src->high[i]] += src->high_counts[i];
    add_summary(dst, src->count, src->clipped, src->min_ns, src->max_ns);
}

uint64_t ls_hist_sparse_above(const struct ls_hist_sparse *sparse, int64_t value_ns)
{
    uint32_t from = value_ns < 0 ? 0 : ls_hist_index(value_ns) + 1;
    uint64_t above = 0;

    for (uint32_t i = from > sparse->first ? from : sparse->first; i < sparse->end; i++)
        above += sparse->low[i];
    for (uint32_t i = sparse->high_len; i > 0 && sparse->high[i - 1] >= from; i--)
        above += sparse->high_counts[i - 1];
    return above;
}

/* ---- narrow */

#define PAGE_BITS 8u
#define PAGE_LEN  (1u << PAGE_BITS) /* counters */
#define PAGES     (LS_HIST_LEN >> PAGE_BITS)

static_assert(LS_HIST_LEN % PAGE_LEN == 0, "pages are whole");

struct page {
    void *counters; /* owned; PAGE_LEN */
    unsigned width; /* of each, in bytes; 0: there are none */
};

/* The latencies of a load touch a dozen of the pages. */
struct ls_hist_narrow {
    uint64_t count;
    uint64_t clipped;
    int64_t min_ns;              /* INT64_MAX while empty */
    int64_t max_ns;              /* -1 while empty */
    unsigned char places[PAGES]; /* of a page in pages; 0: it is not there */
    uint32_t page_count;
    struct page *pages; /* owned; the first one is empty, and stands for those that are not there */
};
static_assert(PAGES < UINT8_MAX, "a place fits");

static uint64_t get(const void *page, unsigned width, uint32_t i)
{
    switch (width) {
    case 1:
        return ((const uint8_t *)page)[i];
    case 2:
        return ((const uint16_t *)page)[i];
    case 4:
        return ((const uint32_t *)page)[i];
    case 8:
        return ((const uint64_t *)page)[i];
    default:
        return 0;
    }
}

static void put(void *page, unsigned width, uint32_t i, uint64_t count)
{
    switch (width) {
    case 1:
        ((uint8_t *)page)[i] = (uint8_t)count;
        break;
    case 2:
        ((uint16_t *)page)[i] = (uint16_t)count;
        break;
    case 4:
        ((uint32_t *)page)[i] = (uint32_t)count;
        break;
    default:
        ((uint64_t *)page)[i] = count;
    }
}

static unsigned width_of(uint64_t count)
{
    return count <= UINT8_MAX ? 1 : count <= UINT16_MAX ? 2 : count <= UINT32_MAX ? 4 : 8;
}

static struct page *page_of(const struct ls_hist_narrow *narrow, uint32_t p)
{
    return &narrow->pages[narrow->places[p]];
}

static bool add_page(struct ls_hist_narrow *narrow, uint32_t p)
{
    struct page *pages = realloc(narrow->pages, (narrow->page_count + 1) * sizeof(*pages));

    if (pages == NULL)
        return false;
    narrow->pages = pages;
    pages[narrow->page_count] = (struct page){ 0 };
    narrow->places[p] = (unsigned char)narrow->page_count++;
    return true;
}

static bool widen(struct ls_hist_narrow *narrow, uint32_t p, unsigned width)
{
    void *wider = calloc(PAGE_LEN, width);
    struct page *page;

    if (wider == NULL || (narrow->places[p] == 0 && !add_page(narrow, p))) {
        free(wider);
        return false;
    }
    page = page_of(narrow, p);
    for (uint32_t i = 0; page->width > 0 && i < PAGE_LEN; i++)
        put(wider, width, i, get(page->counters, page->width, i));
    free(page->counters);
    *page = (struct page){ wider, width };
    return true;
}

/* The counters of one page plus and minus those of a report, which are of a byte each. A loop for
 * each width, of a length that is known: the compiler makes vectors of it. Adding is true if a
 * counter ran over, which taking the same away again puts right. */
#define DEFINE_PAGE_SUMS(bits)                                                         \
    static bool add_##bits(uint##bits##_t *restrict dst, const uint8_t *restrict src)  \
    {                                                                                  \
        uint##bits##_t carries = 0;                                                    \
                                                                                       \
        for (uint32_t i = 0; i < PAGE_LEN; i++) {                                      \
            uint##bits##_t a = dst[i], b = src[i], sum = (uint##bits##_t)(a + b);      \
                                                                                       \
            carries |= (uint##bits##_t)((a & b) | ((a | b) & (uint##bits##_t) ~sum));  \
            dst[i] = sum;                                                              \
        }                                                                              \
        return carries >> ((bits)-1) != 0;                                             \
    }                                                                                  \
    static void take_##bits(uint##bits##_t *restrict dst, const uint8_t *restrict src) \
    {                                                                                  \
        for (uint32_t i = 0; i < PAGE_LEN; i++)                                        \
            dst[i] = (uint##bits##_t)(dst[i] - src[i]);                                \
    }
DEFINE_PAGE_SUMS(8)
DEFINE_PAGE_SUMS(16)
DEFINE_PAGE_SUMS(32)
DEFINE_PAGE_SUMS(64)

static bool add_to_page(const struct page *page, const uint8_t *low)
{
    switch (page->width) {
    case 1:
        return add_8(page->counters, low);
    case 2:
        return add_16(page->counters, low);
    case 4:
        return add_32(page->counters, low);
    default:
        return add_64(page->counters, low);
    }
}

static void take_from_page(const struct page *page, const uint8_t *low)
{
    switch (page->width) {
    case 1:
        take_8(page->counters, low);
        return;
    case 2:
        take_16(page->counters, low);
        return;
    case 4:
        take_32(page->counters, low);
        return;
    default:
        take_64(page->counters, low);
    }
}

static bool is_empty(const uint8_t *low)
{
    uint8_t any = 0;

    for (uint32_t i = 0; i < PAGE_LEN; i++)
        any |= low[i];
    return any == 0;
}

/* Nearly always there is room in the counters, so that is seen afterwards. False: no memory, the
 * page is as it was. */
static bool add_low(struct ls_hist_narrow *dst, const struct ls_hist_sparse *src, uint32_t p)
{
    const uint8_t *low = src->low + (size_t)p * PAGE_LEN;
    const struct page *page = page_of(dst, p);

    if (page->width == 0) {
        if (is_empty(low))
            return true;
    } else {
        if (!add_to_page(page, low))
            return true;
        take_from_page(page, low);
    }
    if (!widen(dst, p, page->width == 0 ? 1 : 2 * page->width))
        return false;
    return !add_to_page(page_of(dst, p), low);
}

static void take_low(const struct ls_hist_narrow *dst, const struct ls_hist_sparse *src, uint32_t p)
{
    if (page_of(dst, p)->width > 0)
        take_from_page(page_of(dst, p), src->low + (size_t)p * PAGE_LEN);
}

static bool add_high(struct ls_hist_narrow *dst, const struct ls_hist_sparse *src, uint32_t i)
{
    uint32_t p = src->high[i] >> PAGE_BITS, at = src->high[i] % PAGE_LEN;
    const struct page *page = page_of(dst, p);
    uint64_t sum = get(page->counters, page->width, at) + src->high_counts[i];

    if (width_of(sum) > page->width && !widen(dst, p, width_of(sum)))
        return false;
    put(page_of(dst, p)->counters, page_of(dst, p)->width, at, sum);
    return true;
}

/* Of the first n. */
static void take_high(const struct ls_hist_narrow *dst, const struct ls_hist_sparse *src,
                      uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        const struct page *page = page_of(dst, src->high[i] >> PAGE_BITS);
        uint32_t at = src->high[i] % PAGE_LEN;

        put(page->counters, page->width, at,
            get(page->counters, page->width, at) - src->high_counts[i]);
    }
}

enum ls_err ls_hist_narrow_create(struct ls_hist_narrow **out_narrow)
{
    struct ls_hist_narrow *narrow = calloc(1, sizeof(*narrow));

    if (narrow == NULL)
        return LS_ENOMEM;
    narrow->pages = calloc(1, sizeof(*narrow->pages));
    if (narrow->pages == NULL) {
        free(narrow);
        return LS_ENOMEM;
    }
    narrow->page_count = 1;
    narrow->min_ns = INT64_MAX;
    narrow->max_ns = -1;
    *out_narrow = narrow;
    return LS_OK;
}

void ls_hist_narrow_destroy(struct ls_hist_narrow *narrow)
{
    if (narrow == NULL)
        return;
    for (uint32_t i = 0; i < narrow->page_count; i++)
        free(narrow->pages[i].counters);
    free(narrow->pages);
    free(narrow);
}

void ls_hist_narrow_reset(struct ls_hist_narrow *narrow)
{
    for (uint32_t i = 1; i < narrow->page_count; i++)
        (void)memset(narrow->pages[i].counters, 0, (size_t)narrow->pages[i].width * PAGE_LEN);
    narrow->count = narrow->clipped = 0;
    narrow->min_ns = INT64_MAX;
    narrow->max_ns = -1;
}

enum ls_err ls_hist_narrow_add(struct ls_hist_narrow *dst, const struct ls_hist_sparse *src)
{
    uint32_t first = src->first >> PAGE_BITS;

    if (src->count > (uint64_t)INT64_MAX - dst->count)
        return LS_ERANGE;
    for (uint32_t i = 0; i < src->high_len; i++) {
        if (!add_high(dst, src, i)) {
            take_high(dst, src, i);
            return LS_ENOMEM;
        }
    }
    for (uint32_t p = first; p * PAGE_LEN < src->end; p++) {
        if (add_low(dst, src, p))
            continue;
        while (p > first)
            take_low(dst, src, --p);
        take_high(dst, src, src->high_len);
        return LS_ENOMEM;
    }
    dst->count += src->count;
    dst->clipped += src->clipped;
    dst->min_ns = src->min_ns < dst->min_ns ? src->min_ns : dst->min_ns;
    dst->max_ns = src->max_ns > dst->max_ns ? src->max_ns : dst->max_ns;
    return LS_OK;
}

void ls_hist_narrow_add_to(const struct ls_hist_narrow *src, struct ls_hist *dst)
{
    for (uint32_t p = 0; p < PAGES; p++) {
        const struct page *page = page_of(src, p);

        for (uint32_t i = 0; page->width > 0 && i < PAGE_LEN; i++)
            dst->counts[p * PAGE_LEN + i] += get(page->counters, page->width, i);
    }
    add_summary(dst, src->count, src->clipped, src->min_ns, src->max_ns);
}

uint64_t ls_hist_narrow_count(const struct ls_hist_narrow *narrow)
{
    return narrow->count;
}

size_t ls_hist_narrow_bytes(const struct ls_hist_narrow *narrow)
{
    size_t bytes = sizeof(*narrow) + narrow->page_count * sizeof(*narrow->pages);

    for (uint32_t i = 0; i < narrow->page_count; i++)
        bytes += (size_t)narrow->pages[i].width * PAGE_LEN;
    return bytes;
}
