#include "coordinator/result/table.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "coordinator/result/escape.h"

#define INDENT        "  "
#define GAP           2
#define SHOWN_MAX     (1u << 20) /* bytes of one escaped cell */
#define JSON_CELL_MAX 200u       /* bytes of a name on a page */

void coord_table_init(struct coord_table *table, const struct coord_column *columns, size_t count)
{
    *table = (struct coord_table){ .columns = calloc(count, sizeof(*columns)) };
    if (table->columns == NULL)
        return;
    (void)memcpy(table->columns, columns, count * sizeof(*columns));
    table->column_count = count;
    table->ok = true;
}

void coord_table_fini(struct coord_table *table)
{
    for (size_t i = 0; i < table->cell_count; i++)
        free(table->cells[i].text);
    free(table->cells);
    free(table->columns);
    *table = (struct coord_table){ 0 };
}

static struct coord_cell *next_cell(struct coord_table *table)
{
    struct coord_cell *cells;

    if (!table->ok)
        return NULL;
    cells = realloc(table->cells, (table->cell_count + 1) * sizeof(*cells));
    if (cells == NULL) {
        table->ok = false;
        return NULL;
    }
    table->cells = cells;
    cells[table->cell_count] = (struct coord_cell){ .empty = true };
    return &cells[table->cell_count++];
}

void coord_table_text(struct coord_table *table, const char *text, enum coord_style style)
{
    struct coord_cell *cell = next_cell(table);

    if (cell == NULL)
        return;
    cell->text = strdup(text);
    cell->style = style;
    cell->empty = false;
    table->ok = table->ok && cell->text != NULL;
}

void coord_table_number(struct coord_table *table, double value, enum coord_unit unit)
{
    struct coord_cell *cell = next_cell(table);

    if (cell == NULL)
        return;
    cell->value = value;
    cell->unit = unit;
    cell->empty = false;
}

void coord_table_none(struct coord_table *table)
{
    (void)next_cell(table); /* empty; a failure is in table->ok */
}

void coord_table_noisy(struct coord_table *table)
{
    if (table->ok && table->cell_count > 0)
        table->cells[table->cell_count - 1].noisy = true;
}

void coord_table_maybe(struct coord_table *table, bool there, double value, enum coord_unit unit)
{
    if (there)
        coord_table_number(table, value, unit);
    else
        coord_table_none(table);
}

const char *coord_style_begin(enum coord_style style, bool colour)
{
    if (!colour)
        return "";
    switch (style) {
    case COORD_STYLE_GOOD:
        return "\033[32m";
    case COORD_STYLE_WARN:
        return "\033[33m";
    case COORD_STYLE_BAD:
        return "\033[1;31m";
    default:
        return "";
    }
}

const char *coord_style_end(enum coord_style style, bool colour)
{
    return colour && style != COORD_STYLE_NONE ? "\033[0m" : "";
}

/* ---- text */

/* "~12.3 k" */
static void add_number(const struct coord_cell *cell, struct ls_buf *out)
{
    char number[48];

    ls_buf_addf(out, "%s%s", cell->noisy ? "~" : "",
                coord_unit_human(cell->value, cell->unit, number, sizeof(number)));
}

/* Escaped, and cut to most characters: "a-very-lon..". */
static void shown(const struct coord_cell *cell, size_t most, struct ls_buf *out)
{
    size_t width = 0, at = 0;

    ls_buf_reset(out);
    if (cell->empty)
        ls_buf_adds(out, "-");
    else if (cell->text == NULL)
        add_number(cell, out);
    else
        coord_escape_text(out, cell->text);
    if (!out->ok || out->data == NULL || coord_text_width((const char *)out->data) <= most)
        return;
    for (; at < out->len && width < most - 1; at++)
        width += (out->data[at] & 0xc0) != 0x80;
    at--; /* the first byte of a character that no longer fits */
    out->len = at;
    out->data[at] = '\0';
    ls_buf_adds(out, "..");
}

static size_t row_count(const struct coord_table *table)
{
    return table->column_count > 0 ? table->cell_count / table->column_count : 0;
}

