/* Every text that a result can hold is somebody else's: whatever stands there is shown as text, in
 * every format. */
#include "tests/support/test.h"

#include <stdlib.h>
#include <string.h>

#include <jansson.h>
#include <protobuf-c/protobuf-c.h>

#include "coordinator/result/message.h"
#include "coordinator/result/report.h"
#include "coordinator/result/report_live.h"

enum { MAX = 64 << 20, DEEPEST = 7 };

/* Messages in all fields, two in a list, every text the same, every number n. */
static void fill(ProtobufCMessage *message, const char *text, unsigned n, unsigned depth);

static void *fill_new(const ProtobufCFieldDescriptor *field, const char *text, unsigned n,
                      unsigned depth)
{
    ProtobufCMessage *made = coord_message_new(field->descriptor);

    assert_non_null(made);
    fill(made, text, n, depth + 1);
    return made;
}

static void fill_number(const ProtobufCFieldDescriptor *field, void *at, unsigned n)
{
    switch (field->type) {
    case PROTOBUF_C_TYPE_DOUBLE:
        *(double *)at = n + 0.5;
        break;
    case PROTOBUF_C_TYPE_BOOL:
        *(protobuf_c_boolean *)at = 1;
        break;
    case PROTOBUF_C_TYPE_ENUM:
        *(int *)at = 1;
        break;
    case PROTOBUF_C_TYPE_UINT32:
    case PROTOBUF_C_TYPE_INT32:
        *(uint32_t *)at = n;
        break;
    case PROTOBUF_C_TYPE_UINT64:
    case PROTOBUF_C_TYPE_INT64:
        *(uint64_t *)at = n;
        break;
    default:
        break;
    }
}

static void fill_list(ProtobufCMessage *message, const ProtobufCFieldDescriptor *field,
                      const char *text, unsigned n, unsigned depth)
{
    unsigned char *base = (unsigned char *)message;
    void **items;

    if (field->type != PROTOBUF_C_TYPE_STRING && field->type != PROTOBUF_C_TYPE_MESSAGE)
        return;
    items = calloc(2, sizeof(*items));
    assert_non_null(items);
    for (unsigned i = 0; i < 2; i++)
        items[i] = field->type == PROTOBUF_C_TYPE_STRING ? (void *)strdup(text)
                                                         : fill_new(field, text, n + i, depth);
    *(void ***)(void *)(base + field->offset) = items;
    *(size_t *)(void *)(base + field->quantifier_offset) = 2;
}

static void fill(ProtobufCMessage *message, const char *text, unsigned n, unsigned depth)
{
    for (unsigned i = 0; i < message->descriptor->n_fields; i++) {
        const ProtobufCFieldDescriptor *field = &message->descriptor->fields[i];
        void *at = (unsigned char *)message + field->offset;

        if ((field->flags & PROTOBUF_C_FIELD_FLAG_ONEOF) != 0)
            continue;
        if (field->type == PROTOBUF_C_TYPE_MESSAGE && depth >= DEEPEST)
            continue;
        if (field->label == PROTOBUF_C_LABEL_REPEATED)
            fill_list(message, field, text, n, depth);
        else if (field->type == PROTOBUF_C_TYPE_MESSAGE)
            *(void **)at = fill_new(field, text, n, depth);
        else if (field->type == PROTOBUF_C_TYPE_STRING)
            assert_true(coord_message_string(at, text));
        else
            fill_number(field, at, n);
    }
}

static char *render(const Ls__Result *result, enum coord_report_format format)
{
    struct ls_buf out;
    struct ls_diag diag;
    char *text;

    ls_buf_init(&out, MAX);
    assert_int_equal(
        coord_report(result, format, &(struct coord_report_options){ .columns = 60 }, &out, &diag),
        LS_OK);
    text = ls_buf_detach(&out);
    assert_non_null(text);
    return text;
}

/* Nothing that a terminal would obey or a reader could not see. */
static void assert_visible(const char *text)
{
    for (const char *c = text; *c != '\0'; c++)
        assert_true(((unsigned char)*c >= 0x20 && *c != 0x7f) || *c == '\n');
    assert_null(strstr(text, "\xe2\x80\xae"));
    assert_null(strstr(text, "\xe2\x80\x8b"));
    assert_null(strstr(text, "\xc2\x9b"));
}

static void assert_markdown(const char *text)
{
    assert_visible(text);
    assert_null(strstr(text, "<img"));
    assert_null(strstr(text, "<script"));
    for (const char *link = strstr(text, "]("); link != NULL; link = strstr(link + 1, "]("))
        assert_true(link[-1] == '\\');
    for (const char *url = strstr(text, "http"); url != NULL; url = strstr(url + 1, "http"))
        assert_null(strstr(url, "http://")); /* some readers make links of them */
    for (const char *line = text; line != NULL && *line != '\0';) {
        const char *end = strchr(line, '\n');
        size_t pipes = 0;

        /* A row has as many cells as its table's head. */
        for (const char *c = line; *line == '|' && c < end; c++)
            pipes += *c == '|' && (c == line || c[-1] != '\\');
        if (*line == '|' && strncmp(line - 2, "\n\n", 2) != 0) {
            const char *above = line - 1;
            size_t before = 0;

            while (above > text && above[-1] != '\n')
                above--;
            for (const char *c = above; c < line; c++)
                before += *c == '|' && (c == above || c[-1] != '\\');
            assert_int_equal(pipes, before);
        }
        line = end != NULL ? end + 1 : NULL;
    }
}

