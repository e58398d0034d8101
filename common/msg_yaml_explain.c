#include "common/msg_yaml_explain.h"

#include <stdio.h>
#include <string.h>

#include "common/msg_model.h"
#include "common/utf8.h"

/* ---- before parsing ---------------------------------------------------------------------------
 */

struct position {
    uint32_t line;
    uint32_t column;
};

/* Of the byte at offset; columns count characters. */
static struct position position_at(struct ls_bytes text, size_t offset)
{
    struct position p = { 1, 1 };

    for (size_t i = 0; i < offset && i < text.len; i++) {
        unsigned char c = text.data[i];
        bool ends = c == '\n' || (c == '\r' && !(i + 1 < text.len && text.data[i + 1] == '\n'));

        if (ends) {
            p.line++;
            p.column = 1;
        } else if (c < 0x80 || c >= 0xc0) {
            p.column++;
        }
    }
    return p;
}

/* Offset of the first byte that is not UTF-8, text.len if there is none. NULs pass here. */
static size_t find_stray(struct ls_bytes text)
{
    size_t i = 0;

    while (i < text.len) {
        size_t len = text.data[i] == 0 ? 1 : ls_utf8_char_len(text.data + i, text.len - i);

        if (len == 0)
            break;
        i += len;
    }
    return i;
}

/* Offset of the first character that YAML does not allow, text.len if there is none. */
static size_t find_control(struct ls_bytes text)
{
    for (size_t i = 0; i < text.len; i++) {
        const unsigned char *c = text.data + i;
        size_t left = text.len - i;

        if ((*c < 0x20 && *c != '\t' && *c != '\n' && *c != '\r') || *c == 0x7f)
            return i;
        if (left > 1 && c[0] == 0xc2 && c[1] < 0xa0 && c[1] != 0x85)
            return i; /* C1 */
        if (left > 2 && c[0] == 0xef &&
            ((c[1] == 0xbb && c[2] == 0xbf) || (c[1] == 0xbf && c[2] >= 0xbe)))
            return i; /* byte order mark, U+FFFE, U+FFFF */
    }
    return text.len;
}

static bool starts_with(struct ls_bytes text, const char *bytes, size_t len)
{
    return text.len >= len && memcmp(text.data, bytes, len) == 0;
}

static void refuse_character(struct ls_issues *issues, struct ls_bytes text, size_t at)
{
    struct position p = position_at(text, at);
    unsigned char c = text.data[at];

    if (c == 0)
        ls_issues_add(issues, p.line, p.column, "", "holds a NUL byte: this is not a text file");
    else if (c < 0x80)
        ls_issues_add(issues, p.line, p.column, "",
                      "holds control character 0x%02x: remove it, or write it as \"\\x%02x\" in "
                      "double quotes",
                      c, c);
    else
        ls_issues_add(issues, p.line, p.column, "",
                      "holds an invisible control character: remove it");
}

bool ls_yaml_check_text(struct ls_issues *issues, struct ls_bytes *text)
{
    size_t at;

    if (text->len > LS_YAML_MAX_BYTES) {
        ls_issues_add(issues, 0, 0, "", "is %zu bytes long: the limit is %u MiB", text->len,
                      LS_YAML_MAX_BYTES >> 20);
        return false;
    }
    if (starts_with(*text, "\xef\xbb\xbf", 3)) {
        text->data += 3;
        text->len -= 3;
    }
    if (starts_with(*text, "\xff\xfe", 2) || starts_with(*text, "\xfe\xff", 2)) {
        ls_issues_add(issues, 1, 1, "", "is UTF-16: save it as UTF-8");
        return false;
    }
    at = find_stray(*text);
    if (at < text->len) {
        struct position p = position_at(*text, at);

        ls_issues_add(issues, p.line, p.column, "", "byte 0x%02x is not UTF-8: save it as UTF-8",
                      text->data[at]);
        return false;
    }
    at = find_control(*text);
    if (at < text->len) {
        refuse_character(issues, *text, at);
        return false;
    }
    return true;
}

/* ---- what the parser meant --------------------------------------------------------------------
 */

struct failure {
    struct ls_issues *issues;
    struct ls_bytes text;
    const char *problem; /* libyaml's words; never NULL */
    const char *context;
    yaml_mark_t at;
    yaml_mark_t from; /* where the construct began, if context is not empty */
    const struct ls_yaml_node *last_word;
};

static void say_at(const struct failure *f, const yaml_mark_t *mark, const char *text)
{
    ls_issues_add(f->issues, (uint32_t)mark->line + 1, (uint32_t)mark->column + 1, "", "%s", text);
}

/* The character at a mark, 0 at the end of the text. A mark's index counts characters. */
static unsigned char char_at(const struct failure *f, const yaml_mark_t *mark)
{
    size_t left = mark->index;

    for (size_t i = 0; i < f->text.len; i++) {
        if ((f->text.data[i] & 0xc0) == 0x80)
            continue;
        if (left-- == 0)
            return f->text.data[i];
    }
    return 0;
}

static bool has(const char *text, const char *part)
{
    return strstr(text, part) != NULL;
}

/* A colon where there can be none: ": " within a value, or a line that seems to go on the value
 * of the line above. */
static void explain_colon(const struct failure *f)
{
    char text[200];

    if (f->last_word != NULL && f->last_word->line != f->at.line + 1) {
        (void)snprintf(text, sizeof(text),
                       "this line reads as a part of line %u, which has a value already or lacks "
                       "its ':': correct that, or the indentation",
                       f->last_word->line);
        say_at(f, &f->at, text);
        return;
    }
    say_at(f, &f->at, "a second ': ' in one line: put the value in quotes");
}

