#include "coordinator/cli.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "common/buf.h"
#include "coordinator/result/report.h"
#include "coordinator/run/run.h"

#define OUTPUT_MAX_BYTES (512u << 20)

int coord_cli_put(const struct ls_buf *text, int exit_status)
{
    if (fwrite(text->data, 1, text->len, stdout) == text->len && fflush(stdout) == 0)
        return exit_status;
    (void)fprintf(stderr, "lockstep: the result could not be written to stdout: %s\n",
                  strerror(errno));
    return COORD_EXIT_FAULT;
}

static unsigned columns(void)
{
    struct winsize size;

    return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

struct coord_report_options coord_cli_looks(void)
{
    const char *no_colour = getenv("NO_COLOR");

    return (struct coord_report_options){
        .columns = columns(),
        .colour = isatty(STDOUT_FILENO) == 1 && (no_colour == NULL || *no_colour == '\0'),
    };
}

int coord_cli_print(const Ls__Result *result, bool json, const char *dir, int exit_status)
{
    struct coord_report_options options = coord_cli_looks();
    struct ls_diag diag = { 0 };
    struct ls_buf text;
    int status;

    options.dir = dir;
    ls_buf_init(&text, OUTPUT_MAX_BYTES);
    if (coord_report(result, json ? COORD_REPORT_JSON : COORD_REPORT_TEXT, &options, &text,
                     &diag) == LS_OK) {
        status = coord_cli_put(&text, exit_status);
    } else {
        (void)fprintf(stderr, "lockstep: %s\n", diag.text);
        status = COORD_EXIT_FAULT;
    }
    ls_buf_fini(&text);
    return status;
}

int coord_cli_fail(bool json, int exit_status, const char *text)
{
    (void)fprintf(stderr, "lockstep: %s\n", text);
    return json ? coord_cli_print_failure(exit_status, text) : exit_status;
}

int coord_cli_print_failure(int exit_status, const char *text)
{
    Ls__Result *result = coord_run_failed(exit_status, text);

    if (result == NULL)
        return COORD_EXIT_FAULT;
    exit_status = coord_cli_print(result, true, NULL, exit_status);
    ls__result__free_unpacked(result, NULL);
    return exit_status;
}

bool coord_cli_wants_json(int argc, char **argv)
{
    for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++) {
        if (strcmp(argv[i], "--json") == 0)
            return true;
    }
    return false;
}
