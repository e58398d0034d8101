/* What real servers have sent over HTTP/2, or instead of it, is understood in any slicing: the
 * files h2-* of the folder that LS_CAPTURES names. Without one, nothing is tested; the cases of
 * test_http2.c hold the same frames, written by hand. */
#include "tests/support/test.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/load/http2_frame.h"
#include "common/fs.h"
#include "tests/support/http2_talk.h"

#define BYTES(text)                                     \
    {                                                   \
        (const unsigned char *)(text), sizeof(text) - 1 \
    }

enum { NO_TEST = 77, FILE_MAX = 1 << 20 };

static const struct load_request hello[] = {
    { .bytes = BYTES("GET / HTTP/1.1\r\nHost: x\r\n\r\n"),
      .label = "GET /",
      .expect_body_given = true,
      .expect_body = BYTES("Hello, World!") },
};

/* Three requests were made where the file's name says ack3, else the first alone was answered. */
static const char *expected(const char *name, const char *data)
{
    if (strncmp(data, "HTTP/1.1 ", 9) == 0)
        return "bad_framing 0 0: the server does not speak h2c (HTTP/2 without TLS): it answers in "
               "HTTP/1 | - | -";
    if (strstr(name, ".ack3.") != NULL)
        return "ok 200 13 | ok 200 13 | ok 200 13";
    if (strstr(name, ".hello.") != NULL)
        return "ok 200 13 | - | -";
    if (strstr(name, ".ping.") != NULL)
        return "- | - | -";
    return "again | again | again"; /* GOAWAY, before anything */
}

static void check(const char *name, const struct http2_work *work, struct ls_bytes all, size_t step)
{
    struct http2_talk talk;
    char replies[TALK_TEXT];
    size_t first = all.len > HTTP2_HEAD_BYTES && all.data[3] == HTTP2_SETTINGS
                       ? HTTP2_HEAD_BYTES + http2_frame_len(all.data)
                       : 0;

    http2_talk_begin(&talk, work);
    http2_talk_submit(&talk, 3);
    http2_talk_feed(&talk, (struct ls_bytes){ all.data, first }, step);
    http2_talk_feed(&talk, (struct ls_bytes){ all.data + first, all.len - first }, step);
    if (strcmp(http2_talk_replies(&talk, replies), expected(name, (const char *)all.data)) != 0)
        fail_msg("%s in pieces of %zu:\n  want %s\n  seen %s", name, step,
                 expected(name, (const char *)all.data), replies);
    talk.driver->eof(talk.conn, LOAD_CLOSED_EARLY);
    assert_int_equal(talk.ended, talk.submitted);
    http2_talk_end(&talk);
}

static int is_http2(const struct dirent *entry)
{
    return strncmp(entry->d_name, "h2-", 3) == 0;
}

static void every_capture_is_understood(void **state)
{
    const char *folder = getenv("LS_CAPTURES");
    struct dirent **names = NULL;
    struct http2_work work;
    int count;

    (void)state;
    http2_work_init(&work, hello, 1, 3);
    count = scandir(folder, &names, is_http2, alphasort);
    assert_true(count > 0);
    for (int i = 0; i < count; i++) {
        char path[1024];
        char *data = NULL;
        size_t len = 0;

        (void)snprintf(path, sizeof(path), "%s/%s", folder, names[i]->d_name);
        assert_int_equal(ls_fs_read(path, FILE_MAX, &data, &len, NULL), LS_OK);
        for (size_t step = 1; step <= len; step++)
            check(names[i]->d_name, &work, (struct ls_bytes){ (unsigned char *)data, len }, step);
        free(data);
        free(names[i]);
    }
    free(names);
    http2_work_fini(&work);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(every_capture_is_understood) };

    if (getenv("LS_CAPTURES") == NULL) {
        print_message("LS_CAPTURES names no folder\n");
        return NO_TEST;
    }
    return cmocka_run_group_tests_name("agent.http2_captures", tests, NULL, NULL);
}