static void pad(struct ls_buf *out, size_t n)
{
    for (size_t i = 0; i < n; i++)
        ls_buf_adds(out, " ");
}

/* last: nothing follows in this line, so no blanks do either. */
static void put(struct ls_buf *out, const char *text, size_t width, bool left, bool last,
                const char *begin, const char *end)
{
    size_t shown_width = coord_text_width(text);
    size_t blanks = width > shown_width ? width - shown_width : 0;

    if (!left)
        pad(out, blanks);
    ls_buf_adds(out, begin);
    ls_buf_adds(out, text);
    ls_buf_adds(out, end);
    if (left && !last)
        pad(out, blanks);
}

struct layout {
    const struct coord_table *table;
    const size_t *widths;
    size_t from, to; /* columns of this block, beside the first */
    size_t most;     /* characters of a cell */
    bool colour;
    bool ok;
    struct ls_buf scratch;
};

static const char *cell_text(struct layout *layout, const struct coord_cell *cell)
{
    shown(cell, layout->most, &layout->scratch);
    layout->ok = layout->ok && layout->scratch.ok;
    return layout->scratch.data != NULL ? (const char *)layout->scratch.data : "";
}

/* Titles may be a plan's. */
static const char *title_text(struct layout *layout, const struct coord_column *column)
{
    ls_buf_reset(&layout->scratch);
    coord_escape_text(&layout->scratch, column->title);
    layout->ok = layout->ok && layout->scratch.ok;
    return layout->scratch.data != NULL ? (const char *)layout->scratch.data : "";
}

static size_t column_width(struct layout *layout, size_t column)
{
    const struct coord_table *table = layout->table;
    size_t width = coord_text_width(title_text(layout, &table->columns[column]));

    for (size_t row = 0; row < row_count(table); row++) {
        size_t one =
            coord_text_width(cell_text(layout, &table->cells[row * table->column_count + column]));

        width = one > width ? one : width;
    }
    return width;
}

/* row: SIZE_MAX is the head. */
static void write_row(struct layout *layout, size_t row, struct ls_buf *out)
{
    const struct coord_table *table = layout->table;

    for (size_t i = 0; i < layout->to; i++) {
        const struct coord_column *column = &table->columns[i];
        enum coord_style style = COORD_STYLE_NONE;
        const char *text;
        bool last = i + 1 == layout->to;

        if (i > 0 && i < layout->from)
            continue;
        if (row == SIZE_MAX) {
            text = title_text(layout, column);
        } else {
            const struct coord_cell *cell = &table->cells[row * table->column_count + i];

            text = cell_text(layout, cell);
            style = cell->style;
        }
        ls_buf_adds(out, i == 0 ? INDENT : "");
        pad(out, i == 0 ? 0 : GAP);
        put(out, text, layout->widths[i], column->left, last,
            coord_style_begin(style, layout->colour), coord_style_end(style, layout->colour));
    }
    ls_buf_adds(out, "\n");
}

void coord_table_write_text(const struct coord_table *table, unsigned width, bool colour,
                            struct ls_buf *out)
{
    struct layout layout = {
        .table = table, .most = width / 3 > 12 ? width / 3 : 12, .colour = colour, .ok = true
    };
    size_t *widths = calloc(table->column_count + 1, sizeof(*widths));

    if (!table->ok || widths == NULL) {
        out->ok = false;
        free(widths);
        return;
    }
    ls_buf_init(&layout.scratch, SHOWN_MAX);
    layout.widths = widths;
    for (size_t i = 0; i < table->column_count; i++)
        widths[i] = column_width(&layout, i);
    layout.from = table->column_count > 1 ? 1 : 0;
    do {
        size_t used = strlen(INDENT) + widths[0];

        ls_buf_adds(out, layout.from > 1 ? "\n" : "");
        layout.to = layout.from;
        while (layout.to < table->column_count &&
               (layout.to == layout.from || used + GAP + widths[layout.to] <= width))
            used += GAP + widths[layout.to++];
        write_row(&layout, SIZE_MAX, out);
        for (size_t row = 0; row < row_count(table); row++)
            write_row(&layout, row, out);
        layout.from = layout.to;
    } while (layout.from < table->column_count);
    out->ok = out->ok && layout.ok;
    ls_buf_fini(&layout.scratch);
    free(widths);
}

