#include "common/hist_codec.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <zlib.h>

#include "common/buf.h"
#include "common/hist_impl.h"

/* Counts stay representable in a histogram log, whose numbers are signed. */
#define COUNT_MAX ((uint64_t)INT64_MAX)

enum {
    VERSION = 1,
    FLAG_DEFLATED = 1,
    HEAD_BYTES = 2,
    VARINT_BYTES = 10,
    WORTH_DEFLATING = 4096, /* below it a coordinator of thousands would inflate for a KiB or two */
    LEVEL = 1 /* a second's worth in well under 0.1 ms; higher levels gain a few per cent */
};

static_assert(LS_HIST_LEN * VARINT_BYTES + 1024 <= LS_HIST_WIRE_MAX,
              "even the widest counters fit, and gaps only take the place of counters");

/* ---- varints: 7 bits a byte, the lowest first, shortest form only */

static void put_varint(struct ls_buf *buf, uint64_t x)
{
    unsigned char bytes[VARINT_BYTES];
    size_t len = 0;

    for (; x >= 0x80; x >>= 7)
        bytes[len++] = (unsigned char)(x | 0x80);
    bytes[len++] = (unsigned char)x;
    ls_buf_add(buf, bytes, len);
}

static bool take_long_varint(struct ls_bytes *in, uint64_t *out)
{
    uint64_t x = 0;

    for (unsigned i = 0; i < VARINT_BYTES && i < in->len; i++) {
        unsigned char byte = in->data[i];

        if (i == VARINT_BYTES - 1 && byte > 1)
            return false; /* 65 bits */
        x |= (uint64_t)(byte & 0x7f) << (7 * i);
        if ((byte & 0x80) != 0)
            continue;
        if (byte == 0 && i > 0)
            return false; /* not the shortest form */
        in->data += i + 1;
        in->len -= i + 1;
        *out = x;
        return true;
    }
    return false;
}

/* Nearly all are of one byte. */
static inline bool take_varint(struct ls_bytes *in, uint64_t *out)
{
    if (LS_UNLIKELY(in->len == 0 || *in->data >= 0x80)) {
        struct ls_bytes rest = *in; /* what is handed on by its address is in memory ever after */
        bool took = take_long_varint(&rest, out);

        *in = rest;
        return took;
    }
    *out = *in->data;
    in->data++;
    in->len--;
    return true;
}

/* ---- encoding */

/* The end of the run of non-zero counters that starts at i. */
static uint32_t run_end(const struct ls_hist *hist, uint32_t i, uint32_t end)
{
    while (i < end && hist->counts[i] != 0)
        i++;
    return i;
}

static uint32_t run_start(const struct ls_hist *hist, uint32_t i, uint32_t end)
{
    while (i < end && hist->counts[i] == 0)
        i++;
    return i;
}

static void put_body(struct ls_buf *buf, const struct ls_hist *hist)
{
    uint64_t runs = 0;
    uint32_t first;
    uint32_t end;
    uint32_t last = 0; /* end of the run before */

    ls_hist_range(hist, &first, &end);
    for (uint32_t i = first; i < end; i = run_start(hist, run_end(hist, i, end), end))
        runs++;
    put_varint(buf, hist->count);
    put_varint(buf, (uint64_t)ls_hist_min(hist));
    put_varint(buf, (uint64_t)ls_hist_max(hist));
    put_varint(buf, hist->clipped);
    put_varint(buf, runs);
    for (uint32_t i = first; i < end; i = run_start(hist, last, end)) {
        uint32_t gap = i - last;

        last = run_end(hist, i, end);
        put_varint(buf, gap);
        put_varint(buf, last - i);
        for (; i < last; i++)
            put_varint(buf, hist->counts[i]);
    }
}

/* Replaces the plain form in buf by the deflated one, if that is shorter. */
static enum ls_err deflate_if_shorter(struct ls_buf *buf)
{
    const unsigned char *body = buf->data + HEAD_BYTES;
    size_t body_bytes = buf->len - HEAD_BYTES;
    const unsigned char head[HEAD_BYTES] = { VERSION, FLAG_DEFLATED };
    uLongf bytes = compressBound(body_bytes);
    unsigned char *deflated;
    enum ls_err rc = LS_ENOMEM;

    if (body_bytes < WORTH_DEFLATING)
        return LS_OK;
    deflated = malloc(bytes);
    if (deflated == NULL || compress2(deflated, &bytes, body, body_bytes, LEVEL) != Z_OK)
        goto out; /* the buffer suffices, so it is memory */
    rc = LS_OK;
    if (bytes + VARINT_BYTES < body_bytes) {
        ls_buf_reset(buf);
        ls_buf_add(buf, head, sizeof(head));
        put_varint(buf, body_bytes);
        ls_buf_add(buf, deflated, bytes);
    }
out:
    free(deflated);
    return rc;
}

