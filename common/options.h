/* common/options.h - command-line options as a table: parsing, checks and help come from its rows.
 */
#ifndef LS_COMMON_OPTIONS_H
#define LS_COMMON_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "common/err.h"

enum ls_option_kind {
    LS_OPTION_FLAG,     /* bool */
    LS_OPTION_TEXT,     /* const char *, borrowed from argv */
    LS_OPTION_MAYBE,    /* the same, "" without a value; one is given by = alone: --ui=8080 */
    LS_OPTION_LIST,     /* struct ls_option_list; may be given several times */
    LS_OPTION_COUNT,    /* uint64_t: 1000, 50k */
    LS_OPTION_DURATION, /* int64_t nanoseconds: 250ms, 10s; 10 is 10s */
    LS_OPTION_RATE,     /* double per second: 20k/s, 20k */
    LS_OPTION_KIND_COUNT
};

struct ls_option_list {
    const char **items; /* owned, the texts are argv's */
    size_t count;
};

struct ls_option {
    const char *name; /* "connections" for --connections */
    char letter;      /* 'c' for -c; 0: none */
    enum ls_option_kind kind;
    size_t offset;        /* of the field in the caller's struct */
    const char *value;    /* how help names the value: "N", "URL"; NULL for a flag */
    const char *fallback; /* default, as it would be written; NULL: zero, NULL, false */
    double min;           /* of a number, in the field's own unit; no check when min > max */
    double max;
    const char *help;
};

/* Fills out from the defaults and argv[1..]; what is no option goes to positional (at most
 * positional_max, "--" ends the options). LS_EINVAL, LS_ERANGE: diag names the option and what it
 * takes, with a suggestion for a near miss. Lists are freed by ls_options_fini, also after a
 * failure. */
enum ls_err ls_options_parse(const struct ls_option *rows, size_t count, int argc, char **argv,
                             void *out, const char **positional, size_t positional_max,
                             size_t *out_positional, struct ls_diag *diag) LS_NODISCARD;
void ls_options_fini(const struct ls_option *rows, size_t count, void *out);

void ls_options_help(const struct ls_option *rows, size_t count, FILE *file);

#endif
