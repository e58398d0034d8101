#include "agent/load/variation.h"

#include <stdlib.h>
#include <string.h>

#define LENGTH_DIGITS 20u

/* ---- one rendering ----------------------------------------------------------------------------
 */

/* Which value each variable has. */
struct values {
    uint64_t index[LS_PATTERN_VARIABLES_MAX];
};

static struct values values_at(const struct load_variation *v, uint64_t turn)
{
    struct values values;

    for (uint32_t i = 0; i < v->variables.count; i++)
        values.index[i] = ls_variable_at(&v->variables, i, turn);
    return values;
}

static unsigned char *put_number(unsigned char *out, size_t number)
{
    unsigned char digits[LENGTH_DIGITS];
    size_t n = 0;

    do {
        digits[n++] = (unsigned char)('0' + number % 10);
        number /= 10;
    } while (number > 0);
    while (n > 0)
        *out++ = digits[--n];
    return out;
}

static size_t length_of(const struct load_variation *v, const struct ls_pattern *pattern,
                        const struct values *values)
{
    char digits[LS_PATTERN_DIGITS_MAX];
    size_t len = 0;

    for (size_t i = 0; i < pattern->count; i++) {
        const struct ls_piece *piece = &pattern->pieces[i];

        if (piece->kind == LS_PIECE_TEXT)
            len += piece->text.len;
        else if (piece->kind == LS_PIECE_VALUE)
            len += ls_piece_value(&v->variables, piece, values->index[piece->variable], digits).len;
    }
    return len;
}

static unsigned char *put(const struct load_variation *v, const struct ls_pattern *pattern,
                          const struct values *values, unsigned char *out)
{
    for (size_t i = 0; i < pattern->count; i++) {
        const struct ls_piece *piece = &pattern->pieces[i];
        char digits[LS_PATTERN_DIGITS_MAX];
        struct ls_bytes text = piece->text;

        if (piece->kind == LS_PIECE_LENGTH) {
            out = put_number(out, length_of(v, &v->body, values));
            continue;
        }
        if (piece->kind == LS_PIECE_VALUE)
            text = ls_piece_value(&v->variables, piece, values->index[piece->variable], digits);
        if (text.len > 0)
            memcpy(out, text.data, text.len);
        out += text.len;
    }
    return out;
}

size_t load_variation_render(const struct load_variation *v, uint64_t turn, unsigned char *out)
{
    struct values values = values_at(v, turn);

    return (size_t)(put(v, &v->body, &values, put(v, &v->head, &values, out)) - out);
}

size_t load_variation_expect(const struct load_variation *v, uint64_t turn, unsigned char *out)
{
    struct values values = values_at(v, turn);

    return (size_t)(put(v, &v->expect, &values, out) - out);
}

uint64_t load_variation_index(const struct load_variation *v, uint64_t turn)
{
    uint64_t index = ls_variable_at(&v->variables, 0, turn);

    for (uint32_t i = 1; i < v->variables.count; i++)
        index = index * v->variables.items[i].count + ls_variable_at(&v->variables, i, turn);
    return index;
}

/* ---- before the load --------------------------------------------------------------------------
 */

struct look {
    bool first_line;
    size_t longest;
    char bad; /* the first byte that must not be there; 0: none */
};

static bool see(void *ctx, struct ls_bytes value)
{
    struct look *look = ctx;

    for (size_t i = 0; i < value.len && look->bad == 0; i++) {
        unsigned char c = value.data[i];

        if (c == '\t' && !look->first_line)
            continue; /* as in a header that does not vary */
        if (c < 0x20 || c == 0x7f || (look->first_line && c == ' '))
            look->bad = c == ' ' ? ' ' : 'c';
    }
    if (value.len > look->longest)
        look->longest = value.len;
    return true;
}

/* The most that a pattern can take. head: its values must not break a head apart. */
static enum ls_err measure(const struct load_variation *v, const struct ls_pattern *pattern,
                           bool head, size_t *out_most, struct ls_diag *diag)
{
    struct look look = { .first_line = head };
    size_t most = 0;

    for (size_t i = 0; i < pattern->count; i++) {
        const struct ls_piece *piece = &pattern->pieces[i];

        if (piece->kind == LS_PIECE_TEXT) {
            most += piece->text.len;
            if (memchr(piece->text.data, '\n', piece->text.len) != NULL)
                look.first_line = false;
        } else if (piece->kind == LS_PIECE_LENGTH) {
            most += LENGTH_DIGITS;
        } else {
            look.longest = 0;
            (void)ls_piece_each(&v->variables, piece, see, &look); /* sees all */
            most += look.longest;
        }
        if (head && look.bad != 0)
            return ls_fail(diag, LS_EINVAL, "a value of a placeholder holds a %s",
                           look.bad == ' ' ? "space, which a path cannot"
                                           : "control byte, which a head cannot");
        if (most > LOAD_RENDERED_MAX)
            return ls_fail(diag, LS_ERANGE, "a request with its values takes more than %u bytes",
                           LOAD_RENDERED_MAX);
    }
    *out_most = most;
    return LS_OK;
}

