/* common/csv.h - tables of comma-separated values (RFC 4180), read whole.
 *
 * The first row names the columns. Rows end in CRLF or LF; a field may be quoted, and then holds
 * commas, line ends and doubled quotes. A byte order mark is skipped, and so are empty lines.
 */
#ifndef LS_COMMON_CSV_H
#define LS_COMMON_CSV_H

#include <stdint.h>

#include "common/attr.h"
#include "common/err.h"

#define LS_CSV_COLUMNS_MAX 256u
#define LS_CSV_BYTES_MAX   (64u << 20)

struct ls_csv;

/* LS_EINVAL: no table; diag says in which line and why. LS_ERANGE: too large. LS_ENOMEM. text is
 * copied; on LS_OK the caller owns *out_csv, which has at least one row. */
enum ls_err ls_csv_parse(struct ls_bytes text, struct ls_csv **out_csv,
                         struct ls_diag *diag) LS_NODISCARD;
void ls_csv_destroy(struct ls_csv *csv); /* NULL is fine */

uint32_t ls_csv_rows(const struct ls_csv *csv); /* without the names */
uint32_t ls_csv_columns(const struct ls_csv *csv);
const char *ls_csv_name(const struct ls_csv *csv, uint32_t column);
/* The value, unquoted; owned by csv. row < rows, column < columns. */
struct ls_bytes ls_csv_at(const struct ls_csv *csv, uint32_t row, uint32_t column);

#endif
