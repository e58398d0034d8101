#include "common/csv.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

struct cell {
    uint32_t at; /* in text */
    uint32_t len;
};

struct ls_csv {
    unsigned char *text; /* owned: all values, unquoted, each followed by a NUL */
    size_t text_len;
    struct cell *cells; /* owned; names first, then row by row */
    size_t count;
    size_t cap;
    uint32_t columns;
    uint32_t rows;
};

/* Where the reader is. */
struct reader {
    const unsigned char *at;
    const unsigned char *end;
    uint32_t line;
};

static enum ls_err add_cell(struct ls_csv *csv, size_t from, struct ls_diag *diag)
{
    if (csv->count == csv->cap) {
        size_t cap = csv->cap > 0 ? csv->cap * 2 : 64;
        struct cell *cells = realloc(csv->cells, cap * sizeof(*cells));

        if (cells == NULL)
            return ls_fail(diag, LS_ENOMEM, "no memory for a table");
        csv->cells = cells;
        csv->cap = cap;
    }
    csv->cells[csv->count++] =
        (struct cell){ .at = (uint32_t)from, .len = (uint32_t)(csv->text_len - from) };
    csv->text[csv->text_len++] = '\0';
    return LS_OK;
}

static bool at_line_end(const struct reader *r)
{
    return r->at == r->end || *r->at == '\n' ||
           (*r->at == '\r' && (r->at + 1 == r->end || r->at[1] == '\n'));
}

static void skip_line_end(struct reader *r)
{
    if (r->at < r->end && *r->at == '\r')
        r->at++;
    if (r->at < r->end && *r->at == '\n')
        r->at++;
    r->line++;
}

static enum ls_err quoted(struct ls_csv *csv, struct reader *r, struct ls_diag *diag)
{
    uint32_t began = r->line;

    r->at++;
    for (;;) {
        if (r->at == r->end)
            return ls_fail(diag, LS_EINVAL, "line %u: a quoted field does not end", began);
        if (*r->at == '"') {
            r->at++;
            if (r->at == r->end || *r->at != '"')
                break;
        }
        r->line += *r->at == '\n';
        csv->text[csv->text_len++] = *r->at++;
    }
    if (!at_line_end(r) && *r->at != ',')
        return ls_fail(diag, LS_EINVAL, "line %u: text after a field's closing quote", r->line);
    return LS_OK;
}

static enum ls_err field(struct ls_csv *csv, struct reader *r, struct ls_diag *diag)
{
    size_t from = csv->text_len;

    if (r->at < r->end && *r->at == '"') {
        enum ls_err rc = quoted(csv, r, diag);

        if (rc != LS_OK)
            return rc;
    } else {
        while (!at_line_end(r) && *r->at != ',') {
            if (*r->at == '"')
                return ls_fail(diag, LS_EINVAL,
                               "line %u: a quote within a field that does not begin with one: "
                               "quote the field, and double the quote",
                               r->line);
            csv->text[csv->text_len++] = *r->at++;
        }
    }
    return add_cell(csv, from, diag);
}

/* One row of at least one field; out_fields is set on LS_OK. */
static enum ls_err row(struct ls_csv *csv, struct reader *r, uint32_t *out_fields,
                       struct ls_diag *diag)
{
    uint32_t fields = 0;

    for (;;) {
        enum ls_err rc = field(csv, r, diag);

        if (rc != LS_OK)
            return rc;
        fields++;
        if (at_line_end(r))
            break;
        r->at++; /* the comma */
        if (fields == LS_CSV_COLUMNS_MAX)
            return ls_fail(diag, LS_ERANGE, "line %u: more than %u columns", r->line,
                           LS_CSV_COLUMNS_MAX);
    }
    skip_line_end(r);
    *out_fields = fields;
    return LS_OK;
}

static enum ls_err check_names(const struct ls_csv *csv, struct ls_diag *diag)
{
    for (uint32_t i = 0; i < csv->columns; i++) {
        const char *name = ls_csv_name(csv, i);

        if (csv->cells[i].len == 0)
            return ls_fail(diag, LS_EINVAL, "line 1: column %u has no name", i + 1);
        if (strlen(name) != csv->cells[i].len || strchr(name, '}') != NULL)
            return ls_fail(diag, LS_EINVAL, "line 1: the name of column %u holds a NUL or a brace",
                           i + 1);
        for (uint32_t k = 0; k < i; k++) {
            if (strcmp(name, ls_csv_name(csv, k)) == 0)
                return ls_fail(diag, LS_EINVAL, "line 1: two columns are named '%.60s'", name);
        }
    }
    return LS_OK;
}

static enum ls_err rows(struct ls_csv *csv, struct reader *r, struct ls_diag *diag)
{
    while (r->at < r->end) {
        uint32_t line = r->line;
        uint32_t fields = 0;
        enum ls_err rc;

        if (at_line_end(r)) {
            skip_line_end(r);
            continue;
        }
        rc = row(csv, r, &fields, diag);
        if (rc != LS_OK)
            return rc;
        if (csv->columns == 0) {
            csv->columns = fields;
            rc = check_names(csv, diag);
            if (rc != LS_OK)
                return rc;
            continue;
        }
        if (fields != csv->columns)
            return ls_fail(diag, LS_EINVAL, "line %u: %u fields where line 1 names %u columns",
                           line, fields, csv->columns);
        csv->rows++;
    }
    if (csv->rows == 0)
        return ls_fail(diag, LS_EINVAL,
                       "has no rows: the first line names the columns, the others hold values");
    return LS_OK;
}

enum ls_err ls_csv_parse(struct ls_bytes text, struct ls_csv **out_csv, struct ls_diag *diag)
{
    static const unsigned char mark[] = { 0xef, 0xbb, 0xbf };
    struct reader r = { .at = text.data, .end = text.data + text.len, .line = 1 };
    struct ls_csv *csv;
    enum ls_err rc;

    if (text.len > LS_CSV_BYTES_MAX)
        return ls_fail(diag, LS_ERANGE, "%zu bytes: at most %u", text.len, LS_CSV_BYTES_MAX);
    csv = calloc(1, sizeof(*csv));
    /* Values never outgrow the text, and each NUL stands for a comma, a line end or the end. */
    if (csv != NULL)
        csv->text = malloc(text.len + 1);
    if (csv == NULL || csv->text == NULL) {
        ls_csv_destroy(csv);
        return ls_fail(diag, LS_ENOMEM, "no memory for a table of %zu bytes", text.len);
    }
    if (text.len >= sizeof(mark) && memcmp(text.data, mark, sizeof(mark)) == 0)
        r.at += sizeof(mark);
    rc = rows(csv, &r, diag);
    if (rc != LS_OK) {
        ls_csv_destroy(csv);
        return rc;
    }
    *out_csv = csv;
    return LS_OK;
}

void ls_csv_destroy(struct ls_csv *csv)
{
    if (csv == NULL)
        return;
    free(csv->text);
    free(csv->cells);
    free(csv);
}

uint32_t ls_csv_rows(const struct ls_csv *csv)
{
    return csv->rows;
}

uint32_t ls_csv_columns(const struct ls_csv *csv)
{
    return csv->columns;
}

const char *ls_csv_name(const struct ls_csv *csv, uint32_t column)
{
    return (const char *)csv->text + csv->cells[column].at;
}

struct ls_bytes ls_csv_at(const struct ls_csv *csv, uint32_t row, uint32_t column)
{
    const struct cell *cell = &csv->cells[((size_t)row + 1) * csv->columns + column];

    return (struct ls_bytes){ csv->text + cell->at, cell->len };
}
