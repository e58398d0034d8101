/* Texts with placeholders and tables, from whoever wrote the plan. The first line of the input is
 * the path's text, the second the body's, the third what is expected; the rest is the table. The
 * oracle: what is accepted renders, at every turn, within the length that was measured and the same
 * from the table as on the way; its first values are a text without placeholders. */
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "agent/load/variation.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void demand(bool holds)
{
    if (!holds)
        abort();
}

/* The next line as a text of its own; the caller frees. */
static char *take_line(struct ls_bytes *in)
{
    const unsigned char *end = memchr(in->data, '\n', in->len);
    size_t len = end != NULL ? (size_t)(end - in->data) : in->len;
    char *text = strndup((const char *)in->data, len);

    demand(text != NULL);
    in->data += len + (end != NULL);
    in->len -= len + (end != NULL);
    return text;
}

static void check_first(const struct ls_variables *variables, const struct ls_pattern *pattern)
{
    struct ls_variables none = { 0 };
    struct ls_pattern again = { 0 };
    char *first = ls_pattern_first(variables, pattern);

    demand(first != NULL);
    demand(ls_pattern_parse(&none, first, 0, &again, NULL) == LS_OK && !again.varies &&
           again.count <= 1);
    free(first);
    ls_pattern_fini(&again);
}

static void check_turn(const struct load_variation *v, uint64_t turn)
{
    unsigned char *out = malloc(v->bytes_max + v->expect_max + 1);
    uint64_t place = load_variation_place(v, turn);
    size_t len;

    demand(out != NULL);
    len = load_variation_render(v, turn, out);
    demand(len <= v->bytes_max);
    if (v->table != NULL) {
        demand(place < v->table_len && v->table[place].len == len &&
               memcmp(v->table[place].bytes, out, len) == 0);
    }
    len = load_variation_expect(v, turn, out);
    demand(len <= v->expect_max);
    if (v->table != NULL && v->expect_varies)
        demand(v->table[place].expect_len == len && memcmp(v->table[place].expect, out, len) == 0);
    free(out);
}

static bool parse(struct load_variation *v, char *const texts[3])
{
    struct ls_diag diag = { .text = "" };
    bool ok =
        ls_pattern_parse(&v->variables, texts[0], LS_PATTERN_LENGTH, &v->head, &diag) == LS_OK &&
        ls_pattern_parse(&v->variables, texts[1], 0, &v->body, &diag) == LS_OK &&
        ls_pattern_parse(&v->variables, texts[2], LS_PATTERN_KNOWN, &v->expect, &diag) == LS_OK;

    demand(ok == (diag.text[0] == '\0'));
    return ok && v->variables.count > 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct ls_bytes in = { data, size };
    struct load_variation v = { .variables = { .seed = size, .csv_random = size % 2 != 0 } };
    struct ls_csv *csv = NULL;
    size_t budget = 1u << 20;
    char *texts[3];

    for (unsigned i = 0; i < 3; i++)
        texts[i] = take_line(&in);
    if (ls_csv_parse(in, &csv, NULL) == LS_OK) {
        demand(ls_csv_rows(csv) > 0 && ls_csv_columns(csv) > 0);
        v.variables.csv = csv;
    }
    if (parse(&v, texts)) {
        v.expect_varies = v.expect.varies;
        check_first(&v.variables, &v.body);
        check_first(&v.variables, &v.expect);
        if (load_variation_prepare(&v, &budget, NULL) == LS_OK) {
            for (uint64_t turn = 0; turn < 20; turn++)
                check_turn(&v, turn * turn * turn * (turn + size));
        }
    }
    load_variation_fini(&v);
    ls_csv_destroy(csv);
    for (unsigned i = 0; i < 3; i++)
        free(texts[i]);
    return 0;
}
