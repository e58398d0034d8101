#include "coordinator/record.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "common/buf.h"
#include "common/clock.h"
#include "common/fs.h"
#include "common/utf8.h"

enum { PIECE_MAX = 1 << 20, COLUMNS = 80, ROWS = 24, SEQUENCE_MAX = 4 };

/* One of the two streams. */
struct tap {
    int fd;                           /* where it goes */
    unsigned char kept[SEQUENCE_MAX]; /* the beginning of a character, until the rest comes */
    size_t kept_len;
    FILE *before;
};

static struct {
    pthread_mutex_t mutex; /* guards what follows */
    int file;              /* -1: no recording */
    int64_t start_ns;
    unsigned columns, rows; /* as the file says */
    int error;              /* errno of the first line that could not be written */
    struct tap out, err;
} record = { .mutex = PTHREAD_MUTEX_INITIALIZER, .file = -1 };

static void put_line(const struct ls_buf *line)
{
    if (record.error != 0)
        return;
    if (!line->ok)
        record.error = ENOMEM;
    else if (ls_fs_write_all(record.file, (struct ls_bytes){ line->data, line->len }, NULL) !=
             LS_OK)
        record.error = errno != 0 ? errno : EIO;
}

/* As a JSON string. */
static void put_text(struct ls_buf *line, const char *text, size_t len)
{
    ls_buf_adds(line, "\"");
    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)text[i];

        if (c == '\n')
            ls_buf_adds(line, "\\r\\n");
        else if (c == '"' || c == '\\')
            ls_buf_addf(line, "\\%c", c);
        else if (c < 0x20 || c == 0x7f)
            ls_buf_addf(line, "\\u%04x", c);
        else
            ls_buf_add(line, &c, 1);
    }
    ls_buf_adds(line, "\"");
}

static void put_event(const char *kind, const char *text, size_t len)
{
    int64_t ns = ls_clock_mono_ns() - record.start_ns;
    struct ls_buf line;

    ls_buf_init(&line, 8 * PIECE_MAX);
    ls_buf_addf(&line, "[%" PRId64 ".%06" PRId64 ", \"%s\", ", ns / LS_NS_PER_S,
                ns % LS_NS_PER_S / 1000, kind);
    put_text(&line, text, len);
    ls_buf_adds(&line, "]\n");
    put_line(&line);
    ls_buf_fini(&line);
}

static bool look_at_size(unsigned *out_columns, unsigned *out_rows)
{
    static const int fds[] = { STDERR_FILENO, STDOUT_FILENO };
    struct winsize size;

    for (size_t i = 0; i < LS_ARRAY_LEN(fds); i++) {
        if (ioctl(fds[i], TIOCGWINSZ, &size) == 0 && size.ws_col > 0 && size.ws_row > 0) {
            *out_columns = size.ws_col;
            *out_rows = size.ws_row;
            return true;
        }
    }
    *out_columns = COLUMNS;
    *out_rows = ROWS;
    return false;
}

/* A window that has changed since is an event of its own. */
static void note_size(void)
{
    unsigned columns, rows;
    char text[32];

    if (!look_at_size(&columns, &rows) || (columns == record.columns && rows == record.rows))
        return;
    record.columns = columns;
    record.rows = rows;
    (void)snprintf(text, sizeof(text), "%ux%u", columns, rows);
    put_event("r", text, strlen(text));
}

/* How many bytes at the end are the beginning of a character whose rest is still to come. */
static size_t unfinished(const char *text, size_t len)
{
    for (size_t back = 1; back < SEQUENCE_MAX && back <= len; back++) {
        unsigned char c = (unsigned char)text[len - back];
        size_t whole = c >= 0xf0 ? 4 : c >= 0xe0 ? 3 : c >= 0xc0 ? 2 : 1;

        if ((c & 0xc0) != 0x80)
            return whole > back ? back : 0;
    }
    return 0;
}

