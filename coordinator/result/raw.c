#include "coordinator/result/raw.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/fs.h"

#define COLUMNS_MAX 64u
#define DIGITS_MAX  20u

/* A whole number of 4 or 8 bytes in a row's struct. */
struct column {
    char name[48];
    size_t offset;
    size_t bytes;
    bool is_signed;
};

struct shape {
    struct column columns[COLUMNS_MAX];
    size_t n;
};

static struct shape interval_shape, sample_shape;
static pthread_once_t shapes_made = PTHREAD_ONCE_INIT;

static void add(struct shape *shape, const char *prefix, const char *name, size_t offset,
                size_t bytes, bool is_signed)
{
    struct column *column = &shape->columns[shape->n++];

    (void)snprintf(column->name, sizeof(column->name), "%s%s", prefix, name);
    column->offset = offset;
    column->bytes = bytes;
    column->is_signed = is_signed;
}

/* Every whole number of a message in the struct at offset. */
static void add_message(struct shape *shape, const char *prefix,
                        const ProtobufCMessageDescriptor *descriptor, size_t offset)
{
    for (unsigned i = 0; i < descriptor->n_fields; i++) {
        const ProtobufCFieldDescriptor *field = &descriptor->fields[i];

        if (field->label == PROTOBUF_C_LABEL_REPEATED)
            continue;
        if (field->type == PROTOBUF_C_TYPE_UINT32)
            add(shape, prefix, field->name, offset + field->offset, sizeof(uint32_t), false);
        else if (field->type == PROTOBUF_C_TYPE_UINT64)
            add(shape, prefix, field->name, offset + field->offset, sizeof(uint64_t), false);
        else if (field->type == PROTOBUF_C_TYPE_INT64)
            add(shape, prefix, field->name, offset + field->offset, sizeof(int64_t), true);
    }
}

