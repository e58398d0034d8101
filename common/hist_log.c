#include "common/hist_log.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <zlib.h>

#include "common/base64.h"
#include "common/buf.h"
#include "common/clock.h"
#include "common/hist_impl.h"

/* The format is what Java's HdrHistogram writes (AbstractHistogram.java, HistogramLogWriter.java):
 * all numbers big endian; counters as ZigZag LEB128 of at most 9 bytes, a negative number standing
 * for that many zeros. */
enum {
    COOKIE = 0x1c849303 | 0x10,
    COOKIE_DEFLATED = 0x1c849304 | 0x10,
    DIGITS = 3,
    HEAD_BYTES = 40,
    OUTER_BYTES = 8,
    WORD_BYTES = 9,
    PLAIN_MAX = HEAD_BYTES + WORD_BYTES * LS_HIST_LEN,
    DEFLATED_MAX = PLAIN_MAX + PLAIN_MAX / 1000 + 64, /* more than zlib's own bound */
    LINE_MAX_BYTES = (OUTER_BYTES + DEFLATED_MAX) * 4 / 3 + 1024,
    STORED_MAX = 65535, /* of a block */
    COMMENT_MAX = 120   /* HdrHistogram_c reads its header in lines of 128 */
};

#define LOWEST         1
#define RATIO_ONE_BITS UINT64_C(0x3ff0000000000000) /* 1.0 */

static const char legend[] =
    "\"StartTimestamp\",\"Interval_Length\",\"Interval_Max\",\"Interval_Compressed_Histogram\"";

/* ---- pieces of the binary form */

static void put_be(struct ls_buf *buf, uint64_t x, unsigned bytes)
{
    unsigned char out[8];

    for (unsigned i = 0; i < bytes; i++)
        out[i] = (unsigned char)(x >> (8 * (bytes - 1 - i)));
    ls_buf_add(buf, out, bytes);
}

static uint64_t get_be(const unsigned char *in, unsigned bytes)
{
    uint64_t x = 0;

    for (unsigned i = 0; i < bytes; i++)
        x = x << 8 | in[i];
    return x;
}

/* Returns how many of WORD_BYTES it took. */
static size_t put_word(unsigned char *out, int64_t word)
{
    uint64_t x = ((uint64_t)word << 1) ^ (word < 0 ? UINT64_MAX : 0);
    size_t len = 0;

    for (; x >= 0x80 && len < WORD_BYTES - 1; x >>= 7)
        out[len++] = (unsigned char)(x | 0x80);
    out[len++] = (unsigned char)x; /* a ninth byte has all its 8 bits */
    return len;
}

static bool take_word(struct ls_bytes *in, int64_t *out)
{
    uint64_t x = 0;

    for (unsigned i = 0; i < WORD_BYTES && i < in->len; i++) {
        unsigned char byte = in->data[i];
        bool last = i == WORD_BYTES - 1 || (byte & 0x80) == 0;

        x |= (uint64_t)(i == WORD_BYTES - 1 ? byte : byte & 0x7f) << (7 * i);
        if (!last)
            continue;
        in->data += i + 1;
        in->len -= i + 1;
        *out = (int64_t)(x >> 1) ^ -(int64_t)(x & 1);
        return true;
    }
    return false;
}

/* ---- writing */

static enum ls_err out_of_memory(struct ls_diag *diag)
{
    return ls_fail(diag, LS_ENOMEM, "no memory for a histogram log");
}

static enum ls_err write_failed(struct ls_diag *diag)
{
    return ls_fail(diag, LS_EIO, "cannot write the histogram log: %s", strerror(errno));
}

/* x / 10^places with three decimals, or with all of them if three are not exact. */
static void put_decimal(struct ls_buf *buf, int64_t x, unsigned places)
{
    int64_t scale = 1;

    for (unsigned i = 0; i < places; i++)
        scale *= 10;
    ls_buf_addu(buf, (uint64_t)(x / scale), 1);
    ls_buf_add(buf, ".", 1);
    if (x % (scale / 1000) == 0)
        ls_buf_addu(buf, (uint64_t)(x % scale / (scale / 1000)), 3);
    else
        ls_buf_addu(buf, (uint64_t)(x % scale), places);
}