enum ls_err ls_hist_encode(const struct ls_hist *hist, unsigned char **out_data, size_t *out_len)
{
    const unsigned char head[HEAD_BYTES] = { VERSION, 0 };
    enum ls_err rc = LS_ENOMEM;
    struct ls_buf buf;
    size_t len;

    ls_buf_init(&buf, LS_HIST_WIRE_MAX);
    ls_buf_add(&buf, head, sizeof(head));
    put_body(&buf, hist);
    if (!buf.ok || deflate_if_shorter(&buf) != LS_OK)
        goto out;
    len = buf.len;
    *out_data = (unsigned char *)ls_buf_detach(&buf);
    *out_len = len;
    rc = LS_OK;
out:
    ls_buf_fini(&buf);
    return rc;
}

/* ---- decoding */

struct summary {
    uint64_t count, min_ns, max_ns, clipped, runs;
};

static enum ls_err refuse(struct ls_diag *diag, const char *why)
{
    return ls_fail(diag, LS_EPROTO, "not a histogram: %s", why);
}

static enum ls_err take_summary(struct ls_bytes *in, struct summary *out, struct ls_diag *diag)
{
    if (!take_varint(in, &out->count) || !take_varint(in, &out->min_ns) ||
        !take_varint(in, &out->max_ns) || !take_varint(in, &out->clipped) ||
        !take_varint(in, &out->runs))
        return refuse(diag, "it ends too early");
    if (out->max_ns > INT64_MAX || out->min_ns > out->max_ns ||
        (out->count == 0) != (out->runs == 0) || (out->count == 0 && out->max_ns != 0) ||
        (out->count == 1 && out->min_ns != out->max_ns))
        return refuse(diag, "its extremes and its count contradict each other");
    if ((out->max_ns > (uint64_t)LS_HIST_MAX_NS) != (out->clipped > 0) ||
        (out->min_ns > (uint64_t)LS_HIST_MAX_NS && out->clipped != out->count))
        return refuse(diag, "its extremes and its clipped values contradict each other");
    return LS_OK;
}

/* How far a body was read, and what from it. The pointers are those of what is read into, and
 * copied: a byte that is written may be anything of its. */
struct walk {
    struct ls_bytes in;
    uint8_t *low;
    struct ls_hist_run *runs;
    uint16_t *high;
    uint64_t *high_counts;
    uint32_t run_count;
    uint32_t high_len;
    uint32_t end; /* one past the highest bucket so far */
    uint64_t count;
};

static inline uint64_t sum_of_bytes(uint64_t x)
{
    uint64_t pairs = (x & UINT64_C(0x00ff00ff00ff00ff)) + (x >> 8 & UINT64_C(0x00ff00ff00ff00ff));

    return pairs * UINT64_C(0x0001000100010001) >> 48;
}

/* Takes the next counters of a run of max > 0 that are of one byte, up to eight; returns how many.
 * Nearly all are, and there are thousands in a report. Eight are written whatever there are: those
 * beyond are zero, as what is there is anyway. */
static inline uint32_t take_short(struct walk *walk, uint64_t max)
{
    uint32_t n;
    uint64_t x;

    if (walk->in.len < LS_HIST_SPARSE_CHUNK)
        return 0;
    x = ls_hist_eight(walk->in.data);
    n = ls_hist_small(x, 0x80);
    n = n < max ? n : (uint32_t)max;
    if (n < LS_HIST_SPARSE_CHUNK)
        x &= (UINT64_C(1) << (8 * n)) - 1;
    ls_hist_put_eight(walk->low + walk->end, x);
    walk->count += sum_of_bytes(x);
    walk->end += n;
    walk->in.data += n;
    walk->in.len -= n;
    return n;
}

/* Takes one counter of any length. */
static inline enum ls_err take_counter(struct walk *walk, struct ls_diag *diag)
{
    uint64_t count;

    if (!take_varint(&walk->in, &count) || count == 0)
        return refuse(diag, "a counter is missing or zero");
    if (walk->count > COUNT_MAX || count > COUNT_MAX - walk->count)
        return refuse(diag, "its counters overflow");
    walk->count += count;
    if (count <= UINT8_MAX) {
        walk->low[walk->end++] = (uint8_t)count;
        return LS_OK;
    }
    walk->high[walk->high_len] = (uint16_t)walk->end++;
    walk->high_counts[walk->high_len++] = count;
    return LS_OK;
}

static inline enum ls_err take_run(struct walk *walk, struct ls_diag *diag)
{
    enum ls_err rc = LS_OK;
    uint64_t gap, len;

    if (!take_varint(&walk->in, &gap) || !take_varint(&walk->in, &len))
        return refuse(diag, "it ends too early");
    if (len == 0 || (gap == 0 && walk->end > 0))
        return refuse(diag, "it has an empty run or gap");
    if (gap > LS_HIST_LEN - walk->end || len > LS_HIST_LEN - walk->end - gap)
        return refuse(diag, "it has more buckets than there are");
    walk->end += (uint32_t)gap;
    walk->runs[walk->run_count++] =
        (struct ls_hist_run){ (uint16_t)walk->end, (uint16_t)(walk->end + len) };
    while (len > 0 && rc == LS_OK) {
        uint32_t n = take_short(walk, len);

        if (n == 0)
            rc = take_counter(walk, diag);
        len -= n > 0 ? n : 1;
    }
    if (rc == LS_OK && walk->count > COUNT_MAX)
        return refuse(diag, "its counters overflow");
    return rc;
}

