#include "common/options.h"

#include <stdlib.h>
#include <string.h>

#include "common/msg_yaml.h"
#include "common/units.h"

static const struct ls_option *find_long(const struct ls_option *rows, size_t count,
                                         const char *name, size_t len)
{
    for (size_t i = 0; i < count; i++) {
        if (strlen(rows[i].name) == len && memcmp(rows[i].name, name, len) == 0)
            return &rows[i];
    }
    return NULL;
}

static const struct ls_option *find_letter(const struct ls_option *rows, size_t count, char letter)
{
    for (size_t i = 0; i < count; i++) {
        if (rows[i].letter != 0 && rows[i].letter == letter)
            return &rows[i];
    }
    return NULL;
}

static enum ls_err unknown(const struct ls_option *rows, size_t count, const char *arg,
                           struct ls_diag *diag)
{
    const char *names[64];
    const char *meant = NULL;
    size_t n = 0;

    for (size_t i = 0; i < count && n < LS_ARRAY_LEN(names); i++)
        names[n++] = rows[i].name;
    if (arg[0] == '-' && arg[1] == '-')
        meant = ls_closest(arg + 2, names, n);
    if (meant != NULL)
        return ls_fail(diag, LS_EINVAL, "unknown option %s; did you mean --%s?", arg, meant);
    return ls_fail(diag, LS_EINVAL, "unknown option %s; --help lists them", arg);
}

static enum ls_err append(struct ls_option_list *list, const char *text, struct ls_diag *diag)
{
    const char **items = realloc(list->items, (list->count + 1) * sizeof(*items));

    if (items == NULL)
        return ls_fail(diag, LS_ENOMEM, "out of memory");
    list->items = items;
    list->items[list->count++] = text;
    return LS_OK;
}

static enum ls_err in_range(const struct ls_option *row, double value, const char *text,
                            struct ls_diag *diag)
{
    char low[48];
    char high[48];

    if (row->min > row->max || (value >= row->min && value <= row->max))
        return LS_OK;
    if (row->kind == LS_OPTION_DURATION) {
        (void)ls_format_duration((int64_t)row->min, low, sizeof(low));
        (void)ls_format_duration((int64_t)row->max, high, sizeof(high));
    } else if (row->kind == LS_OPTION_RATE) {
        (void)ls_format_rate(row->min, low, sizeof(low));
        (void)ls_format_rate(row->max, high, sizeof(high));
    } else {
        (void)ls_format_count((uint64_t)row->min, low, sizeof(low));
        (void)ls_format_count((uint64_t)row->max, high, sizeof(high));
    }
    return ls_fail(diag, LS_ERANGE, "--%s %s: must be from %s to %s", row->name, text, low, high);
}

/* On a command line "20k" is as clear as "20k/s", and what other tools take. */
static enum ls_err parse_rate(const char *text, double *out_per_s, struct ls_diag *diag)
{
    uint64_t count;

    if (ls_parse_count(text, &count, diag) != LS_OK)
        return ls_parse_rate(text, out_per_s, diag);
    *out_per_s = (double)count;
    return LS_OK;
}

/* "30" is thirty seconds, as with other tools; plans want the unit. */
static enum ls_err parse_duration(const char *text, int64_t *out_ns, struct ls_diag *diag)
{
    char with_unit[32];
    size_t len = strlen(text);

    if (len == 0 || strspn(text, "0123456789") != len || len + 2 > sizeof(with_unit))
        return ls_parse_duration(text, out_ns, diag);
    (void)snprintf(with_unit, sizeof(with_unit), "%ss", text);
    return ls_parse_duration(with_unit, out_ns, diag);
}

static enum ls_err set(const struct ls_option *row, void *out, const char *text,
                       struct ls_diag *diag)
{
    unsigned char *at = (unsigned char *)out + row->offset;
    enum ls_err rc = LS_OK;
    double value = 0;

    switch (row->kind) {
    case LS_OPTION_FLAG:
        *(bool *)(void *)at = true;
        return LS_OK;
    case LS_OPTION_TEXT:
    case LS_OPTION_MAYBE:
        *(const char **)(void *)at = text;
        return LS_OK;
    case LS_OPTION_LIST:
        return append((struct ls_option_list *)(void *)at, text, diag);
    case LS_OPTION_COUNT:
        rc = ls_parse_count(text, (uint64_t *)(void *)at, diag);
        value = (double)*(uint64_t *)(void *)at;
        break;
    case LS_OPTION_DURATION:
        rc = parse_duration(text, (int64_t *)(void *)at, diag);
        value = (double)*(int64_t *)(void *)at;
        break;
    case LS_OPTION_RATE:
        rc = parse_rate(text, (double *)(void *)at, diag);
        value = *(double *)(void *)at;
        break;
    default:
        return ls_fail(diag, LS_EINVAL, "--%s: no such kind of option", row->name);
    }
    if (rc != LS_OK)
        return ls_fail_in(diag, rc, "--%s", row->name);
    return in_range(row, value, text, diag);
}

