#include "common/hist_sparse.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "common/hist_impl.h"

static_assert(LS_HIST_LEN <= UINT16_MAX + 1, "an index fits");

/* ---- sparse */

enum ls_err ls_hist_sparse_init(struct ls_hist_sparse *sparse)
{
    *sparse = (struct ls_hist_sparse){ .indexes = malloc(LS_HIST_LEN * sizeof(*sparse->indexes)),
                                       .counts = malloc(LS_HIST_LEN * sizeof(*sparse->counts)) };
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

struct ls_hist_narrow {
    uint64_t count;
    uint64_t clipped;
    int64_t min_ns;              /* INT64_MAX while empty */
    int64_t max_ns;              /* -1 while empty */
    unsigned char widths[PAGES]; /* of a page's counters, in bytes; 0: no page */
    void *pages[PAGES];          /* owned */
};

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

static bool widen(struct ls_hist_narrow *narrow, uint32_t p, unsigned width)
{
    void *wider = calloc(PAGE_LEN, width);

    if (wider == NULL)
        return false;
    for (uint32_t i = 0; narrow->pages[p] != NULL && i < PAGE_LEN; i++)
        put(wider, width, i, get(narrow->pages[p], narrow->widths[p], i));
    free(narrow->pages[p]);
    narrow->pages[p] = wider;
    narrow->widths[p] = (unsigned char)width;
    return true;
}

/* What src has in one page. */
struct part {
    const uint16_t *indexes;
    const uint64_t *counts;
    uint32_t len;
};

/* From bucket i of src on; false: there is nothing left. */
static bool next_part(const struct ls_hist_sparse *src, uint32_t i, uint32_t *out_page,
                      struct part *out)
{
    uint32_t end = i;

    if (i >= src->len)
        return false;
    *out_page = src->indexes[i] >> PAGE_BITS;
    while (end < src->len && src->indexes[end] >> PAGE_BITS == *out_page)
        end++;
    *out = (struct part){ src->indexes + i, src->counts + i, end - i };
    return true;
}

/* The highest that one of the page's counters will be. */
static inline uint64_t most_of(const void *page, unsigned width, const struct part *part)
{
    uint64_t most = 0;

    for (uint32_t i = 0; i < part->len; i++) {
        uint64_t sum = get(page, width, part->indexes[i] % PAGE_LEN) + part->counts[i];

        most = sum > most ? sum : most;
    }
    return most;
}

static inline void add_part(void *page, unsigned width, const struct part *part)
{
    for (uint32_t i = 0; i < part->len; i++) {
        uint32_t at = part->indexes[i] % PAGE_LEN;

        put(page, width, at, get(page, width, at) + part->counts[i]);
    }
}

/* Makes room for what is to be added to page p. Here as below the width is a constant to each
 * loop, which is then a few instructions. */
static bool fit_page(struct ls_hist_narrow *dst, uint32_t p, const struct part *part)
{
    const void *page = dst->pages[p];
    uint64_t most;

    switch (dst->widths[p]) {
    case 1:
        most = most_of(page, 1, part);
        break;
    case 2:
        most = most_of(page, 2, part);
        break;
    case 4:
        most = most_of(page, 4, part);
        break;
    case 8:
        return true;
    default:
        most = most_of(page, 0, part);
    }
    return width_of(most) <= dst->widths[p] || widen(dst, p, width_of(most));
}

static void add_to_page(struct ls_hist_narrow *dst, uint32_t p, const struct part *part)
{
    switch (dst->widths[p]) {
    case 1:
        add_part(dst->pages[p], 1, part);
        break;
    case 2:
        add_part(dst->pages[p], 2, part);
        break;
    case 4:
        add_part(dst->pages[p], 4, part);
        break;
    default:
        add_part(dst->pages[p], 8, part);
    }
}

enum ls_err ls_hist_narrow_create(struct ls_hist_narrow **out_narrow)
{
    struct ls_hist_narrow *narrow = calloc(1, sizeof(*narrow));

    if (narrow == NULL)
        return LS_ENOMEM;
    narrow->min_ns = INT64_MAX;
    narrow->max_ns = -1;
    *out_narrow = narrow;
    return LS_OK;
}

void ls_hist_narrow_destroy(struct ls_hist_narrow *narrow)
{
    for (uint32_t p = 0; narrow != NULL && p < PAGES; p++)
        free(narrow->pages[p]);
    free(narrow);
}

enum ls_err ls_hist_narrow_add(struct ls_hist_narrow *dst, const struct ls_hist_sparse *src)
{
    struct part part;
    uint32_t p;

    if (src->count > (uint64_t)INT64_MAX - dst->count)
        return LS_ERANGE;
    for (uint32_t i = 0; next_part(src, i, &p, &part); i += part.len) {
        if (!fit_page(dst, p, &part))
            return LS_ENOMEM;
    }
    for (uint32_t i = 0; next_part(src, i, &p, &part); i += part.len)
        add_to_page(dst, p, &part);
    dst->count += src->count;
    dst->clipped += src->clipped;
    dst->min_ns = src->min_ns < dst->min_ns ? src->min_ns : dst->min_ns;
    dst->max_ns = src->max_ns > dst->max_ns ? src->max_ns : dst->max_ns;
    return LS_OK;
}

void ls_hist_narrow_add_to(const struct ls_hist_narrow *src, struct ls_hist *dst)
{
    for (uint32_t p = 0; p < PAGES; p++) {
        for (uint32_t i = 0; src->pages[p] != NULL && i < PAGE_LEN; i++)
            dst->counts[p * PAGE_LEN + i] += get(src->pages[p], src->widths[p], i);
    }
    add_summary(dst, src->count, src->clipped, src->min_ns, src->max_ns);
}

uint64_t ls_hist_narrow_count(const struct ls_hist_narrow *narrow)
{
    return narrow->count;
}

size_t ls_hist_narrow_bytes(const struct ls_hist_narrow *narrow)
{
    size_t bytes = sizeof(*narrow);

    for (uint32_t p = 0; p < PAGES; p++)
        bytes += (size_t)narrow->widths[p] * PAGE_LEN;
    return bytes;
}