static bool flush(struct ls_buf *buf, FILE *file)
{
    return fwrite(buf->data, 1, buf->len, file) == buf->len;
}

/* Line by line, and no line too long for the shortest-sighted reader. */
static void put_comment(struct ls_buf *buf, const char *text)
{
    while (*text != '\0') {
        size_t len = strcspn(text, "\r\n");

        len = len > COMMENT_MAX ? COMMENT_MAX : len;
        ls_buf_adds(buf, "#");
        ls_buf_add(buf, text, len);
        ls_buf_adds(buf, "\n");
        text += len;
        text += strspn(text, "\r\n");
    }
}

enum ls_err ls_hist_log_begin(FILE *file, const char *comment, int64_t start_wall_ns,
                              struct ls_diag *diag)
{
    enum ls_err rc = LS_OK;
    struct ls_buf buf;
    char when[32];

    ls_buf_init(&buf, SIZE_MAX);
    ls_clock_format_wall(start_wall_ns, when, sizeof(when));
    put_comment(&buf, comment == NULL ? "" : comment);
    ls_buf_adds(&buf, "#[Histogram log format version 1.3]\n#[StartTime: ");
    put_decimal(&buf, start_wall_ns, 9);
    ls_buf_addf(&buf, " (seconds since epoch), %s]\n#[BaseTime: ", when);
    put_decimal(&buf, start_wall_ns, 9);
    ls_buf_addf(&buf, " (seconds since epoch)]\n%s\n", legend);
    if (!buf.ok)
        rc = out_of_memory(diag);
    else if (!flush(&buf, file))
        rc = write_failed(diag);
    ls_buf_fini(&buf);
    return rc;
}

static void put_head(struct ls_buf *buf)
{
    put_be(buf, COOKIE, 4);
    put_be(buf, 0, 4); /* payload's length: set_payload() */
    put_be(buf, 0, 4); /* normalizing index offset */
    put_be(buf, DIGITS, 4);
    put_be(buf, LOWEST, 8);
    put_be(buf, LS_HIST_MAX_NS, 8);
    put_be(buf, RATIO_ONE_BITS, 8);
}

static void set_payload(struct ls_buf *buf)
{
    uint32_t payload = (uint32_t)(buf->len - HEAD_BYTES);

    for (unsigned i = 0; buf->ok && i < 4; i++)
        buf->data[4 + i] = (unsigned char)(payload >> (24 - 8 * i));
}

/* What is empty before a counter: one bucket is a counter, more are a word together. Nearly always
 * a byte, and whether there is one nobody can foretell: it is written, and stays if there is. */
static inline unsigned char *put_gap(unsigned char *at, uint32_t gap)
{
    if (LS_UNLIKELY(gap > 0x40))
        return at + put_word(at, -(int64_t)gap);
    at[0] = gap > 1 ? (unsigned char)(2 * gap - 1) : 0;
    return at + (gap > 0);
}

/* A counter and the gap before it. */
static inline unsigned char *put_counter(unsigned char *at, uint32_t gap, uint64_t count)
{
    at = put_gap(at, gap);
    if (LS_UNLIKELY(count >= 0x40))
        return at + put_word(at, (int64_t)count);
    *at = (unsigned char)(count << 1);
    return at + 1;
}

/* Words on their way to a buffer, and the bucket that follows them. Appended together: many small
 * appends are slow. Loops keep at and next in variables of their own, for a byte that is written
 * may be anything of a struct's. */
struct words {
    struct ls_buf *buf;
    unsigned char *at; /* in bytes */
    uint32_t next;
    unsigned char bytes[2048];
};

#define STEP_BYTES \
    (2 * WORD_BYTES) /* what a step writes at most: two words, or one and eight bytes */

static inline unsigned char *flush_if_full(struct words *words, unsigned char *at)
{
    if ((size_t)(at - words->bytes) <= sizeof(words->bytes) - STEP_BYTES)
        return at;
    ls_buf_add(words->buf, words->bytes, (size_t)(at - words->bytes));
    return words->bytes;
}

static void begin_words(struct words *words, struct ls_buf *buf)
{
    put_head(buf);
    words->buf = buf;
    words->at = words->bytes;
    words->next = 0;
}