/* Cells by RFC 4180; none of them begins as a formula does. */
static void assert_csv(const char *text)
{
    size_t cells = 0, columns = 0;

    for (const char *c = text; *c != '\0';) {
        bool quoted = *c == '"';

        c += quoted;
        if (strchr("=+@\t\r", *c) != NULL && *c != '\0')
            fail_msg("a formula: %.30s", c);
        if (*c == '-' && strchr("0123456789", c[1]) == NULL)
            fail_msg("a formula: %.30s", c);
        if (quoted) {
            while (*c != '"' || c[1] == '"') {
                assert_true(*c != '\0');
                c += *c == '"' ? 2 : 1;
            }
            c++;
        } else {
            c += strcspn(c, ",\n");
        }
        cells++;
        assert_true(*c == ',' || *c == '\n');
        if (*c == '\n') {
            assert_true(columns == 0 || cells == columns);
            columns = cells;
            cells = 0;
        }
        c++;
    }
}

static void assert_json(const char *text, size_t len)
{
    json_error_t error;
    json_t *data = json_loadb(text, len, JSON_REJECT_DUPLICATES, &error);

    if (data == NULL)
        fail_msg("%s at %d: %.60s", error.text, error.position, text + error.position);
    json_decref(data);
}

static void assert_page(const char *text)
{
    const char *from = strstr(text, "id=\"data\">"), *end;

    assert_non_null(from);
    from += strlen("id=\"data\">");
    end = strchr(from, '<');
    assert_non_null(end);
    assert_memory_equal(end, "</script>", 9);
    assert_json(from, (size_t)(end - from));
    for (const char *c = from; c < end; c++)
        assert_true((unsigned char)*c >= 0x20);
    assert_true(strlen(text) < 2000000);
}

static void assert_live(const Ls__Result *result)
{
    struct ls_buf out;

    ls_buf_init(&out, MAX);
    coord_report_live(result, &out);
    assert_true(out.ok);
    assert_null(memchr(out.data, '\n', out.len)); /* it is a line of an event */
    assert_null(memchr(out.data, '<', out.len));
    assert_json((const char *)out.data, out.len);
    ls_buf_fini(&out);
}

static void check(const char *name)
{
    Ls__Result *result = coord_message_new(&ls__result__descriptor);
    char *text;

    assert_non_null(result);
    fill(&result->base, name, 3, 0);
    text = render(result, COORD_REPORT_TEXT);
    assert_visible(text);
    free(text);
    text = render(result, COORD_REPORT_MARKDOWN);
    assert_markdown(text);
    free(text);
    text = render(result, COORD_REPORT_CSV);
    assert_csv(text);
    free(text);
    text = render(result, COORD_REPORT_JSON);
    assert_json(text, strlen(text));
    free(text);
    text = render(result, COORD_REPORT_HTML);
    assert_page(text);
    free(text);
    assert_live(result);
    ls__result__free_unpacked(result, NULL);
}

static void every_field_is_text_in_every_format(void **state)
{
    static const char *const names[] = {
        "plain",
        "",
        "</script><script>alert(1)</script>",
        "<img src=x onerror=alert(1)>",
        "\x1b]0;title\x07\x1b[2J\x1b[31m",
        "\xc2\x9b"
        "31m\r\n\t\x7f",
        "\xe2\x80\xae"
        "gpj.exe\xe2\x80\x8b",
        "=cmd|' /C calc'!A0",
        "@SUM(1)",
        "+1+1",
        "-1+1",
        "| a | b |\n| - | - |",
        "[click](http://evil.example) ![x](http://evil.example/x.png)",
        "`code` *bold* _x_ # head",
        "\"quoted\", 'twice', a;b",
        "\xff\xfe\xc0\xaf\xed\xa0\x80",
        "\\u003c\\",
        "%s%n%1000000d",
    };

    (void)state;
    for (size_t i = 0; i < LS_ARRAY_LEN(names); i++)
        check(names[i]);
}

static void names_of_ten_kilobytes_are_taken(void **state)
{
    static const char *const pieces[] = { "n", "<", "\xe2\x80\xae", "\xf0\x9f\x90\xa7", "\x1b" };
    char name[10001];

    (void)state;
    for (size_t p = 0; p < LS_ARRAY_LEN(pieces); p++) {
        size_t len = strlen(pieces[p]), used = 0;

        while (used + len < sizeof(name)) {
            (void)memcpy(name + used, pieces[p], len);
            used += len;
        }
        name[used] = '\0';
        check(name);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_field_is_text_in_every_format),
        cmocka_unit_test(names_of_ten_kilobytes_are_taken),
    };

    return cmocka_run_group_tests_name("coordinator.hostile", tests, NULL, NULL);
}