#define ADD(shape, row, field, is_signed) \
    add(shape, "", #field, offsetof(struct row, field), sizeof(((struct row *)0)->field), is_signed)

static void make_shapes(void)
{
    struct shape *s = &interval_shape;

    ADD(s, coord_raw_interval, client, false);
    ADD(s, coord_raw_interval, index, false);
    ADD(s, coord_raw_interval, merged, false);
    ADD(s, coord_raw_interval, late, false);
    ADD(s, coord_raw_interval, slot_ns, true);
    ADD(s, coord_raw_interval, at_ns, true);
    ADD(s, coord_raw_interval, start_ns, true);
    ADD(s, coord_raw_interval, length_ns, true);
    ADD(s, coord_raw_interval, ok_in_window, false);
    ADD(s, coord_raw_interval, bytes_in, false);
    ADD(s, coord_raw_interval, bytes_out, false);
    ADD(s, coord_raw_interval, in_flight_ns, true);
    add_message(s, "warmup_", &ls__requests__descriptor,
                offsetof(struct coord_raw_interval, warmup));
    add_message(s, "", &ls__requests__descriptor, offsetof(struct coord_raw_interval, measure));
    s = &sample_shape;
    add_message(s, "", &ls__sample__descriptor, offsetof(struct coord_raw_sample, usage));
    ADD(s, coord_raw_sample, edge, false);
    ADD(s, coord_raw_sample, rss_peak_bytes, false);
    ADD(s, coord_raw_sample, listen_overflows, false);
    ADD(s, coord_raw_sample, tcp_retransmits, false);
    ADD(s, coord_raw_sample, cpus_busy_ns, true);
    ADD(s, coord_raw_sample, cpus_steal_ns, true);
}

static const struct shape *shape_of(struct shape *shape)
{
    (void)pthread_once(&shapes_made, make_shapes);
    return shape;
}

void coord_raw_interval_init(struct coord_raw_interval *row)
{
    *row = (struct coord_raw_interval){ 0 };
    ls__requests__init(&row->warmup);
    ls__requests__init(&row->measure);
}

void coord_raw_sample_init(struct coord_raw_sample *row)
{
    *row = (struct coord_raw_sample){ 0 };
    ls__sample__init(&row->usage);
}

/* ---- writing */

static void put_head(struct ls_buf *out, const struct shape *shape)
{
    for (size_t i = 0; i < shape->n; i++)
        ls_buf_addf(out, "%s%s", i > 0 ? "," : "", shape->columns[i].name);
    ls_buf_adds(out, "\n");
}

static uint64_t value_of(const struct column *column, const void *row)
{
    const char *at = (const char *)row + column->offset;
    uint32_t narrow;
    uint64_t wide;

    if (column->bytes == sizeof(wide)) {
        (void)memcpy(&wide, at, sizeof(wide));
        return wide;
    }
    (void)memcpy(&narrow, at, sizeof(narrow));
    return narrow;
}

static char *put_value(char *at, uint64_t value)
{
    char text[DIGITS_MAX];
    unsigned n = 0;

    do
        text[DIGITS_MAX - ++n] = (char)('0' + value % 10);
    while ((value /= 10) > 0);
    (void)memcpy(at, text + DIGITS_MAX - n, n);
    return at + n;
}

/* Appended at once: there is a row for each report of thousands of agents. */
static void put_row(struct ls_buf *out, const struct shape *shape, const void *row)
{
    char line[COLUMNS_MAX * (DIGITS_MAX + 2)]; /* each with a sign, and what follows it */
    char *at = line;

    for (size_t i = 0; i < shape->n; i++) {
        uint64_t value = value_of(&shape->columns[i], row);

        if (shape->columns[i].is_signed && (int64_t)value < 0) {
            *at++ = '-';
            value = -value;
        }
        at = put_value(at, value);
        *at++ = i + 1 < shape->n ? ',' : '\n';
    }
    ls_buf_add(out, line, (size_t)(at - line));
}

void coord_raw_put_interval_head(struct ls_buf *out)
{
    put_head(out, shape_of(&interval_shape));
}

void coord_raw_put_interval(struct ls_buf *out, const struct coord_raw_interval *row)
{
    put_row(out, shape_of(&interval_shape), row);
}

void coord_raw_put_sample_head(struct ls_buf *out)
{
    put_head(out, shape_of(&sample_shape));
}

void coord_raw_put_sample(struct ls_buf *out, const struct coord_raw_sample *row)
{
    put_row(out, shape_of(&sample_shape), row);
}

/* ---- reading */

struct reader {
    const char *path;
    FILE *file;
    const struct shape *shape;
    const struct column *order[COLUMNS_MAX]; /* of the file's columns; NULL: unknown, passed over */
    size_t n;
    unsigned long line;
    char text[COORD_RAW_LINE_MAX];
};

static enum ls_err refuse(const struct reader *r, struct ls_diag *diag, const char *why)
{
    return ls_fail(diag, LS_EPROTO, "%s, line %lu: %s", r->path, r->line, why);
}

/* LS_EAGAIN: the end. */
static enum ls_err next_line(struct reader *r, struct ls_diag *diag)
{
    size_t len;

    r->line++;
    if (fgets(r->text, sizeof(r->text), r->file) == NULL)
        return ferror(r->file)
                   ? ls_fail(diag, LS_EIO, "cannot read %s: %s", r->path, strerror(errno))
                   : LS_EAGAIN;
    len = strlen(r->text);
    if (len == 0 || r->text[len - 1] != '\n')
        return refuse(r, diag, "it is cut off, too long, or no text");
    r->text[len - 1] = '\0';
    return LS_OK;
}

static const struct column *find(const struct shape *shape, const char *name, size_t len)
{
    for (size_t i = 0; i < shape->n; i++) {
        if (strlen(shape->columns[i].name) == len && memcmp(shape->columns[i].name, name, len) == 0)
            return &shape->columns[i];
    }
    return NULL;
}

/* What this version computes figures from has to be there; later versions may have more. */
static enum ls_err read_head(struct reader *r, struct ls_diag *diag)
{
    enum ls_err rc = next_line(r, diag);
    size_t known = 0;

    if (rc != LS_OK)
        return rc == LS_EAGAIN ? refuse(r, diag, "the file is empty") : rc;
    for (const char *at = r->text; at != NULL;) {
        const char *comma = strchr(at, ',');
        size_t len = comma != NULL ? (size_t)(comma - at) : strlen(at);

        if (r->n == COLUMNS_MAX)
            return refuse(r, diag, "it has too many columns");
        r->order[r->n] = find(r->shape, at, len);
        for (size_t i = 0; i < r->n; i++) {
            if (r->order[r->n] != NULL && r->order[i] == r->order[r->n])
                return refuse(r, diag, "a column is there twice");
        }
        known += r->order[r->n] != NULL;
        r->n++;
        at = comma != NULL ? comma + 1 : NULL;
    }
    return known == r->shape->n ? LS_OK : refuse(r, diag, "a column is missing");
}

static bool put_number(const struct column *column, void *row, const char *text, char **out_end)
{
    char *at = (char *)row + column->offset;
    bool minus = text[0] == '-';
    uint64_t wide;
    uint32_t narrow;

    if (text[minus] < '0' || text[minus] > '9' || (minus && !column->is_signed))
        return false;
    errno = 0;
    wide = column->is_signed ? (uint64_t)strtoll(text, out_end, 10) : strtoull(text, out_end, 10);
    if (errno != 0 || (column->bytes == sizeof(narrow) && wide > UINT32_MAX))
        return false;
    narrow = (uint32_t)wide;
    if (column->bytes == sizeof(narrow))
        (void)memcpy(at, &narrow, sizeof(narrow));
    else
        (void)memcpy(at, &wide, sizeof(wide));
    return true;
}

static enum ls_err read_row(struct reader *r, void *row, struct ls_diag *diag)
{
    char *at = r->text;

    for (size_t i = 0; i < r->n; i++) {
        char *end = at + strcspn(at, ",");

        if (r->order[i] != NULL && !put_number(r->order[i], row, at, &end))
            return refuse(r, diag, "a value is not a number of its column");
        if (*end != (i + 1 < r->n ? ',' : '\0'))
            return refuse(r, diag, "it has not a value for each column");
        at = end + 1;
    }
    return LS_OK;
}

static enum ls_err open_table(struct reader *r, struct ls_diag *diag)
{
    int fd;
    enum ls_err rc = ls_fs_open(r->path, &fd, diag);

    if (rc != LS_OK)
        return rc;
    r->file = fdopen(fd, "r");
    if (r->file == NULL) {
        (void)close(fd);
        return ls_fail(diag, LS_ENOMEM, "no memory for %s", r->path);
    }
    return read_head(r, diag);
}

static enum ls_err out_of_memory(const struct reader *r, struct ls_diag *diag)
{
    return ls_fail(diag, LS_ENOMEM, "no memory for %s", r->path);
}

enum ls_err coord_raw_read_intervals(const char *path,
                                     bool (*take)(void *ctx, const struct coord_raw_interval *row),
                                     void *ctx, struct ls_diag *diag)
{
    struct reader r = { .path = path, .shape = shape_of(&interval_shape) };
    struct coord_raw_interval row;
    enum ls_err rc = open_table(&r, diag);

    coord_raw_interval_init(&row);
    while (rc == LS_OK) {
        rc = next_line(&r, diag);
        if (rc == LS_OK)
            rc = read_row(&r, &row, diag);
        if (rc == LS_OK && !take(ctx, &row))
            rc = out_of_memory(&r, diag);
    }
    if (r.file != NULL)
        (void)fclose(r.file); /* read only */
    return rc == LS_EAGAIN ? LS_OK : rc;
}

enum ls_err coord_raw_read_samples(const char *path,
                                   bool (*take)(void *ctx, const struct coord_raw_sample *row),
                                   void *ctx, struct ls_diag *diag)
{
    struct reader r = { .path = path, .shape = shape_of(&sample_shape) };
    struct coord_raw_sample row;
    enum ls_err rc = open_table(&r, diag);

    coord_raw_sample_init(&row);
    while (rc == LS_OK) {
        rc = next_line(&r, diag);
        if (rc == LS_OK)
            rc = read_row(&r, &row, diag);
        if (rc == LS_OK && !take(ctx, &row))
            rc = out_of_memory(&r, diag);
    }
    if (r.file != NULL)
        (void)fclose(r.file); /* read only */
    return rc == LS_EAGAIN ? LS_OK : rc;
}
