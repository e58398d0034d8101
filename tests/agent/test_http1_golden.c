/* Every recorded answer of a real server is understood, whole and in pieces. Two folders with one
 * notation: tests/golden/http1, always, and the larger one that LS_CAPTURES names, if it does. */
#include "tests/support/test.h"

#include <dirent.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/load/driver.h"
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

/* ---- the driver sees no less: what it makes of a connection does not depend on pieces either ----
 */

#define ASKED 64

struct driven {
    unsigned count;
    struct agent_reply replies[ASKED];
};

static void on_done(void *ctx, uint32_t op, const struct agent_reply *reply)
{
    struct driven *driven = ctx;

    assert_int_equal(op, driven->count);
    driven->replies[driven->count] = *reply;
    driven->replies[driven->count++].more = false; /* that is about pieces */
}

/* Asks ASKED times; what comes back is taken whatever it is. */
static void drive(const struct capture *capture, size_t step, struct driven *out)
{
    static const struct load_request get = { .bytes = { (const unsigned char *)"x", 1 },
                                             .label = "GET" };
    static const struct load_request head = { .bytes = { (const unsigned char *)"x", 1 },
                                              .label = "HEAD",
                                              .no_body = true };
    const struct agent_driver *driver = agent_driver_find("http1");
    static unsigned char conn[1024];
    struct load_request requests[ASKED];
    struct load_workload workload = { .requests = requests,
                                      .request_count = ASKED,
                                      .pipeline = ASKED };
    struct agent_driver_env env = { .workload = &workload, .done = on_done, .ctx = out };
    unsigned char sink[ASKED];
    enum ls_err rc = LS_OK;
    uint32_t most;

    memset(out, 0, sizeof(*out));
    memset(conn, 0, sizeof(conn));
    assert_true(driver->conn_size <= sizeof(conn));
    assert_int_equal(driver->open(conn, &env, &most), LS_OK);
    for (unsigned i = 0; i < ASKED; i++) {
        bool to_head = (flags_of((void *)(uintptr_t)capture, i) & HTTP1_TO_HEAD) != 0;

        requests[i] = to_head ? head : get;
        assert_int_equal(driver->submit(conn, i, i), LS_OK);
    }
    assert_int_equal(driver->drain(conn, sink, sizeof(sink), NULL), ASKED);
    for (size_t at = 0; at < capture->len && rc == LS_OK; at += step) {
        size_t n = capture->len - at < step ? capture->len - at : step;

        rc = driver->feed(conn, (struct ls_bytes){ (unsigned char *)capture->data + at, n });
    }
    driver->eof(conn, LOAD_CLOSED_EARLY);
    driver->close(conn);
    assert_int_equal(out->count, ASKED);
}

static void check_driver(const struct capture *capture)
{
    static struct driven pieces;
    static struct driven whole;

    drive(capture, 1, &pieces); /* a head in pieces is always parsed */
    for (unsigned round = 0; round < 3; round++) {
        drive(capture, capture->len + 1, &whole); /* learns, knows, knows */
        for (unsigned i = 0; i < ASKED; i++) {
            const struct agent_reply *a = &pieces.replies[i];
            const struct agent_reply *b = &whole.replies[i];

            if (a->outcome != b->outcome || a->status != b->status ||
                a->body_bytes != b->body_bytes || a->mismatch_at != b->mismatch_at ||
                strcmp(a->why, b->why) != 0)
                fail_msg("%s, answer %u: %s %u (%s) in pieces, %s %u (%s) whole", capture->name, i,
                         load_outcome_name(a->outcome), a->status, a->why,
                         load_outcome_name(b->outcome), b->status, b->why);
        }
    }
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
        check_driver(&capture);
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
