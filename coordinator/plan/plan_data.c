/* The tables and first values of requests: what a plan's requests take from beyond the plan. */
#include "coordinator/plan/plan_check_parts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/fs.h"
#include "common/pattern.h"

enum ls_err coord_plan_read_table(const Ls__Data *data, const char *base_dir,
                                  struct ls_csv **out_csv, struct ls_diag *diag)
{
    char path[4096];
    char *text;
    size_t len;
    enum ls_err rc;
    int n = snprintf(path, sizeof(path), "%s%s%s", data->file[0] == '/' ? "" : base_dir,
                     data->file[0] == '/' ? "" : "/", data->file);

    if (n < 0 || (size_t)n >= sizeof(path))
        return ls_fail(diag, LS_EINVAL, "is a path that is too long");
    rc = ls_fs_read(path, COORD_PLAN_FILES_MAX, &text, &len, diag);
    if (rc != LS_OK)
        return rc;
    rc = ls_csv_parse((struct ls_bytes){ (const unsigned char *)text, len }, out_csv, diag);
    free(text);
    return rc;
}

/* The text's first value in its place; LS_OK also for one that is not there. */
static enum ls_err first_value(struct ls_variables *variables, char **text, unsigned flags)
{
    struct ls_pattern pattern;
    char *first;
    enum ls_err rc;

    if (*text == NULL || strchr(*text, '{') == NULL)
        return LS_OK;
    rc = ls_pattern_parse(variables, *text, flags, &pattern, NULL);
    if (rc != LS_OK)
        return rc;
    if (!pattern.varies) {
        ls_pattern_fini(&pattern);
        return LS_OK;
    }
    first = ls_pattern_first(variables, &pattern);
    ls_pattern_fini(&pattern);
    if (first == NULL)
        return LS_ENOMEM;
    free(*text);
    *text = first;
    return LS_OK;
}

enum ls_err coord_plan_first_values(Ls__Request *request, const Ls__Data *data,
                                    const char *base_dir)
{
    struct ls_variables variables = { 0 };
    struct ls_csv *csv = NULL;
    enum ls_err rc = LS_OK;

    if (data != NULL)
        rc = coord_plan_read_table(data, base_dir, &csv, NULL);
    variables.csv = csv;
    if (rc == LS_OK)
        rc = first_value(&variables, &request->path, 0);
    if (rc == LS_OK)
        rc = first_value(&variables, &request->body, 0);
    for (size_t i = 0; i < request->n_headers && rc == LS_OK; i++)
        rc = first_value(&variables, &request->headers[i]->value, 0);
    if (rc == LS_OK && request->expect != NULL)
        rc = first_value(&variables, &request->expect->body, LS_PATTERN_KNOWN);
    ls_variables_fini(&variables);
    ls_csv_destroy(csv);
    return rc;
}
