#include "common/pattern.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "common/buf.h"
#include "common/msg_yaml.h"

static const char *const names[] = { "seq", "rand", "pick", "csv" };
static_assert(LS_ARRAY_LEN(names) == LS_GENERATOR_COUNT, "a name for each generator");

/* One parse. */
struct parse {
    struct ls_variables *variables;
    struct ls_pattern *pattern;
    unsigned flags;
    const char *text;
    struct ls_diag *diag;
};

#define NAME_LETTERS "abcdefghijklmnopqrstuvwxyz_"

/* ---- values ------------------------------------------------------------------------------------
 */

/* splitmix64's finaliser (Steele, Lea and Flood 2014): each turn's number by itself. */
static uint64_t mix(uint64_t x)
{
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

uint64_t ls_variable_at(const struct ls_variables *variables, uint32_t variable, uint64_t turn)
{
    const struct ls_variable *v = &variables->items[variable];
    uint64_t drawn;

    if (!v->drawn)
        return turn < v->count ? turn : turn % v->count;
    drawn = mix(mix(variables->seed + variable) + (turn + 1) * UINT64_C(0x9e3779b97f4a7c15));
    /* Biased by at most count / 2^32, and without a division, where that is below 2^-16. */
    return v->count <= UINT16_MAX ? ((drawn >> 32) * v->count) >> 32 : drawn % v->count;
}

static struct ls_bytes number(const struct ls_variable *v, uint64_t value, char *digits)
{
    char *end = digits + LS_PATTERN_DIGITS_MAX;
    char *at = end;

    do {
        *--at = (char)('0' + value % 10);
        value /= 10;
    } while (value > 0);
    while (end - at < (ptrdiff_t)v->width)
        *--at = '0';
    return (struct ls_bytes){ (const unsigned char *)at, (size_t)(end - at) };
}

struct ls_bytes ls_piece_value(const struct ls_variables *variables, const struct ls_piece *piece,
                               uint64_t index, char *digits)
{
    const struct ls_variable *v = &variables->items[piece->variable];

    switch (v->generator) {
    case LS_GENERATOR_PICK:
        return v->choices[index];
    case LS_GENERATOR_CSV:
        return ls_csv_at(variables->csv, (uint32_t)index, piece->column);
    default:
        return number(v, v->from + index, digits);
    }
}

bool ls_piece_each(const struct ls_variables *variables, const struct ls_piece *piece,
                   bool (*see)(void *ctx, struct ls_bytes value), void *ctx)
{
    const struct ls_variable *v = &variables->items[piece->variable];
    bool numbers = v->generator == LS_GENERATOR_SEQ || v->generator == LS_GENERATOR_RAND;
    char digits[LS_PATTERN_DIGITS_MAX];

    for (uint64_t i = 0; i < v->count; i++) {
        if (!see(ctx, ls_piece_value(variables, piece, i, digits)))
            return false;
        if (numbers && i == 0 && v->count > 1)
            i = v->count - 2;
    }
    return true;
}

/* ---- placeholders ------------------------------------------------------------------------------
 */

/* at: where the placeholder begins. */
static enum ls_err refuse(const struct parse *p, const char *at, size_t len, enum ls_err code,
                          const char *why)
{
    return ls_fail(p->diag, code, "%.*s at byte %zu %s", (int)(len < 60 ? len : 60), at,
                   (size_t)(at - p->text) + 1, why);
}

static enum ls_err unknown(const struct parse *p, const char *at, const char *name)
{
    const char *close = ls_closest(name, names, LS_ARRAY_LEN(names));

    if (close != NULL)
        return ls_fail(p->diag, LS_EINVAL,
                       "unknown placeholder {%s} at byte %zu: did you mean {%s}? For the brace "
                       "itself write {{",
                       name, (size_t)(at - p->text) + 1, close);
    return ls_fail(p->diag, LS_EINVAL,
                   "unknown placeholder {%s} at byte %zu: known are {seq:0-9}, {rand:0-9}, "
                   "{pick:a,b} and {csv:column}; for the brace itself write {{",
                   name, (size_t)(at - p->text) + 1);
}

/* Takes digits off *at; false: none, or too many. */
static bool take_number(const char **at, uint64_t *out, unsigned *out_digits)
{
    unsigned n = 0;

    *out = 0;
    while (**at >= '0' && **at <= '9') {
        if (++n > LS_PATTERN_DIGITS_MAX)
            return false;
        *out = *out * 10 + (uint64_t)(*(*at)++ - '0');
    }
    *out_digits = n;
    return n > 0;
}

/* "0-4095" */
static bool read_range(struct ls_variable *v)
{
    const char *at = v->spec;
    unsigned from_digits;
    unsigned to_digits;
    uint64_t to;

    if (!take_number(&at, &v->from, &from_digits) || *at++ != '-' ||
        !take_number(&at, &to, &to_digits) || *at != '\0' || to < v->from)
        return false;
    v->count = to - v->from + 1;
    v->width = from_digits > 1 && v->spec[0] == '0' ? from_digits : 1;
    return true;
}

static enum ls_err read_choices(struct ls_variable *v)
{
    const char *at = v->spec;
    size_t n = 1;

    for (const char *c = at; *c != '\0'; c++)
        n += *c == ',';
    if (n > LS_PATTERN_CHOICES_MAX)
        return LS_ERANGE;
    v->choices = calloc(n, sizeof(*v->choices));
    if (v->choices == NULL)
        return LS_ENOMEM;
    for (v->count = 0; v->count < n; v->count++) {
        size_t len = strcspn(at, ",");

        v->choices[v->count] = (struct ls_bytes){ (const unsigned char *)at, len };
        at += len + 1;
    }
    return LS_OK;
}

/* The one that is the same, or the first of its kind if spec is NULL; -1: there is none. */
static int find(const struct ls_variables *variables, enum ls_generator generator, const char *spec,
                size_t spec_len)
{
    for (size_t i = 0; i < variables->count; i++) {
        const struct ls_variable *v = &variables->items[i];

        if (v->generator != generator)
            continue;
        if (spec != NULL && generator != LS_GENERATOR_CSV &&
            (strlen(v->spec) != spec_len || memcmp(v->spec, spec, spec_len) != 0))
            continue;
        return (int)i;
    }
    return -1;
}

static enum ls_err define(const struct parse *p, const char *at, size_t len,
                          enum ls_generator generator, const char *spec, size_t spec_len)
{
    struct ls_variables *variables = p->variables;
    struct ls_variable *v = &variables->items[variables->count];
    enum ls_err rc = LS_OK;

    if (variables->count == LS_PATTERN_VARIABLES_MAX)
        return refuse(p, at, len, LS_ERANGE, "is one too many: a request has at most 16");
    *v = (struct ls_variable){ .generator = generator,
                               .drawn = generator == LS_GENERATOR_RAND ||
                                        generator == LS_GENERATOR_PICK };
    if (generator == LS_GENERATOR_CSV) {
        v->drawn = variables->csv_random;
        v->count = ls_csv_rows(variables->csv);
        variables->count++;
        return LS_OK;
    }
    v->spec = strndup(spec, spec_len);
    if (v->spec == NULL)
        return ls_fail(p->diag, LS_ENOMEM, "no memory for a placeholder");
    if (generator == LS_GENERATOR_PICK)
        rc = read_choices(v);
    else if (!read_range(v))
        rc = LS_EINVAL;
    if (rc == LS_OK) {
        variables->count++;
        return LS_OK;
    }
    free(v->spec);
    *v = (struct ls_variable){ 0 };
    if (rc == LS_ENOMEM)
        return ls_fail(p->diag, rc, "no memory for a placeholder");
    return refuse(p, at, len, rc,
                  rc == LS_ERANGE ? "has too many choices: at most 4096"
                                  : "needs two numbers of up to 18 digits, the smaller one first, "
                                    "such as 0-4095");
}

static enum ls_err find_column(const struct parse *p, const char *at, size_t len, const char *name,
                               size_t name_len, uint32_t *out_column)
{
    const struct ls_csv *csv = p->variables->csv;
    const char *columns[LS_CSV_COLUMNS_MAX];
    char text[64];
    const char *close;

    if (csv == NULL)
        return refuse(p, at, len, LS_EINVAL,
                      "needs a table: data: {file: users.csv} beside the requests");
    for (uint32_t i = 0; i < ls_csv_columns(csv); i++) {
        columns[i] = ls_csv_name(csv, i);
        if (strlen(columns[i]) == name_len && memcmp(columns[i], name, name_len) == 0) {
            *out_column = i;
            return LS_OK;
        }
    }
    text[0] = '\0';
    if (name_len < sizeof(text)) {
        memcpy(text, name, name_len);
        text[name_len] = '\0';
    }
    close = ls_closest(text, columns, ls_csv_columns(csv));
    if (close != NULL)
        return ls_fail(p->diag, LS_EINVAL,
                       "{csv:%s} at byte %zu: the table has no such column, did you mean '%.60s'?",
                       text, (size_t)(at - p->text) + 1, close);
    return refuse(p, at, len, LS_EINVAL, "names no column of the table");
}

/* at to at + len is {name} or {name:spec}; spec NULL: the former. */
static enum ls_err placeholder(const struct parse *p, const char *at, size_t len,
                               enum ls_generator generator, const char *spec, size_t spec_len)
{
    struct ls_piece *piece = &p->pattern->pieces[p->pattern->count];
    enum ls_err rc;
    int found;

    *piece = (struct ls_piece){ .kind = LS_PIECE_VALUE };
    if (generator == LS_GENERATOR_CSV) {
        if (spec == NULL)
            return refuse(p, at, len, LS_EINVAL, "needs the name of a column: {csv:column}");
        rc = find_column(p, at, len, spec, spec_len, &piece->column);
        if (rc != LS_OK)
            return rc;
    }
    found = find(p->variables, generator, spec, spec_len);
    if (found == -1 && (p->flags & LS_PATTERN_KNOWN) != 0)
        return refuse(p, at, len, LS_EINVAL, "stands for nothing that the request sends");
    if (found == -1 && spec == NULL)
        return refuse(p, at, len, LS_EINVAL,
                      generator == LS_GENERATOR_PICK
                          ? "needs its choices: {pick:a,b,c}"
                          : "needs its numbers, such as {seq:0-4095} or {rand:0-4095}");
    if (found == -1) {
        rc = define(p, at, len, generator, spec, spec_len);
        if (rc != LS_OK)
            return rc;
        found = (int)p->variables->count - 1;
    }
    piece->variable = (uint32_t)found;
    p->pattern->count++;
    p->pattern->varies = true;
    return LS_OK;
}

/* If a placeholder begins at at, which is a brace, takes it; *out_len 0: it is only a brace. */
static enum ls_err brace(const struct parse *p, const char *at, size_t *out_len)
{
    size_t name_len = strspn(at + 1, NAME_LETTERS);
    const char *after = at + 1 + name_len;
    const char *close;
    char name[24];

    *out_len = 0;
    if (name_len == 0 || name_len >= sizeof(name) || (*after != ':' && *after != '}'))
        return LS_OK;
    close = strchr(after, '}');
    memcpy(name, at + 1, name_len);
    name[name_len] = '\0';
    if ((p->flags & LS_PATTERN_LENGTH) != 0 && strcmp(name, "length") == 0 && *after == '}') {
        p->pattern->pieces[p->pattern->count++] = (struct ls_piece){ .kind = LS_PIECE_LENGTH };
        *out_len = name_len + 2;
        return LS_OK;
    }
    for (int i = 0; i < LS_GENERATOR_COUNT; i++) {
        if (strcmp(name, names[i]) != 0)
            continue;
        if (close == NULL)
            return refuse(p, at, strlen(at), LS_EINVAL, "has no closing brace");
        *out_len = (size_t)(close - at) + 1;
        return placeholder(p, at, *out_len, (enum ls_generator)i, *after == ':' ? after + 1 : NULL,
                           *after == ':' ? (size_t)(close - after) - 1 : 0);
    }
    return close != NULL ? unknown(p, at, name) : LS_OK;
}

static void end_text(const struct parse *p, const char *from, const char *to)
{
    if (from == to)
        return;
    p->pattern->pieces[p->pattern->count++] =
        (struct ls_piece){ .kind = LS_PIECE_TEXT,
                           .text = { (const unsigned char *)from, (size_t)(to - from) } };
}

static enum ls_err pieces(const struct parse *p)
{
    char *out = p->pattern->text; /* unescaped text goes here, over what has been read */
    char *began = out;
    const char *at = p->text;

    while (*at != '\0') {
        size_t len = 0;

        if (at[0] == '{' && at[1] == '{') {
            *out++ = '{';
            at += 2;
            continue;
        }
        if (*at == '{') {
            size_t count = p->pattern->count;
            enum ls_err rc;

            end_text(p, began, out);
            rc = brace(p, at, &len);
            if (rc != LS_OK)
                return rc;
            if (len > 0) {
                began = out;
                at += len;
                continue;
            }
            p->pattern->count = count; /* the text goes on */
        }
        *out++ = *at++;
    }
    end_text(p, began, out);
    return LS_OK;
}

enum ls_err ls_pattern_parse(struct ls_variables *variables, const char *text, unsigned flags,
                             struct ls_pattern *out_pattern, struct ls_diag *diag)
{
    struct ls_pattern pattern = { 0 };
    struct parse p = { variables, &pattern, flags, text, diag };
    size_t most = 1;
    enum ls_err rc;

    for (const char *c = text; *c != '\0'; c++)
        most += *c == '{' ? 2 : 0;
    pattern.text = malloc(strlen(text) + 1);
    pattern.pieces = calloc(most + 1, sizeof(*pattern.pieces));
    rc = pattern.text == NULL || pattern.pieces == NULL
             ? ls_fail(diag, LS_ENOMEM, "no memory for a text of %zu bytes", strlen(text))
             : pieces(&p);
    if (rc != LS_OK) {
        ls_pattern_fini(&pattern);
        return rc;
    }
    *out_pattern = pattern;
    return LS_OK;
}

void ls_pattern_fini(struct ls_pattern *pattern)
{
    free(pattern->pieces);
    free(pattern->text);
    *pattern = (struct ls_pattern){ 0 };
}

void ls_variables_fini(struct ls_variables *variables)
{
    for (size_t i = 0; i < variables->count; i++) {
        free(variables->items[i].spec);
        free(variables->items[i].choices);
    }
    variables->count = 0;
}

char *ls_pattern_first(const struct ls_variables *variables, const struct ls_pattern *pattern)
{
    struct ls_buf buf;
    char *text;

    ls_buf_init(&buf, (size_t)1 << 26);
    ls_buf_adds(&buf, "");
    for (size_t i = 0; i < pattern->count; i++) {
        const struct ls_piece *piece = &pattern->pieces[i];
        char digits[LS_PATTERN_DIGITS_MAX];
        struct ls_bytes value = piece->text;

        if (piece->kind == LS_PIECE_VALUE)
            value = ls_piece_value(variables, piece, 0, digits);
        for (size_t k = 0; k < value.len; k++) {
            if (value.data[k] == '{')
                ls_buf_adds(&buf, "{");
            ls_buf_add(&buf, value.data + k, 1);
        }
    }
    text = ls_buf_detach(&buf);
    ls_buf_fini(&buf);
    return text;
}