/* ---- markdown and csv */

void coord_table_write_markdown(const struct coord_table *table, struct ls_buf *out)
{
    out->ok = out->ok && table->ok;
    if (!out->ok)
        return;
    for (size_t i = 0; i < table->column_count; i++) {
        ls_buf_adds(out, "| ");
        coord_escape_markdown(out, table->columns[i].title);
        ls_buf_adds(out, " ");
    }
    ls_buf_adds(out, "|\n");
    for (size_t i = 0; i < table->column_count; i++)
        ls_buf_adds(out, table->columns[i].left ? "| --- " : "| ---: ");
    ls_buf_adds(out, "|\n");
    for (size_t i = 0; i < row_count(table) * table->column_count; i++) {
        const struct coord_cell *cell = &table->cells[i];

        ls_buf_adds(out, "| ");
        if (cell->empty)
            ls_buf_adds(out, "-");
        else if (cell->text != NULL)
            coord_escape_markdown(out, cell->text);
        else
            add_number(cell, out);
        ls_buf_adds(out, (i + 1) % table->column_count == 0 ? " |\n" : " ");
    }
}

void coord_table_write_csv(const struct coord_table *table, struct ls_buf *out)
{
    char number[48];

    out->ok = out->ok && table->ok;
    if (!out->ok)
        return;
    for (size_t i = 0; i < table->column_count; i++)
        ls_buf_addf(out, "%s%s", i == 0 ? "" : ",", table->columns[i].name);
    ls_buf_adds(out, "\n");
    for (size_t i = 0; i < row_count(table) * table->column_count; i++) {
        const struct coord_cell *cell = &table->cells[i];

        if (cell->text != NULL)
            coord_escape_csv(out, cell->text);
        else if (!cell->empty)
            ls_buf_adds(out, coord_unit_exact(cell->value, number, sizeof(number)));
        ls_buf_adds(out, (i + 1) % table->column_count == 0 ? "\n" : ",");
    }
}

/* ---- json */

const char *coord_style_name(enum coord_style style)
{
    static const char *const names[] = { "", "good", "warn", "bad" };

    return names[style];
}

static void write_json_cell(const struct coord_cell *cell, struct ls_buf *out)
{
    char number[48];

    if (cell->empty) {
        ls_buf_adds(out, "null");
    } else if (cell->text == NULL) {
        ls_buf_adds(out, "[\"");
        add_number(cell, out);
        ls_buf_adds(out, "\",");
        ls_buf_addf(out, "%s]", coord_unit_exact(cell->value, number, sizeof(number)));
    } else if (cell->style == COORD_STYLE_NONE) {
        coord_escape_json(out, cell->text, JSON_CELL_MAX);
    } else {
        ls_buf_adds(out, "[");
        coord_escape_json(out, cell->text, JSON_CELL_MAX);
        ls_buf_addf(out, ",\"%s\"]", coord_style_name(cell->style));
    }
}

void coord_table_write_json(const struct coord_table *table, struct ls_buf *out)
{
    size_t columns = table->column_count;

    out->ok = out->ok && table->ok;
    if (!out->ok)
        return;
    ls_buf_adds(out, "{\"columns\":[");
    for (size_t i = 0; i < columns; i++) {
        ls_buf_adds(out, i == 0 ? "[" : ",[");
        coord_escape_json(out, table->columns[i].title, JSON_CELL_MAX);
        ls_buf_adds(out, table->columns[i].left ? ",true]" : ",false]");
    }
    ls_buf_adds(out, "],\"rows\":[");
    for (size_t i = 0; i < row_count(table) * columns; i++) {
        if (i % columns == 0)
            ls_buf_adds(out, i == 0 ? "[" : "],[");
        else
            ls_buf_adds(out, ",");
        write_json_cell(&table->cells[i], out);
    }
    ls_buf_adds(out, row_count(table) > 0 ? "]]}" : "]}");
}