/* A block mapping goes on with something that is no key. */
static void explain_key(const struct failure *f)
{
    char text[200];
    unsigned char c = char_at(f, &f->at);

    if (c == ']' || c == '}') {
        (void)snprintf(text, sizeof(text), "there is a '%c' too many", c);
        say_at(f, &f->at, text);
    } else if (f->last_word != NULL && !f->last_word->plain &&
               f->last_word->line == f->at.line + 1) {
        say_at(f, &f->at,
               "there is more behind the closing quote: put all of the value into one "
               "pair of quotes");
    } else if (c == '-') {
        say_at(f, &f->at,
               "a list item where a key is expected: a list stands below a key that "
               "has no other value");
    } else {
        (void)snprintf(text, sizeof(text),
                       "its indentation fits nothing above: align it with the keys that it "
                       "belongs to, for example those of line %zu",
                       f->from.line + 1);
        say_at(f, &f->at, text);
    }
}

static void explain_unclosed(const struct failure *f, char open, char close)
{
    char text[200];

    if (char_at(f, &f->at) == 0)
        (void)snprintf(text, sizeof(text), "'%c' is never closed: '%c' is missing", open, close);
    else
        (void)snprintf(text, sizeof(text),
                       "'%c' is not closed: ',' or '%c' is expected in line %zu, column %zu; "
                       "words with any of {}[],: belong in quotes",
                       open, close, f->at.line + 1, f->at.column + 1);
    say_at(f, &f->from, text);
}

static void explain_start(const struct failure *f, const yaml_mark_t *mark)
{
    char text[120];
    unsigned char c = char_at(f, mark);

    if (c == '\t') {
        say_at(f, mark, "a tab in the indentation: YAML takes spaces only");
        return;
    }
    if (c > 0x20 && c < 0x7f)
        (void)snprintf(text, sizeof(text), "a value cannot begin with '%c': put it in quotes", c);
    else
        (void)snprintf(text, sizeof(text), "a value is missing here");
    say_at(f, mark, text);
}

static void explain_other(const struct failure *f)
{
    char text[240];

    if (*f->context == '\0')
        (void)snprintf(text, sizeof(text), "is not YAML: %s", f->problem);
    else
        (void)snprintf(text, sizeof(text), "is not YAML: %s, %s that begins in line %zu",
                       f->problem, f->context, f->from.line + 1);
    say_at(f, &f->at, text);
}

/* Sentences that need nothing but a place. */
static const struct {
    const char *problem;
    bool at_start; /* where the construct began, not where it failed */
    const char *text;
} sentences[] = {
    { "block sequence entries are not allowed", false,
      "a list cannot begin behind its key: begin it on the next line, or write [a, b]" },
    { "found unexpected end of stream", true, "this quote is never closed" },
    { "found unexpected document indicator", true, "this quote is never closed" },
    { "found unknown escape character", false,
      "'\\' begins an escape in double quotes, and this one is none: write '\\\\', or use single "
      "quotes" },
    { "found invalid Unicode character escape code", false, "there is no such character" },
    { "did not find expected hexdecimal number", false,
      "'\\' begins an escape in double quotes, and this one lacks its digits" },
    { "could not find expected ':'", true, "a key needs ': ' and a value" },
    { "did not find expected '-' indicator", false,
      "a list item is expected here: begin it with '- ', or indent what belongs to the item above" },
    { "did not find expected comment or line break", false,
      "nothing but a comment may stand behind | or >: the text begins on the next line" },
    { "found a tab character", false, "a tab in the indentation: YAML takes spaces only" },
    { "found undefined tag handle", false, "tags are not read here: put the value in quotes" },
    { "did not find expected <document start>", false,
      "a second document begins here: a file holds one" },
    { "found incompatible YAML document", false, "YAML 1.1 and 1.2 are read: remove this line" },
};

static bool explain_by_table(const struct failure *f)
{
    for (size_t i = 0; i < LS_ARRAY_LEN(sentences); i++) {
        if (has(f->problem, sentences[i].problem)) {
            say_at(f, sentences[i].at_start && *f->context != '\0' ? &f->from : &f->at,
                   sentences[i].text);
            return true;
        }
    }
    return false;
}

void ls_yaml_explain(struct ls_issues *issues, const yaml_parser_t *parser, struct ls_bytes text,
                     const struct ls_yaml_node *last_word)
{
    const struct failure f = {
        .issues = issues,
        .text = text,
        .problem = parser->problem == NULL ? "something unexpected" : parser->problem,
        .context = parser->context == NULL ? "" : parser->context,
        .at = parser->problem_mark,
        .from = parser->context_mark,
        .last_word = last_word,
    };

    if (has(f.problem, "mapping values are not allowed"))
        explain_colon(&f);
    else if (has(f.problem, "did not find expected key"))
        explain_key(&f);
    else if (has(f.problem, "expected ',' or ']'"))
        explain_unclosed(&f, '[', ']');
    else if (has(f.problem, "expected ',' or '}'"))
        explain_unclosed(&f, '{', '}');
    else if (has(f.problem, "did not find expected node content") ||
             has(f.problem, "found character that cannot start any token"))
        explain_start(&f, &f.at);
    else if (has(f.context, "scanning an a") || has(f.context, "ing a tag"))
        explain_start(&f, &f.from); /* alias, anchor or tag, and not even a good one */
    else if (!explain_by_table(&f))
        explain_other(&f);
}
