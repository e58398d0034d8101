/* Every recorded answer of a real server is understood, whole and in pieces. Two folders with one
 * notation: tests/golden/http1, always, and the larger one that LS_CAPTURES names, if it does. */
#include "tests/support/test.h"

#include <dirent.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/fs.h"
#include "tests/support/guard.h"
#include "tests/support/http1_view.h"

enum { TEXT_BYTES = 8192, FILE_MAX = 1 << 20, NO_TEST = 77 };

struct capture {
    char name[128];
    const char *expect; /* NULL: not in EXPECT.tsv */
    char *data;         /* owned */
    size_t len;
};

static const char *folder;
static char *table; /* EXPECT.tsv, cut into lines and fields */
static size_t table_len;

/* Which requests were sent is not in the bytes; the file's name tells. */
static unsigned flags_of(void *ctx, unsigned index)
{
    const struct capture *capture = ctx;

    if (strstr(capture->name, ".head.") != NULL)
        return HTTP1_TO_HEAD;
    if (strstr(capture->name, ".mixpipe.") != NULL)
        return index == 1 ? HTTP1_TO_HEAD : 0;
    return strncmp(capture->name, "ws-", 3) == 0 ? HTTP1_TO_UPGRADE : 0;
}

static struct http1_view view;
static unsigned hits; /* heads that were not parsed, but known */

/* The bytes in two pieces, or one by one if at is more than there are. */
static void render(const struct capture *capture, size_t at, struct guard *guard, char *out)
{
    size_t from = 0;

    /* The body is large and may stay. */
    memset(&view.parser, 0, sizeof(view.parser));
    view.begun = view.over = false;
    view.index = view.rows = view.hits = 0;
    view.flags_of = flags_of;
    view.ctx = (void *)(uintptr_t)capture;

    while (from < capture->len) {
        size_t to = at > capture->len ? from + 1 : from < at ? at : capture->len;
        struct ls_bytes piece = { (unsigned char *)capture->data + from, to - from };

        http1_view_feed(&view, guard != NULL ? guard_copy(guard, piece) : piece);
        from = to;
    }
    http1_view_end(&view);
    http1_view_text(&view, out, TEXT_BYTES);
    hits += view.hits;
}

/* What is not in the table: pieces of answers, other protocols. */
static const char *rule_for(const struct capture *capture, const char *seen)
{
    if (strncmp(capture->name, "h2-", 3) == 0 && capture->data[0] == 0)
        return strcmp(seen, "BAD the server speaks HTTP/2 here") == 0 ? NULL : "refused as HTTP/2";
    if (strstr(capture->name, ".file-head.") != NULL)
        return strncmp(seen, "HTTP/1.1 200 ", 13) == 0 || strncmp(seen, "HTTP/1.1 404 ", 13) == 0
                   ? NULL
                   : "a cut answer";
    return strncmp(seen, "HTTP/1.1 ", 9) == 0 && strstr(seen, "BAD") == NULL &&
                   strstr(seen, "CUT") == NULL && strstr(seen, "SHORT") == NULL
               ? NULL
               : "complete answers";
}

/* With a template the same is seen, whatever it has learned before: from other captures at first.
 */
static void check_with_template(const struct capture *capture, struct guard *guard,
                                const char *want)
{
    static struct http1_template template;
    char seen[TEXT_BYTES];

    view.template = &template;
    for (size_t at = capture->len; at > 0; at -= at > 16 ? at / 16 : 1) {
        render(capture, at, guard, seen);
        if (strcmp(want, seen) != 0)
            fail_msg("%s, with a template, split at %zu:\n  want %s\n  seen %s", capture->name, at,
                     want, seen);
    }
    view.template = NULL;
}

