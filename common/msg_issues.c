#include "common/msg_yaml.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/buf.h"
#include "common/msg_marks.h"

#define TEXT_MAX 600 /* bytes of one sentence */

void ls_issues_init(struct ls_issues *issues, const char *file)
{
    /* Without memory the issues still count; ls_issues_format() will say so. */
    *issues = (struct ls_issues){ .file = strdup(file) };
}

void ls_issues_fini(struct ls_issues *issues)
{
    for (size_t i = 0; i < issues->count; i++) {
        free(issues->items[i].path);
        free(issues->items[i].text);
    }
    free(issues->items);
    free(issues->file);
    *issues = (struct ls_issues){ 0 };
}

/* One issue is one line, whatever the file put into it. */
static void one_line(char *text)
{
    for (; *text != '\0'; text++) {
        if ((unsigned char)*text < 0x20 || *text == 0x7f)
            *text = ' ';
    }
}

static bool make_room(struct ls_issues *issues)
{
    struct ls_issue *items;

    if ((issues->count & (issues->count - 1)) != 0)
        return true; /* grows at powers of two */
    items = realloc(issues->items, (issues->count == 0 ? 1 : issues->count * 2) * sizeof(*items));
    if (items == NULL)
        return false;
    issues->items = items;
    return true;
}

static void add(struct ls_issues *issues, const char *origin, uint32_t line, uint32_t column,
                const char *path, char *text)
{
    struct ls_issue issue = { .line = line, .column = column, .origin = origin };

    one_line(text);
    if (issues->count >= LS_YAML_MAX_ISSUES || !make_room(issues)) {
        issues->dropped++;
        return;
    }
    issue.path = strdup(path);
    issue.text = strdup(text);
    if (issue.path == NULL || issue.text == NULL) {
        free(issue.path);
        free(issue.text);
        issues->dropped++;
        return;
    }
    one_line(issue.path);
    issues->items[issues->count++] = issue;
}

void ls_issues_add(struct ls_issues *issues, uint32_t line, uint32_t column, const char *path,
                   const char *fmt, ...)
{
    char text[TEXT_MAX];
    va_list ap;

    va_start(ap, fmt);
    (void)vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    add(issues, NULL, line, column, path, text);
}

void ls_issues_add_from(struct ls_issues *issues, const char *origin, uint32_t line,
                        uint32_t column, const char *path, const char *fmt, ...)
{
    char text[TEXT_MAX];
    va_list ap;

    va_start(ap, fmt);
    (void)vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    add(issues, origin, line, column, path, text);
}

/* Issues of the file by position, then those from elsewhere in the order in which they came. */
static bool comes_before(const struct ls_issue *a, const struct ls_issue *b)
{
    if ((a->origin == NULL) != (b->origin == NULL))
        return a->origin == NULL;
    if (a->line != b->line)
        return a->line < b->line;
    return a->column < b->column;
}

void ls_issues_sort(struct ls_issues *issues)
{
    /* Insertion: stable, and there are never more than LS_YAML_MAX_ISSUES. */
    for (size_t i = 1; i < issues->count; i++) {
        struct ls_issue issue = issues->items[i];
        size_t at = i;

        for (; at > 0 && comes_before(&issue, &issues->items[at - 1]); at--)
            issues->items[at] = issues->items[at - 1];
        issues->items[at] = issue;
    }
}

char *ls_issues_format(const struct ls_issues *issues)
{
    const char *file = issues->file == NULL ? "plan" : issues->file;
    struct ls_buf buf;
    char *text;

    ls_buf_init(&buf, (size_t)1 << 24);
    for (size_t i = 0; i < issues->count; i++) {
        const struct ls_issue *issue = &issues->items[i];

        ls_buf_adds(&buf, issue->origin == NULL ? file : issue->origin);
        if (issue->line > 0)
            ls_buf_addf(&buf, ":%u:%u", issue->line, issue->column);
        ls_buf_addf(&buf, ": %s%s%s\n", issue->path, issue->path[0] == '\0' ? "" : ": ",
                    issue->text);
    }
    if (issues->dropped > 0)
        ls_buf_addf(&buf, "%s: %zu more mistakes are not shown\n", file, issues->dropped);
    text = ls_buf_detach(&buf);
    ls_buf_fini(&buf);
    return text;
}

/* ---- the name that was meant ------------------------------------------------------------------
 */

#define WORD_MAX 48

/* Case and the choice of - or _ count for nothing. */
static char folded(char c)
{
    return (char)(c == '-' ? '_' : tolower((unsigned char)c));
}

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Insertions, deletions, replacements and swaps of neighbours (optimal string alignment). */
static size_t distance(const char *a, size_t a_len, const char *b, size_t b_len)
{
    size_t rows[3][WORD_MAX + 1];
    size_t *before = rows[0];
    size_t *above = rows[1];
    size_t *row = rows[2];

    for (size_t j = 0; j <= b_len; j++)
        above[j] = j;
    for (size_t i = 1; i <= a_len; i++) {
        size_t *turn = before;

        row[0] = i;
        for (size_t j = 1; j <= b_len; j++) {
            bool same = folded(a[i - 1]) == folded(b[j - 1]);

            row[j] = least(least(above[j], row[j - 1]) + 1, above[j - 1] + !same);
            if (i > 1 && j > 1 && folded(a[i - 1]) == folded(b[j - 2]) &&
                folded(a[i - 2]) == folded(b[j - 1]))
                row[j] = least(row[j], before[j - 2] + 1);
        }
        before = above;
        above = row;
        row = turn;
    }
    return above[b_len];
}

const char *ls_closest(const char *word, const char *const *candidates, size_t count)
{
    size_t len = strlen(word);
    const char *best = NULL;
    size_t best_distance = 0;

    if (len == 0 || len > WORD_MAX)
        return NULL;
    for (size_t i = 0; i < count; i++) {
        size_t other = candidates[i] == NULL ? 0 : strlen(candidates[i]);
        size_t longer = len > other ? len : other;
        size_t d;

        if (other == 0 || other > WORD_MAX)
            continue;
        d = distance(word, len, candidates[i], other);
        /* One slip in three letters; a word of one or two letters only in its spelling. */
        if (d <= longer / 3 && (best == NULL || d < best_distance)) {
            best = candidates[i];
            best_distance = d;
        }
    }
    return best;
}
