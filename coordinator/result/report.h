/* coordinator/result/report.h - renderings of one Result.
 *
 * Names in a result are data: control characters never reach a terminal, formulas never a
 * spreadsheet, markup never a page. text and markdown round in one place (table.c, by
 * common/units.h); csv has the values of the same tables unrounded; json is exactly result.json;
 * html is one page that needs nothing but itself, below 2 MB however long the run was.
 */
#ifndef LS_COORDINATOR_RESULT_REPORT_H
#define LS_COORDINATOR_RESULT_REPORT_H

#include <stdbool.h>

#include "common/buf.h"
#include "common/err.h"
#include "proto/result.pb-c.h"

enum coord_report_format {
    COORD_REPORT_TEXT,
    COORD_REPORT_JSON,
    COORD_REPORT_CSV,
    COORD_REPORT_MARKDOWN,
    COORD_REPORT_HTML,
    COORD_REPORT_FORMAT_COUNT
};

struct coord_report_options {
    unsigned columns; /* text: 0 is 80; at least 60 is used */
    bool colour;      /* text: ANSI colours; the caller has looked at NO_COLOR and isatty */
    const char *dir;  /* text: named as the place of the files. html: read for plan, histograms and
                         hashes; what is missing there is missing in the page. NULL: no files */
};

/* LS_EINVAL: no such format; diag lists them. */
enum ls_err coord_report_parse_format(const char *name, enum coord_report_format *out,
                                      struct ls_diag *diag) LS_NODISCARD;

/* Appends to out (initialised by the caller, with its cap). LS_ENOMEM. */
enum ls_err coord_report(const Ls__Result *result, enum coord_report_format format,
                         const struct coord_report_options *options, struct ls_buf *out,
                         struct ls_diag *diag) LS_NODISCARD;

#endif
