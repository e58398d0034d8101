#include "coordinator/result/report.h"

#include <stdlib.h>
#include <string.h>

#include "common/msg_json.h"
#include "coordinator/result/report_parts.h"

static const char *const names[] = { "text", "json", "csv", "markdown", "html" };
static_assert(LS_ARRAY_LEN(names) == COORD_REPORT_FORMAT_COUNT, "a name for each format");

enum ls_err coord_report_parse_format(const char *name, enum coord_report_format *out,
                                      struct ls_diag *diag)
{
    for (size_t i = 0; i < LS_ARRAY_LEN(names); i++) {
        if (strcmp(names[i], name) == 0) {
            *out = (enum coord_report_format)i;
            return LS_OK;
        }
    }
    return ls_fail(diag, LS_EINVAL, "no report format \"%.40s\": text, json, csv, markdown or html",
                   name);
}

void coord_report_json(const Ls__Result *result, struct ls_buf *out)
{
    char *text = ls_msg_to_json(&result->base, 2);

    out->ok = out->ok && text != NULL;
    ls_buf_adds(out, text != NULL ? text : "");
    ls_buf_adds(out, "\n");
    free(text);
}

void coord_report_csv(const Ls__Result *result, struct ls_buf *out)
{
    struct coord_table table;

    coord_part_trials(result, true, &table);
    coord_table_write_csv(&table, out);
    coord_table_fini(&table);
}

enum ls_err coord_report(const Ls__Result *result, enum coord_report_format format,
                         const struct coord_report_options *options, struct ls_buf *out,
                         struct ls_diag *diag)
{
    static const struct coord_report_options plain = { .columns = 0 };

    switch (format) {
    case COORD_REPORT_JSON:
        coord_report_json(result, out);
        break;
    case COORD_REPORT_CSV:
        coord_report_csv(result, out);
        break;
    case COORD_REPORT_MARKDOWN:
        coord_report_markdown(result, out);
        break;
    case COORD_REPORT_HTML:
        coord_report_html(result, options != NULL ? options : &plain, out);
        break;
    default:
        coord_report_text(result, options != NULL ? options : &plain, out);
        break;
    }
    if (!out->ok)
        return ls_fail(diag, LS_ENOMEM, "no memory for the report, or it is too large");
    return LS_OK;
}