static uint64_t last_counter(const struct ls_hist_sparse *hist)
{
    return hist->low[hist->end - 1] != 0 ? hist->low[hist->end - 1]
                                         : hist->high_counts[hist->high_len - 1];
}

static enum ls_err check_body(const struct ls_hist_sparse *hist, const struct summary *sum,
                              struct ls_diag *diag)
{
    if (hist->count != sum->count)
        return ls_fail(diag, LS_EPROTO,
                       "not a histogram: its counters add up to %" PRIu64 ", not %" PRIu64,
                       hist->count, sum->count);
    if (sum->count == 0)
        return LS_OK;
    if (hist->first != ls_hist_index((int64_t)sum->min_ns) ||
        hist->end != ls_hist_index((int64_t)sum->max_ns) + 1)
        return refuse(diag, "its extremes are not where its counters are");
    if (sum->clipped > last_counter(hist))
        return refuse(diag, "more values are clipped than its last bucket holds");
    return LS_OK;
}

static enum ls_err take_body(struct ls_bytes in, struct ls_hist_sparse *dst, struct ls_diag *diag)
{
    struct walk walk = {
        .low = dst->low, .runs = dst->runs, .high = dst->high, .high_counts = dst->high_counts
    };
    struct summary sum = { 0 };
    enum ls_err rc = take_summary(&in, &sum, diag);

    walk.in = in;
    for (uint64_t run = 0; rc == LS_OK && run < sum.runs; run++)
        rc = take_run(&walk, diag);
    dst->first = walk.run_count > 0 ? walk.runs[0].first : 0;
    dst->end = walk.end; /* after a failure, too: what was written is to be cleared */
    dst->run_count = walk.run_count;
    dst->high_len = walk.high_len;
    dst->count = walk.count;
    if (rc == LS_OK && walk.in.len > 0)
        rc = refuse(diag, "something follows it");
    if (rc == LS_OK)
        rc = check_body(dst, &sum, diag);
    if (rc != LS_OK || sum.count == 0)
        return rc;
    dst->clipped = sum.clipped;
    dst->min_ns = (int64_t)sum.min_ns;
    dst->max_ns = (int64_t)sum.max_ns;
    return LS_OK;
}

static enum ls_err take_deflated(struct ls_bytes in, struct ls_hist_sparse *dst,
                                 struct ls_diag *diag)
{
    unsigned char *body;
    uint64_t body_bytes;
    uLongf got;
    uLong used;
    enum ls_err rc;
    int z;

    if (!take_varint(&in, &body_bytes) || body_bytes == 0 || body_bytes > LS_HIST_WIRE_MAX)
        return refuse(diag, "its inflated length is out of range");
    body = malloc(body_bytes);
    if (body == NULL)
        return ls_fail(diag, LS_ENOMEM, "no memory to inflate a histogram");
    got = body_bytes;
    used = in.len;
    z = uncompress2(body, &got, in.data, &used);
    if (z == Z_MEM_ERROR)
        rc = ls_fail(diag, LS_ENOMEM, "no memory to inflate a histogram");
    else if (z != Z_OK || got != body_bytes || used != in.len)
        rc = refuse(diag, "its deflated form is damaged");
    else
        rc = take_body((struct ls_bytes){ body, body_bytes }, dst, diag);
    free(body);
    return rc;
}

enum ls_err ls_hist_decode(struct ls_bytes in, struct ls_hist_sparse *out, struct ls_diag *diag)
{
    unsigned char flags;
    enum ls_err rc;

    ls_hist_sparse_clear(out);
    if (in.len < HEAD_BYTES || in.len > LS_HIST_WIRE_MAX)
        return ls_fail(diag, LS_EPROTO, "not a histogram: %zu bytes are too few or too many",
                       in.len);
    if (in.data[0] != VERSION)
        return ls_fail(diag, LS_EPROTO, "a histogram of encoding %u; this version reads %d",
                       (unsigned)in.data[0], VERSION);
    flags = in.data[1];
    in.data += HEAD_BYTES;
    in.len -= HEAD_BYTES;
    if ((flags & ~FLAG_DEFLATED) != 0)
        return refuse(diag, "it has unknown flags");
    rc = flags == FLAG_DEFLATED ? take_deflated(in, out, diag) : take_body(in, out, diag);
    if (rc != LS_OK)
        ls_hist_sparse_clear(out);
    return rc;
}
