/* coordinator/result/table.h - rows and columns, before anybody decides how they look.
 *
 * Filled cell by cell, row by row. text and markdown show rounded values (unit.h), csv exact ones.
 * A failed allocation is remembered and shows in the buffer that is written to.
 */
#ifndef LS_COORDINATOR_RESULT_TABLE_H
#define LS_COORDINATOR_RESULT_TABLE_H

#include <stdbool.h>

#include "common/buf.h"
#include "coordinator/result/unit.h"

struct coord_column {
    const char *name;  /* csv: "throughput_per_s" */
    const char *title; /* text, markdown: "requests/s" */
    bool left;         /* names; numbers stand to the right */
};

enum coord_style { COORD_STYLE_NONE, COORD_STYLE_GOOD, COORD_STYLE_WARN, COORD_STYLE_BAD };

struct coord_cell {
    char *text; /* owned; NULL: a number, or nothing */
    double value;
    enum coord_unit unit;
    bool empty; /* not measured */
    bool noisy; /* shown with ~: its runs scatter by more than a reader should believe */
    enum coord_style style;
};

struct coord_table {
    struct coord_column *columns; /* owned; the names in it are not */
    size_t column_count;
    struct coord_cell *cells; /* owned; row after row */
    size_t cell_count;
    bool ok;
};

/* Copies columns, which has count >= 1 entries. */
void coord_table_init(struct coord_table *table, const struct coord_column *columns, size_t count);
void coord_table_fini(struct coord_table *table);

/* The next cell. */
void coord_table_text(struct coord_table *table, const char *text, enum coord_style style);
void coord_table_number(struct coord_table *table, double value, enum coord_unit unit);
void coord_table_none(struct coord_table *table);
/* Marks the cell that was added last. */
void coord_table_noisy(struct coord_table *table);
/* A number where there is one. */
void coord_table_maybe(struct coord_table *table, bool there, double value, enum coord_unit unit);

/* At most width characters a line: what does not fit goes below, with the first column again. */
void coord_table_write_text(const struct coord_table *table, unsigned width, bool colour,
                            struct ls_buf *out);
void coord_table_write_markdown(const struct coord_table *table, struct ls_buf *out);
/* {"columns": [[title, left]], "rows": [[cell]]}; a cell is null, a text, [text, style], or of a
 * number [rounded, exact]. For a page's <script> (escape.h). */
void coord_table_write_json(const struct coord_table *table, struct ls_buf *out);
void coord_table_write_csv(const struct coord_table *table, struct ls_buf *out);

/* "good", "warn", "bad"; "" of none. */
const char *coord_style_name(enum coord_style style);
/* ANSI for a style, "" without colour. */
const char *coord_style_begin(enum coord_style style, bool colour);
const char *coord_style_end(enum coord_style style, bool colour);

#endif