static void check_capture(const struct capture *capture, struct guard *guard)
{
    char whole[TEXT_BYTES];
    char pieces[TEXT_BYTES];
    const char *want = capture->expect;

    render(capture, capture->len, guard, whole);
    if (want != NULL && strcmp(want, whole) != 0)
        fail_msg("%s:\n  want %s\n  seen %s", capture->name, want, whole);
    if (want == NULL && (want = rule_for(capture, whole)) != NULL)
        fail_msg("%s:\n  want %s\n  seen %s", capture->name, want, whole);

    render(capture, capture->len + 1, guard, pieces);
    if (strcmp(whole, pieces) != 0)
        fail_msg("%s, byte by byte:\n  want %s\n  seen %s", capture->name, whole, pieces);
    for (size_t at = 1; at < capture->len; at++) {
        render(capture, at, NULL, pieces);
        if (strcmp(whole, pieces) != 0)
            fail_msg("%s, split at %zu:\n  want %s\n  seen %s", capture->name, at, whole, pieces);
    }
    check_with_template(capture, guard, whole);
}

/* The third field of the line that begins with name; NULL if there is none. */
static const char *expectation(const char *name)
{
    const char *end = table + table_len;

    for (const char *at = table; at < end;) {
        const char *peer = at + strlen(at) + 1;
        const char *expect = peer + strlen(peer) + 1;

        if (expect >= end)
            break;
        if (strcmp(at, name) == 0)
            return expect;
        at = expect + strlen(expect) + 1;
    }
    return NULL;
}

static void load_table(void)
{
    char path[512];
    struct ls_diag diag;

    (void)snprintf(path, sizeof(path), "%s/EXPECT.tsv", folder);
    if (ls_fs_read(path, FILE_MAX, &table, &table_len, &diag) != LS_OK)
        fail_msg("%s", diag.text);
    for (size_t i = 0; i < table_len; i++) {
        if (table[i] == '\t' || table[i] == '\n')
            table[i] = '\0';
    }
}

/* Rows without bytes, or with a remark instead of a result, only have to be taken without harm. */
static const char *usable(const char *expect)
{
    if (expect != NULL && strcmp(expect, "(no bytes)") == 0)
        return "";
    return expect != NULL && expect[0] == '\0' ? "CUT closed within the head" : expect;
}

static void answers_are_seen_as_the_table_says_in_any_fragmentation(void **state)
{
    DIR *dir = opendir(folder);
    struct dirent *entry;
    struct guard guard;
    unsigned files = 0;

    (void)state;
    assert_non_null(dir);
    load_table();
    guard_init(&guard, FILE_MAX);
    while ((entry = readdir(dir)) != NULL) {
        struct capture capture = { .expect = usable(expectation(entry->d_name)) };
        char path[512];
        struct ls_diag diag;

        if (strstr(entry->d_name, ".bin") == NULL)
            continue;
        (void)snprintf(capture.name, sizeof(capture.name), "%.100s", entry->d_name);
        (void)snprintf(path, sizeof(path), "%s/%.100s", folder, entry->d_name);
        if (ls_fs_read(path, FILE_MAX, &capture.data, &capture.len, &diag) != LS_OK)
            fail_msg("%s", diag.text);
        check_capture(&capture, &guard);
        free(capture.data);
        files++;
    }
    (void)closedir(dir);
    guard_fini(&guard);
    free(table);
    print_message("%u recorded connections, %u known heads\n", files, hits);
    assert_true(files > 0);
    assert_true(hits > files); /* or templates were not tried at all */
}

/* "captures" as argument: the folder that LS_CAPTURES names, or one beside the checkout. */
int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(
        answers_are_seen_as_the_table_says_in_any_fragmentation) };

    folder = LS_SOURCE "/tests/golden/http1";
    if (argc > 1 && strcmp(argv[1], "captures") == 0) {
        DIR *dir;

        folder = getenv("LS_CAPTURES");
        if (folder == NULL)
            folder = LS_SOURCE "/../shared/captures";
        dir = opendir(folder);
        if (dir == NULL) {
            print_message("no captures: set LS_CAPTURES\n");
            return NO_TEST;
        }
        (void)closedir(dir);
    }
    return cmocka_run_group_tests_name("agent.http1_golden", tests, NULL, NULL);
}