static void end_words(struct words *words)
{
    if (words->next == 0)
        *words->at++ = 0; /* as HdrHistogram: at least one counter */
    ls_buf_add(words->buf, words->bytes, (size_t)(words->at - words->bytes));
    set_payload(words->buf);
}

static void put_plain(struct ls_buf *buf, const struct ls_hist *hist)
{
    struct words words;
    unsigned char *at;
    uint32_t first, end, next = 0;

    ls_hist_range(hist, &first, &end);
    begin_words(&words, buf);
    at = words.at;
    for (uint32_t i = first; i < end; i++) {
        if (hist->counts[i] == 0)
            continue;
        at = flush_if_full(&words, put_counter(at, i - next, hist->counts[i]));
        next = i + 1;
    }
    words.at = at;
    words.next = next;
    end_words(&words);
}

/* The counters of a run, eight at a time where they are one-byte words: the word of a small number
 * is twice the number. What follows the run is empty, so no eight goes past it. */
static unsigned char *put_run(struct words *words, unsigned char *at,
                              const struct ls_hist_sparse *hist, const struct ls_hist_run *run,
                              uint32_t *high)
{
    uint32_t i = run->first;

    while (i < run->end) {
        uint64_t x = ls_hist_eight(hist->low + i);
        uint32_t n = ls_hist_small(x, 0x40);

        if (LS_LIKELY(n > 0)) {
            ls_hist_put_eight(at, x << 1);
            at += n;
            i += n;
        } else {
            at += put_word(at, (x & 0xff) != 0 ? (int64_t)(x & 0xff)
                                               : (int64_t)hist->high_counts[(*high)++]);
            i++;
        }
        at = flush_if_full(words, at);
    }
    return at;
}

static void put_plain_sparse(struct ls_buf *buf, const struct ls_hist_sparse *hist)
{
    struct words words;
    unsigned char *at;
    uint32_t next = 0, high = 0;

    begin_words(&words, buf);
    at = words.at;
    for (uint32_t r = 0; r < hist->run_count; r++) {
        const struct ls_hist_run run = hist->runs[r];

        at = put_run(&words, put_gap(at, run.first - next), hist, &run, &high);
        next = run.end;
    }
    words.at = at;
    words.next = next;
    end_words(&words);
}

static size_t stored_bytes(size_t len)
{
    return 2 + len + 5 * ((len + STORED_MAX - 1) / STORED_MAX) + 4;
}

/* A zlib stream (RFC 1950) of stored blocks (RFC 1951, 3.2.4): what deflating at level 0 would
 * give, without making a compressor, which costs more than all the rest of a line. */
static void put_stored(struct ls_buf *out, const struct ls_buf *plain)
{
    static const unsigned char zlib_head[] = { 0x78, 0x01 };

    ls_buf_add(out, zlib_head, sizeof(zlib_head));
    for (size_t done = 0; done < plain->len;) {
        size_t left = plain->len - done;
        size_t len = left < STORED_MAX ? left : STORED_MAX;
        unsigned char head[5] = { len == left, (unsigned char)len, (unsigned char)(len >> 8),
                                  (unsigned char)~len, (unsigned char)(~len >> 8) };

        ls_buf_add(out, head, sizeof(head));
        ls_buf_add(out, plain->data + done, len);
        done += len;
    }
    put_be(out, adler32(1, plain->data, (uInt)plain->len), 4);
}

/* Appends the payload of a line: base64 of cookie, length and the zlib stream of plain, which is
 * not empty: it has a head. */
static bool put_payload(struct ls_buf *line, const struct ls_buf *plain)
{
    struct ls_buf outer;
    bool ok;

    ls_buf_init(&outer, OUTER_BYTES + DEFLATED_MAX);
    put_be(&outer, COOKIE_DEFLATED, 4);
    put_be(&outer, stored_bytes(plain->len), 4);
    put_stored(&outer, plain);
    ls_base64_encode(line, (struct ls_bytes){ outer.data, outer.len });
    ok = outer.ok && line->ok;
    ls_buf_fini(&outer);
    return ok;
}

