/* Every recorded answer of a real WebSocket server is understood, whole and in pieces: what
 * tests/golden/websocket holds, always, and the larger ones of the folder that LS_CAPTURES names.
 */
#include "tests/support/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/load/ws_frame.h"
#include "agent/load/ws_handshake.h"
#include "common/fs.h"
#include "tests/support/guard.h"

enum { TEXT_BYTES = 1024, FILE_MAX = 1 << 20, NO_TEST = 77 };

#define KEY_PLACE "AAAAAAAAAAAAAAAAAAAAAA=="

/* What a capture says: the handshake, then frame by frame. */
static const struct {
    const char *file;
    const char *want;
} captures[] = {
    { "ws-bun.badkey.bin", "426: the server did not agree to the upgrade" },
    { "ws-bun.badutf8.bin", "101 text 5 \"ready\" close 1007" },
    { "ws-bun.close1000.bin", "101 text 5 \"ready\" close 1000" },
    { "ws-bun.deflate-offer.bin", "101 text 5 \"ready\" text 5 \"a: hi\"" },
    { "ws-bun.early.bin", "101 text 22 \"a: sent with handshake\" text 5 \"ready\"" },
    { "ws-bun.frag.bin", "101 text 5 \"ready\" pong 2 text 8 \"a: Hello\"" },
    { "ws-bun.noupgrade.bin", "426: the server did not agree to the upgrade" },
    { "ws-bun.plain.bin", "101 text 5 \"ready\" text 15 \"a: Hello World!\"" },
    { "ws-bun.unmasked.bin", "101 text 5 \"ready\" close 1002" },
    { "ws-bun.version8.bin", "426: the server did not agree to the upgrade" },
    { "ws-node-ws.badkey.bin", "400: the server did not agree to the upgrade" },
    { "ws-node-ws.badutf8.bin", "101 text 5 \"ready\" close 1007" },
    { "ws-node-ws.close1000.bin", "101 text 5 \"ready\" close 1000" },
    { "ws-node-ws.deflate-offer.bin", "101 text 5 \"ready\" text 5 \"a: hi\"" },
    { "ws-node-ws.early.bin", "101 text 22 \"a: sent with handshake\" text 5 \"ready\"" },
    { "ws-node-ws.frag.bin", "101 text 5 \"ready\" pong 2 text 8 \"a: Hello\"" },
    { "ws-node-ws.noupgrade.bin", "426: the server did not agree to the upgrade" },
    { "ws-node-ws.plain.bin", "101 text 5 \"ready\" text 15 \"a: Hello World!\"" },
    { "ws-node-ws.unmasked.bin", "101 text 5 \"ready\" close 1002" },
    { "ws-node-ws.version8.bin", "101 text 5 \"ready\"" },
};

static const struct {
    const char *file;
    const char *want;
} large[] = {
    { "ws-bun.big70k.bin", "101 text 5 \"ready\" text 70003 \"a: aaaaaaaaaaaaaaaaaaaaa\"" },
    { "ws-node-ws.big70k.bin", "101 text 5 \"ready\" text 70003 \"a: aaaaaaaaaaaaaaaaaaaaa\"" },
};

static const struct load_websocket websocket = {
    .handshake = { (const unsigned char *)KEY_PLACE, sizeof(KEY_PLACE) - 1 },
};

/* A reading under way. */
struct view {
    struct ws_handshake *handshake; /* owned; NULL: agreed, or refused */
    bool over;
    struct ws_reader reader;
    size_t got;
    char start[25];
    char out[TEXT_BYTES];
    size_t len;
};

static void say(struct view *v, const char *text)
{
    size_t n = strlen(text);

    assert_true(v->len + n < sizeof(v->out));
    memcpy(v->out + v->len, text, n + 1);
    v->len += n;
}

static void begin(struct view *v)
{
    static const unsigned char nonce[] = "the sample nonce"; /* of RFC 6455, section 1.3 */

    *v = (struct view){ .reader = { .limit = 1 << 20 } };
    assert_int_equal(ws_handshake_create(&websocket, 0, nonce, &v->handshake), LS_OK);
    assert_memory_equal(v->handshake->out, "dGhlIHNhbXBsZSBub25jZQ==", 24);
}

