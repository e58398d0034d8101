#include "common/hist_sparse.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "common/hist_impl.h"

#define ROOM (LS_HIST_LEN + LS_HIST_SPARSE_CHUNK)

static_assert(ROOM <= UINT16_MAX + 1, "an index fits");

/* ---- sparse */

enum ls_err ls_hist_sparse_init(struct ls_hist_sparse *sparse)
{
    *sparse = (struct ls_hist_sparse){ .indexes = malloc(ROOM * sizeof(*sparse->indexes)),
                                       .counts = malloc(ROOM * sizeof(*sparse->counts)) };
    ls_hist_sparse_clear(sparse);
    return sparse->indexes != NULL && sparse->counts != NULL ? LS_OK : LS_ENOMEM;
}

void ls_hist_sparse_fini(struct ls_hist_sparse *sparse)
{
    free(sparse->indexes);
    free(sparse->counts);
    *sparse = (struct ls_hist_sparse){ 0 };
}

void ls_hist_sparse_clear(struct ls_hist_sparse *sparse)
{
    sparse->len = 0;
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
    for (uint32_t i = 0; i < src->len; i++)
        dst->counts[src->indexes[i]] += src->counts[i];
    add_summary(dst, src->count, src->clipped, src->min_ns, src->max_ns);
}

uint64_t ls_hist_sparse_above(const struct ls_hist_sparse *sparse, int64_t value_ns)
{
    uint32_t from = value_ns < 0 ? 0 : ls_hist_index(value_ns) + 1;
    uint64_t above = 0;

    for (uint32_t i = sparse->len; i > 0 && sparse->indexes[i - 1] >= from; i--)
        above += sparse->counts[i - 1];
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

/* Adds what src has from bucket i on in one page of counters of width bytes, and returns where that
 * ends. *out_most: the highest that one of them should be; if it does not fit, they are what is
 * left of it (take_back). The width is a constant to each loop, which is then a few instructions.
 * Width 0: there is no page. */
static inline uint32_t add_part(void *page, unsigned width, const struct ls_hist_sparse *src,
                                uint32_t i, uint64_t *out_most)
{
    const uint16_t *indexes = src->indexes; /* bytes that are written may be anything of src's */
    const uint64_t *counts = src->counts;
    uint32_t p = indexes[i] >> PAGE_BITS, len = src->len;
    uint64_t most = 0;

    for (; i < len && indexes[i] >> PAGE_BITS == p; i++) {
        uint32_t at = indexes[i] % PAGE_LEN;
        uint64_t sum = get(page, width, at) + counts[i];

        most = sum > most ? sum : most;
        if (width > 0)
            put(page, width, at, sum);
    }
    *out_most = most;
    return i;
}

static uint32_t add_to_page(const struct page *page, const struct ls_hist_sparse *src, uint32_t i,
                            uint64_t *out_most)
{
    switch (page->width) {
    case 0:
        return add_part(NULL, 0, src, i, out_most);
    case 1:
        return add_part(page->counters, 1, src, i, out_most);
    case 2:
        return add_part(page->counters, 2, src, i, out_most);
    case 4:
        return add_part(page->counters, 4, src, i, out_most);
    default:
        return add_part(page->counters, 8, src, i, out_most);
    }
}

/* Undoes the adding of buckets from to end; exact, for counters that ran over come back the same
 * way. */
static void take_back(const struct ls_hist_narrow *dst, const struct ls_hist_sparse *src,
                      uint32_t from, uint32_t end)
{
    for (uint32_t i = from; i < end; i++) {
        const struct page *page = page_of(dst, src->indexes[i] >> PAGE_BITS);
        uint32_t at = src->indexes[i] % PAGE_LEN;

        if (page->width > 0)
            put(page->counters, page->width, at,
                get(page->counters, page->width, at) - src->counts[i]);
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

/* Nearly always there is room in the counters, so that is seen afterwards. */
enum ls_err ls_hist_narrow_add(struct ls_hist_narrow *dst, const struct ls_hist_sparse *src)
{
    uint32_t end;

    if (src->count > (uint64_t)INT64_MAX - dst->count)
        return LS_ERANGE;
    for (uint32_t i = 0; i < src->len; i = end) {
        uint32_t p = src->indexes[i] >> PAGE_BITS;
        uint64_t most;

        end = add_to_page(page_of(dst, p), src, i, &most);
        if (width_of(most) <= page_of(dst, p)->width)
            continue;
        take_back(dst, src, i, end);
        if (!widen(dst, p, width_of(most))) {
            take_back(dst, src, 0, i);
            return LS_ENOMEM;
        }
        end = add_to_page(page_of(dst, p), src, i, &most);
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