static bool tag_is_fine(const char *tag)
{
    static const char allowed[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-.";

    return tag[strspn(tag, allowed)] == '\0';
}

/* What is before the payload. */
static enum ls_err begin_line(struct ls_buf *line, const char *tag, int64_t start_ns,
                              int64_t length_ns, int64_t max_ns, struct ls_diag *diag)
{
    if (tag != NULL && !tag_is_fine(tag))
        return ls_fail(diag, LS_EINVAL, "\"%.40s\" is not a histogram log tag", tag);
    if (start_ns < 0 || length_ns < 0)
        return ls_fail(diag, LS_ERANGE, "an interval of a histogram log cannot be negative");
    if (tag != NULL && tag[0] != '\0') {
        ls_buf_adds(line, "Tag=");
        ls_buf_adds(line, tag);
        ls_buf_adds(line, ",");
    }
    put_decimal(line, start_ns, 9);
    ls_buf_adds(line, ",");
    put_decimal(line, length_ns, 9);
    ls_buf_adds(line, ",");
    put_decimal(line, max_ns, 6);
    ls_buf_adds(line, ",");
    return LS_OK;
}

enum ls_err ls_hist_log_write(FILE *file, const char *tag, int64_t start_ns, int64_t length_ns,
                              const struct ls_hist *hist, struct ls_diag *diag)
{
    struct ls_buf plain, line;
    enum ls_err rc;

    ls_buf_init(&plain, PLAIN_MAX);
    ls_buf_init(&line, LINE_MAX_BYTES);
    rc = begin_line(&line, tag, start_ns, length_ns, ls_hist_max(hist), diag);
    if (rc != LS_OK)
        goto out;
    put_plain(&plain, hist);
    if (!plain.ok || !put_payload(&line, &plain))
        rc = out_of_memory(diag);
    ls_buf_adds(&line, "\n");
    if (rc == LS_OK && !line.ok)
        rc = out_of_memory(diag);
    if (rc == LS_OK && !flush(&line, file))
        rc = write_failed(diag);
out:
    ls_buf_fini(&line);
    ls_buf_fini(&plain);
    return rc;
}

enum ls_err ls_hist_log_add_sparse(struct ls_buf *out, const char *tag, int64_t start_ns,
                                   int64_t length_ns, const struct ls_hist_sparse *hist,
                                   struct ls_diag *diag)
{
    struct ls_buf plain;
    enum ls_err rc =
        begin_line(out, tag, start_ns, length_ns, hist->count > 0 ? hist->max_ns : 0, diag);

    if (rc != LS_OK)
        return rc;
    ls_buf_init(&plain, PLAIN_MAX);
    put_plain_sparse(&plain, hist);
    if (!plain.ok || !put_payload(out, &plain))
        rc = out_of_memory(diag);
    ls_buf_adds(out, "\n");
    ls_buf_fini(&plain);
    return rc == LS_OK && !out->ok ? out_of_memory(diag) : rc;
}

/* ---- reading */

static enum ls_err refuse(struct ls_diag *diag, const char *why)
{
    return ls_fail(diag, LS_EPROTO, "not a histogram log of ours: %s", why);
}

/* The next line without its end; LS_EAGAIN at the end of the file. */
static enum ls_err take_line(FILE *file, struct ls_buf *line, struct ls_diag *diag)
{
    unsigned char byte;
    int c;

    ls_buf_reset(line);
    while ((c = getc(file)) != EOF && c != '\n') {
        byte = (unsigned char)c;
        if (line->len >= line->max)
            return refuse(diag, "a line is too long");
        ls_buf_add(line, &byte, 1);
        if (!line->ok)
            return out_of_memory(diag);
    }
    if (ferror(file))
        return ls_fail(diag, LS_EIO, "cannot read the histogram log: %s", strerror(errno));
    if (c == EOF && line->len == 0)
        return LS_EAGAIN;
    if (line->len > 0 && line->data[line->len - 1] == '\r')
        line->data[--line->len] = '\0';
    return LS_OK;
}

/* Digits, maybe with up to places decimals, then a comma; moves behind it. */
static bool take_decimal(struct ls_bytes *in, unsigned places, int64_t *out)
{
    int64_t x = 0;
    size_t i = 0;
    unsigned decimals = 0;
    bool point = false;

    for (; i < in->len && in->data[i] != ','; i++) {
        unsigned char c = in->data[i];

        if (c == '.' && !point && i > 0) {
            point = true;
            continue;
        }
        if (c < '0' || c > '9' || x > (INT64_MAX - 9) / 10 || (point && decimals == places))
            return false;
        x = x * 10 + (c - '0');
        decimals += point;
    }
    if (i == 0 || i == in->len)
        return false;
    for (; decimals < places; decimals++) {
        if (x > INT64_MAX / 10)
            return false;
        x *= 10;
    }
    in->data += i + 1;
    in->len -= i + 1;
    *out = x;
    return true;
}

static enum ls_err check_head(const unsigned char *plain, size_t len, struct ls_diag *diag)
{
    if (len < HEAD_BYTES || get_be(plain, 4) != COOKIE)
        return refuse(diag, "the payload is not in the V2 encoding");
    if (get_be(plain + 4, 4) != len - HEAD_BYTES)
        return refuse(diag, "the payload has another length than it says");
    if (get_be(plain + 8, 4) != 0 || get_be(plain + 12, 4) != DIGITS ||
        get_be(plain + 16, 8) != LOWEST || get_be(plain + 24, 8) != (uint64_t)LS_HIST_MAX_NS)
        return refuse(diag, "it has another range or precision");
    return LS_OK;
}

/* Fills the counters of hist, which is empty; *out_last is the highest bucket that is not. */
static enum ls_err take_counts(struct ls_bytes in, struct ls_hist *hist, uint32_t *out_first,
                               uint32_t *out_last, struct ls_diag *diag)
{
    uint32_t at = 0;

    while (in.len > 0) {
        int64_t word;

        if (!take_word(&in, &word))
            return refuse(diag, "a counter is cut off");
        if (word < 0) {
            if (word < -(int64_t)(LS_HIST_LEN - at))
                return refuse(diag, "it has more buckets than there are");
            at += (uint32_t)-word;
            continue;
        }
        if (at == LS_HIST_LEN)
            return refuse(diag, "it has more buckets than there are");
        if ((uint64_t)word > (uint64_t)INT64_MAX - hist->count)
            return refuse(diag, "its counters overflow");
        if (word > 0) {
            if (hist->count == 0)
                *out_first = at;
            *out_last = at;
        }
        hist->counts[at++] = (uint64_t)word;
        hist->count += (uint64_t)word;
    }
    return LS_OK;
}

static enum ls_err fill(struct ls_hist *hist, struct ls_bytes counters, int64_t max_ns,
                        struct ls_diag *diag)
{
    uint32_t first = 0;
    uint32_t last = 0;
    enum ls_err rc = take_counts(counters, hist, &first, &last, diag);

    if (rc == LS_OK && (hist->count == 0 ? max_ns != 0 : ls_hist_index(max_ns) != last))
        rc = refuse(diag, "the maximum is not in the last bucket");
    if (rc != LS_OK) {
        (void)memset(hist->counts, 0, sizeof(hist->counts));
        hist->count = 0;
    } else if (hist->count > 0) {
        hist->max_ns = max_ns;
        hist->min_ns = ls_hist_lowest_at(first);
        hist->clipped = max_ns > LS_HIST_MAX_NS ? hist->counts[last] : 0;
    }
    return rc;
}

static enum ls_err inflate_into(struct ls_hist *hist, struct ls_bytes deflated, int64_t max_ns,
                                struct ls_diag *diag)
{
    uLongf len = PLAIN_MAX;
    unsigned char *plain = malloc(len);
    enum ls_err rc = LS_ENOMEM;
    int z = Z_MEM_ERROR;

    if (plain != NULL)
        z = uncompress(plain, &len, deflated.data, deflated.len);
    if (z == Z_MEM_ERROR) {
        (void)out_of_memory(diag);
        goto out;
    }
    rc = z == Z_OK ? check_head(plain, len, diag) : refuse(diag, "the payload is damaged");
    if (rc == LS_OK)
        rc = fill(hist, (struct ls_bytes){ plain + HEAD_BYTES, len - HEAD_BYTES }, max_ns, diag);
out:
    free(plain);
    return rc;
}

static enum ls_err take_payload(struct ls_hist *hist, struct ls_bytes text, int64_t max_ns,
                                struct ls_diag *diag)
{
    struct ls_bytes deflated;
    struct ls_buf outer;
    enum ls_err rc;

    ls_buf_init(&outer, OUTER_BYTES + DEFLATED_MAX);
    rc = ls_base64_decode(&outer, text);
    if (rc != LS_OK) {
        rc = rc == LS_EINVAL ? refuse(diag, "the payload is not base64") : out_of_memory(diag);
        goto out;
    }
    if (outer.len < OUTER_BYTES || get_be(outer.data, 4) != COOKIE_DEFLATED) {
        rc = refuse(diag, "the payload is not in the compressed V2 encoding");
        goto out;
    }
    deflated = (struct ls_bytes){ outer.data + OUTER_BYTES, get_be(outer.data + 4, 4) };
    if (deflated.len > outer.len - OUTER_BYTES) /* less is fine: some writers leave a tail */
        rc = refuse(diag, "the payload is cut off");
    else
        rc = inflate_into(hist, deflated, max_ns, diag);
out:
    ls_buf_fini(&outer);
    return rc;
}

/* Moves behind "Tag=...,". Returns the tag, empty if there is none. */
static struct ls_bytes cut_tag(struct ls_bytes *in)
{
    static const char prefix[] = "Tag=";
    const size_t prefix_len = sizeof(prefix) - 1;
    const unsigned char *comma;
    struct ls_bytes tag = { .data = in->data };

    if (in->len < prefix_len || memcmp(in->data, prefix, prefix_len) != 0)
        return tag;
    tag.data += prefix_len;
    comma = memchr(tag.data, ',', in->len - prefix_len);
    tag.len = comma == NULL ? in->len - prefix_len : (size_t)(comma - tag.data);
    in->len -= prefix_len + tag.len + (comma != NULL);
    in->data = tag.data + tag.len + (comma != NULL);
    return tag;
}

static bool is_tag(struct ls_bytes tag, const char *wanted)
{
    return wanted == NULL || (strlen(wanted) == tag.len && memcmp(tag.data, wanted, tag.len) == 0);
}

/* The next line of tag wanted (NULL: any) into hist. Its own tag is cut to tag_bytes. */
static enum ls_err read_line(FILE *file, const char *wanted, struct ls_hist *hist, char *out_tag,
                             size_t tag_bytes, int64_t *out_start_ns, int64_t *out_length_ns,
                             struct ls_diag *diag)
{
    struct ls_bytes in, tag = { 0 };
    struct ls_buf line;
    int64_t start_ns;
    int64_t length_ns;
    int64_t max_ns;
    enum ls_err rc;

    ls_hist_reset(hist);
    ls_buf_init(&line, LINE_MAX_BYTES);
    do {
        rc = take_line(file, &line, diag);
        in = (struct ls_bytes){ line.data, line.len };
    } while (rc == LS_OK && (in.len == 0 || in.data[0] == '#' || in.data[0] == '"' ||
                             (tag = cut_tag(&in), !is_tag(tag, wanted))));
    if (rc != LS_OK)
        goto out;
    if (!take_decimal(&in, 9, &start_ns) || !take_decimal(&in, 9, &length_ns) ||
        !take_decimal(&in, 6, &max_ns))
        rc = refuse(diag, "a line does not begin with start, length and maximum");
    else
        rc = take_payload(hist, in, max_ns, diag);
    if (rc == LS_OK) {
        *out_start_ns = start_ns;
        *out_length_ns = length_ns;
        tag.len = tag.len < tag_bytes ? tag.len : tag_bytes - 1;
        (void)memcpy(out_tag, tag.data, tag.len);
        out_tag[tag.len] = '\0';
    }
out:
    ls_buf_fini(&line);
    return rc;
}

enum ls_err ls_hist_log_read(FILE *file, const char *tag, struct ls_hist *hist,
                             int64_t *out_start_ns, int64_t *out_length_ns, struct ls_diag *diag)
{
    char unused[1];

    return read_line(file, tag, hist, unused, sizeof(unused), out_start_ns, out_length_ns, diag);
}

enum ls_err ls_hist_log_next(FILE *file, struct ls_hist *hist, char *out_tag, size_t tag_bytes,
                             int64_t *out_start_ns, int64_t *out_length_ns, struct ls_diag *diag)
{
    return read_line(file, NULL, hist, out_tag, tag_bytes, out_start_ns, out_length_ns, diag);
}