/* Takes argv[*at], and the next one if the value stands there. */
static enum ls_err take(const struct ls_option *rows, size_t count, int argc, char **argv, int *at,
                        void *out, struct ls_diag *diag)
{
    const char *arg = argv[*at];
    const struct ls_option *row;
    const char *value = NULL;

    if (arg[1] == '-') {
        const char *equals = strchr(arg, '=');
        size_t len = equals != NULL ? (size_t)(equals - arg) - 2 : strlen(arg) - 2;

        row = find_long(rows, count, arg + 2, len);
        value = equals != NULL ? equals + 1 : NULL;
    } else {
        row = find_letter(rows, count, arg[1]);
        value = arg[2] != '\0' ? arg + 2 : NULL;
    }
    if (row == NULL)
        return unknown(rows, count, arg, diag);
    if (row->kind == LS_OPTION_FLAG) {
        if (value != NULL)
            return ls_fail(diag, LS_EINVAL, "%s: --%s takes no value", arg, row->name);
        return set(row, out, NULL, diag);
    }
    if (value == NULL && row->kind == LS_OPTION_MAYBE)
        return set(row, out, "", diag);
    if (value == NULL) {
        if (*at + 1 >= argc)
            return ls_fail(diag, LS_EINVAL, "%s needs a value: %s", arg, row->value);
        value = argv[++*at];
    }
    return set(row, out, value, diag);
}

enum ls_err ls_options_parse(const struct ls_option *rows, size_t count, int argc, char **argv,
                             void *out, const char **positional, size_t positional_max,
                             size_t *out_positional, struct ls_diag *diag)
{
    size_t plain = 0;
    bool options_over = false;
    enum ls_err rc;

    for (size_t i = 0; i < count; i++) {
        if (rows[i].fallback == NULL)
            continue;
        rc = set(&rows[i], out, rows[i].fallback, diag);
        if (rc != LS_OK)
            return rc;
    }
    for (int i = 1; i < argc; i++) {
        if (!options_over && strcmp(argv[i], "--") == 0) {
            options_over = true;
            continue;
        }
        if (!options_over && argv[i][0] == '-' && argv[i][1] != '\0') {
            rc = take(rows, count, argc, argv, &i, out, diag);
            if (rc != LS_OK)
                return rc;
            continue;
        }
        if (plain == positional_max)
            return ls_fail(diag, LS_EINVAL, "unexpected argument '%s'", argv[i]);
        positional[plain++] = argv[i];
    }
    *out_positional = plain;
    return LS_OK;
}

void ls_options_fini(const struct ls_option *rows, size_t count, void *out)
{
    for (size_t i = 0; i < count; i++) {
        if (rows[i].kind == LS_OPTION_LIST) {
            struct ls_option_list *list =
                (struct ls_option_list *)(void *)((unsigned char *)out + rows[i].offset);

            free(list->items);
            list->items = NULL;
            list->count = 0;
        }
    }
}

void ls_options_help(const struct ls_option *rows, size_t count, FILE *file)
{
    for (size_t i = 0; i < count; i++) {
        char left[64];
        char letter[8] = "    ";

        if (rows[i].letter != 0)
            (void)snprintf(letter, sizeof(letter), "-%c, ", rows[i].letter);
        (void)snprintf(left, sizeof(left), "%s--%s%s%s", letter, rows[i].name,
                       rows[i].value == NULL             ? ""
                       : rows[i].kind == LS_OPTION_MAYBE ? "[="
                                                         : " ",
                       rows[i].value != NULL ? rows[i].value : "");
        if (rows[i].kind == LS_OPTION_MAYBE)
            (void)strncat(left, "]", sizeof(left) - strlen(left) - 1);
        (void)fprintf(file, "  %-30s %s", left, rows[i].help);
        if (rows[i].fallback != NULL)
            (void)fprintf(file, " (%s)", rows[i].fallback);
        (void)fputc('\n', file);
    }
}