static void take(struct tap *tap, const char *data, size_t len)
{
    size_t total = tap->kept_len + len, left;
    char *text = malloc(total + 1);

    if (text == NULL) {
        record.error = record.error != 0 ? record.error : ENOMEM;
        return;
    }
    (void)memcpy(text, tap->kept, tap->kept_len);
    (void)memcpy(text + tap->kept_len, data, len);
    left = unfinished(text, total);
    (void)memcpy(tap->kept, text + total - left, left);
    tap->kept_len = left;
    total -= left;
    ls_utf8_clean(text, total);
    note_size();
    if (total > 0)
        put_event("o", text, total);
    free(text);
}

/* What the stream itself would have done comes first: a recording is never in its way. */
static ssize_t on_write(void *cookie, const char *data, size_t len)
{
    struct tap *tap = cookie;
    ssize_t put = 0;

    while ((size_t)put < len) {
        ssize_t n = write(tap->fd, data + put, len - (size_t)put);

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            break;
        put += n;
    }
    if (put > 0) {
        int error = errno;

        (void)pthread_mutex_lock(&record.mutex);
        for (size_t at = 0; at < (size_t)put; at += PIECE_MAX)
            take(tap, data + at, (size_t)put - at < PIECE_MAX ? (size_t)put - at : PIECE_MAX);
        (void)pthread_mutex_unlock(&record.mutex);
        errno = error;
    }
    return put;
}

static bool tap_stream(struct tap *tap, FILE **stream, int fd, int mode)
{
    FILE *file = fopencookie(tap, "w", (cookie_io_functions_t){ .write = on_write });

    if (file == NULL)
        return false;
    (void)fflush(*stream);
    (void)setvbuf(file, NULL, mode, BUFSIZ);
    *tap = (struct tap){ .fd = fd, .before = *stream };
    *stream = file;
    return true;
}

static void untap_stream(struct tap *tap, FILE **stream)
{
    FILE *file = *stream;

    if (tap->before == NULL)
        return;
    *stream = tap->before;
    (void)fclose(file); /* writes what it still holds; whoever wrote it has flushed and looked */
    tap->before = NULL;
}

static void put_header(const char *title)
{
    const char *term = getenv("TERM");
    struct ls_buf line;

    (void)look_at_size(&record.columns, &record.rows);
    ls_buf_init(&line, PIECE_MAX);
    ls_buf_addf(&line,
                "{\"version\": 2, \"width\": %u, \"height\": %u, \"timestamp\": %" PRId64
                ", \"title\": ",
                record.columns, record.rows, ls_clock_wall_ns() / LS_NS_PER_S);
    put_text(&line, title, strlen(title));
    ls_buf_adds(&line, ", \"env\": {\"TERM\": ");
    put_text(&line, term != NULL ? term : "dumb", strlen(term != NULL ? term : "dumb"));
    ls_buf_adds(&line, "}}\n");
    put_line(&line);
    ls_buf_fini(&line);
}

enum ls_err coord_record_begin(const char *path, const char *title, struct ls_diag *diag)
{
    record.file = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (record.file < 0)
        return ls_fail(diag, LS_EIO, "cannot write the recording %s: %s", path, strerror(errno));
    record.error = 0;
    record.start_ns = ls_clock_mono_ns();
    put_header(title);
    if (!tap_stream(&record.out, &stdout, STDOUT_FILENO,
                    isatty(STDOUT_FILENO) == 1 ? _IOLBF : _IOFBF) ||
        !tap_stream(&record.err, &stderr, STDERR_FILENO, _IOLBF)) {
        if (coord_record_end(NULL) != LS_OK) {
            /* What is said is that it could not begin. */
        }
        return ls_fail(diag, LS_ENOMEM, "no memory for the recording %s", path);
    }
    return LS_OK;
}

enum ls_err coord_record_end(struct ls_diag *diag)
{
    int error;

    if (record.file < 0)
        return LS_OK;
    untap_stream(&record.out, &stdout);
    untap_stream(&record.err, &stderr);
    error = record.error;
    if (close(record.file) != 0 && error == 0)
        error = errno;
    record.file = -1;
    return error == 0 ? LS_OK
                      : ls_fail(diag, LS_EIO, "the recording is not whole: %s", strerror(error));
}