static void shake(struct view *v, struct ls_bytes *in)
{
    struct ws_agreement agreement;
    enum ws_handshake_step step = ws_handshake_take(v->handshake, &websocket, in, &agreement);
    char text[200];

    if (step == WS_SHAKE_MORE)
        return;
    (void)snprintf(text, sizeof(text), "%u%s%s", agreement.status, step == WS_SHAKE_BAD ? ": " : "",
                   agreement.why);
    say(v, text);
    v->over = step == WS_SHAKE_BAD;
    free(v->handshake);
    v->handshake = NULL;
}

static void control(struct view *v)
{
    char text[64];

    if (v->reader.opcode == WS_CLOSE)
        (void)snprintf(text, sizeof(text), " close %u",
                       ws_close_code_read(v->reader.control, v->reader.control_len));
    else
        (void)snprintf(text, sizeof(text), " %s %u", v->reader.opcode == WS_PING ? "ping" : "pong",
                       v->reader.control_len);
    say(v, text);
}

static void frames(struct view *v, struct ls_bytes *in)
{
    struct ls_bytes piece;
    char text[128];

    switch (ws_read(&v->reader, in, &piece)) {
    case WS_PIECE:
        for (size_t i = 0; i < piece.len && v->got + i < sizeof(v->start) - 1; i++)
            v->start[v->got + i] = (char)piece.data[i];
        v->got += piece.len;
        return;
    case WS_MESSAGE_END:
        (void)snprintf(text, sizeof(text), " %s %zu \"%s\"",
                       v->reader.type == WS_TEXT ? "text" : "binary", v->got, v->start);
        say(v, text);
        memset(v->start, 0, sizeof(v->start));
        v->got = 0;
        return;
    case WS_CONTROL:
        control(v);
        return;
    case WS_BAD:
        say(v, " bad: ");
        say(v, v->reader.why);
        v->over = true;
        return;
    case WS_MORE:
        return;
    }
}

static void feed(struct view *v, struct ls_bytes in)
{
    while (!v->over && (in.len > 0 || ws_reader_is_ending(&v->reader))) {
        if (v->handshake != NULL)
            shake(v, &in);
        else
            frames(v, &in);
    }
}

/* In pieces of step bytes after the first of at. */
static void check(const char *file, struct ls_bytes bytes, size_t at, size_t step,
                  struct guard *guard, const char *want)
{
    struct view v;
    size_t from = 0;

    begin(&v);
    while (from < bytes.len) {
        size_t to = from == 0 ? at : from + step;
        struct ls_bytes piece = { bytes.data + from, (to < bytes.len ? to : bytes.len) - from };

        feed(&v, guard_copy(guard, piece));
        from += piece.len;
    }
    free(v.handshake);
    if (strcmp(v.out, want) != 0)
        fail_msg("%s, %zu then %zu bytes:\n  want %s\n  seen %s", file, at, step, want, v.out);
}

static void check_file(const char *folder, const char *file, const char *want, size_t splits)
{
    char path[512];
    char *data = NULL;
    size_t len = 0;
    struct guard guard;
    struct ls_diag diag;

    (void)snprintf(path, sizeof(path), "%s/%s", folder, file);
    if (ls_fs_read(path, FILE_MAX, &data, &len, &diag) != LS_OK)
        fail_msg("%s", diag.text);
    guard_init(&guard, len);
    for (size_t at = 1; at <= len && at <= splits; at++)
        check(file, (struct ls_bytes){ (unsigned char *)data, len }, at, len, &guard, want);
    check(file, (struct ls_bytes){ (unsigned char *)data, len }, 1, 1, &guard, want);
    check(file, (struct ls_bytes){ (unsigned char *)data, len }, 3, 7, &guard, want);
    check(file, (struct ls_bytes){ (unsigned char *)data, len }, len, len, &guard, want);
    guard_fini(&guard);
    free(data);
}

static void every_capture_is_understood_in_any_slicing(void **state)
{
    (void)state;
    for (size_t i = 0; i < LS_ARRAY_LEN(captures); i++)
        check_file(LS_SOURCE "/tests/golden/websocket", captures[i].file, captures[i].want,
                   FILE_MAX);
}

static void so_are_the_large_ones(void **state)
{
    const char *folder = getenv("LS_CAPTURES");

    (void)state;
    if (folder == NULL)
        skip();
    for (size_t i = 0; i < LS_ARRAY_LEN(large); i++)
        check_file(folder, large[i].file, large[i].want, 300);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_capture_is_understood_in_any_slicing),
        cmocka_unit_test(so_are_the_large_ones),
    };

    return cmocka_run_group_tests_name("agent.ws_golden", tests, NULL, NULL);
}
