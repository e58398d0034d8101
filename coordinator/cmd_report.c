/* lockstep report DIR: renders a result again, from its folder or from a bundle. */
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/buf.h"
#include "common/options.h"
#include "coordinator/bundle/place.h"
#include "coordinator/cli.h"
#include "coordinator/result/report.h"
#include "coordinator/result/store.h"

struct arguments {
    const char *format;
    bool json;
    bool help;
};

static const struct ls_option rows[] = {
    { "format", 'f', LS_OPTION_TEXT, offsetof(struct arguments, format), "FORMAT", "text", 1, 0,
      "text, json, csv, markdown or html" },
    { "json", 0, LS_OPTION_FLAG, offsetof(struct arguments, json), NULL, NULL, 1, 0,
      "the same as --format json" },
    { "help", 'h', LS_OPTION_FLAG, offsetof(struct arguments, help), NULL, NULL, 1, 0,
      "this text" },
};

/* path: what it was asked of, dir: where its files are. */
static int render(const Ls__Result *result, enum coord_report_format format, const char *path,
                  const char *dir)
{
    struct ls_diag diag = { 0 };
    struct ls_buf text;
    int status = COORD_EXIT_OK;

    if (format == COORD_REPORT_TEXT || format == COORD_REPORT_JSON)
        return coord_cli_print(result, format == COORD_REPORT_JSON, path, COORD_EXIT_OK);
    ls_buf_init(&text, COORD_RESULT_MAX_BYTES);
    if (coord_report(result, format, &(struct coord_report_options){ .dir = dir }, &text, &diag) !=
        LS_OK)
        status = coord_cli_fail(false, COORD_EXIT_FAULT, diag.text);
    else if (fwrite(text.data, 1, text.len, stdout) != text.len || fflush(stdout) != 0)
        status = coord_cli_fail(false, COORD_EXIT_FAULT, "stdout did not take the report");
    ls_buf_fini(&text);
    return status;
}

/* path: a folder, or a bundle that is unpacked for as long as this takes. */
static int report(const char *path, enum coord_report_format format, bool json)
{
    struct ls_diag diag = { 0 };
    struct coord_place place;
    Ls__Result *result = NULL;
    enum ls_err rc = coord_place_open(path, &place, &diag);
    int status;

    if (rc == LS_OK)
        rc = coord_store_load(place.dir, &result, &diag);
    status = rc == LS_OK ? render(result, format, path, place.dir)
                         : coord_cli_fail(json, COORD_EXIT_USAGE, diag.text);
    if (result != NULL)
        ls__result__free_unpacked(result, NULL);
    coord_place_close(&place);
    return status;
}

int coord_cmd_report(int argc, char **argv)
{
    struct arguments args = { 0 };
    struct ls_diag diag = { 0 };
    const char *dir = NULL;
    size_t plain = 0;
    enum coord_report_format format = COORD_REPORT_TEXT;
    bool json = coord_cli_wants_json(argc, argv);

    if (ls_options_parse(rows, LS_ARRAY_LEN(rows), argc, argv, &args, &dir, 1, &plain, &diag) !=
        LS_OK)
        return coord_cli_fail(json, COORD_EXIT_USAGE, diag.text);
    if (args.help) {
        (void)printf(
            "usage: lockstep report DIR|BUNDLE [--format text|json|csv|markdown|html]\n\n");
        ls_options_help(rows, LS_ARRAY_LEN(rows), stdout);
        return COORD_EXIT_OK;
    }
    if (plain == 0)
        return coord_cli_fail(json, COORD_EXIT_USAGE,
                              "report: DIR is missing: which result folder?");
    if (args.json)
        args.format = "json";
    if (coord_report_parse_format(args.format, &format, &diag) != LS_OK)
        return coord_cli_fail(json, COORD_EXIT_USAGE, diag.text);
    return report(dir, format, json);
}