/* 0: more than LOAD_RENDERINGS_MAX. */
static uint64_t renderings(const struct load_variation *v)
{
    uint64_t n = 1;

    for (size_t i = 0; i < v->variables.count; i++) {
        if (v->variables.items[i].count > LOAD_RENDERINGS_MAX / n)
            return 0;
        n *= v->variables.items[i].count;
    }
    return n;
}

/* The values of the index-th rendering: as load_variation_index() counts. */
static struct values values_of(const struct load_variation *v, uint64_t index)
{
    struct values values;

    for (size_t i = v->variables.count; i-- > 0;) {
        values.index[i] = index % v->variables.items[i].count;
        index /= v->variables.items[i].count;
    }
    return values;
}

static size_t size_of(const struct load_variation *v, uint64_t n)
{
    size_t total = 0;

    for (uint64_t i = 0; i < n; i++) {
        struct values values = values_of(v, i);

        total += length_of(v, &v->head, &values) + length_of(v, &v->body, &values) + LENGTH_DIGITS;
        if (v->expect_varies)
            total += length_of(v, &v->expect, &values);
        if (total > LOAD_RENDERINGS_BYTES_MAX)
            break;
    }
    return total;
}

static enum ls_err render_all(struct load_variation *v, uint64_t n, size_t bytes,
                              struct ls_diag *diag)
{
    unsigned char *at;

    v->table = calloc(n, sizeof(*v->table));
    v->store = malloc(bytes);
    if (v->table == NULL || v->store == NULL)
        return ls_fail(diag, LS_ENOMEM, "no memory for %llu requests", (unsigned long long)n);
    v->table_len = n;
    v->in_turn = v->variables.count == 1 && !v->variables.items[0].drawn;
    at = v->store;
    for (uint64_t i = 0; i < n; i++) {
        struct load_rendering *r = &v->table[i];
        struct values values = values_of(v, i);

        r->bytes = at;
        at = put(v, &v->body, &values, put(v, &v->head, &values, at));
        r->len = (uint32_t)(at - r->bytes);
        if (!v->expect_varies)
            continue;
        r->expect = at;
        at = put(v, &v->expect, &values, at);
        r->expect_len = (uint32_t)(at - r->expect);
    }
    return LS_OK;
}

enum ls_err load_variation_prepare(struct load_variation *v, size_t *budget, struct ls_diag *diag)
{
    size_t body = 0;
    uint64_t n = renderings(v);
    size_t bytes;
    enum ls_err rc = measure(v, &v->head, true, &v->bytes_max, diag);

    if (rc == LS_OK)
        rc = measure(v, &v->body, false, &body, diag);
    if (rc == LS_OK)
        rc = measure(v, &v->expect, false, &v->expect_max, diag);
    if (rc != LS_OK)
        return rc;
    v->bytes_max += body;
    bytes = n > 0 ? size_of(v, n) + n * sizeof(*v->table) : 0;
    if (n == 0 || bytes > *budget)
        return LS_OK;
    *budget -= bytes;
    return render_all(v, n, bytes, diag);
}

void load_variation_fini(struct load_variation *v)
{
    free(v->table);
    free(v->store);
    free(v->frames);
    v->frames = NULL;
    v->table = NULL;
    v->store = NULL;
    ls_pattern_fini(&v->head);
    ls_pattern_fini(&v->body);
    ls_pattern_fini(&v->expect);
    ls_variables_fini(&v->variables);
}

/* ---- messages ---------------------------------------------------------------------------------
 */

enum ls_err load_request_show(const struct load_workload *workload, uint64_t k,
                              struct load_request *out_request, char **out_store)
{
    struct load_turn turn = load_workload_turn(workload, k);
    const struct load_request *request = &workload->requests[turn.request];
    const struct load_variation *v = request->varied;
    unsigned char *store;
    size_t len;
    char *label;

    *out_request = *request;
    *out_store = NULL;
    if (v == NULL)
        return LS_OK;
    store = malloc(v->bytes_max + v->expect_max + 1);
    if (store == NULL)
        return LS_ENOMEM;
    if (v->expect_varies) {
        out_request->expect_body.data = store;
        out_request->expect_body.len = load_variation_expect(v, turn.turn, store);
    }
    label = (char *)store + v->expect_max;
    len = load_variation_render(v, turn.turn, (unsigned char *)label);
    label[len] = '\0';
    label[strcspn(label, "\r")] = '\0';
    if (strrchr(label, ' ') != NULL)
        *strrchr(label, ' ') = '\0'; /* " HTTP/1.1" */
    if (strlen(label) > 90)
        label[90] = '\0';
    out_request->label = label;
    out_request->varied = NULL;
    *out_store = (char *)store;
    return LS_OK;
}
