#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/buf.h"
#include "common/fs.h"
#include "common/hist_log.h"
#include "common/msg_json.h"
#include "coordinator/result/raw.h"
#include "coordinator/result/store_internal.h"

#define JOURNAL         "journal"
#define LINES_MAX_BYTES (16u << 20) /* of a report, whose histograms are 512 KiB each at most */
#define TARGET_LOG      "target.log"
#define BATCH_BYTES     (64u << 10) /* of the journal or a table, that are written together */

static const char *const table_names[] = { COORD_RAW_INTERVALS, COORD_RAW_SERVER };
static_assert(LS_ARRAY_LEN(table_names) == COORD_TABLE_COUNT, "a name for each table");

struct coord_store_hlog {
    char name[96]; /* client-NAME.hlog */
    char *client;  /* as the agent is called, NULL: all; owned */
    bool coarse;   /* of all, in few lines */
    FILE *file;    /* unbuffered: a disk that is full ends the trial, and not only its last step */
    struct ls_buf *lines; /* of the trial */
    struct coord_store_hlog *next;
};

/* A file that is appended to in batches: thousands of reports come at the same instant. */
struct batch {
    int fd; /* owned; -1: not begun */
    struct ls_buf data;
};

struct coord_store_trial {
    struct coord_store *store;
    char folder[160];    /* trials/001-node-hello-r1 */
    char part[PATH_MAX]; /* where it is written, absolute or as the store's folder is given */
    struct batch journal;
    struct batch tables[COORD_TABLE_COUNT];
    int log_fd; /* target.log, -1: not begun */
    struct coord_store_hlog *logs;
    struct ls_buf lines; /* of the report at hand */
};

static void batch_init(struct batch *batch)
{
    batch->fd = -1;
    ls_buf_init(&batch->data, BATCH_BYTES);
}

static void batch_fini(struct batch *batch)
{
    if (batch->fd >= 0)
        (void)close(batch->fd);
    ls_buf_fini(&batch->data);
}

static enum ls_err batch_flush(struct batch *batch, struct ls_diag *diag)
{
    struct ls_bytes data = { batch->data.data, batch->data.len };
    enum ls_err rc = data.len > 0 ? ls_fs_write_all(batch->fd, data, diag) : LS_OK;

    ls_buf_reset(&batch->data); /* what cannot be written is not tried again */
    return rc;
}

static enum ls_err batch_add(struct batch *batch, struct ls_bytes data, struct ls_diag *diag)
{
    enum ls_err rc = LS_OK;

    if (data.len > BATCH_BYTES - batch->data.len)
        rc = batch_flush(batch, diag);
    if (rc == LS_OK && data.len > BATCH_BYTES)
        return ls_fs_write_all(batch->fd, data, diag);
    if (rc == LS_OK)
        ls_buf_add(&batch->data, data.data, data.len);
    return rc == LS_OK && !batch->data.ok ? ls_fail(diag, LS_ENOMEM, "out of memory") : rc;
}

static void close_trial(struct coord_store_trial *trial)
{
    while (trial->logs != NULL) {
        struct coord_store_hlog *log = trial->logs;

        trial->logs = log->next;
        if (log->file != NULL)
            (void)fclose(log->file);
        free(log->client);
        free(log);
    }
    batch_fini(&trial->journal);
    for (unsigned i = 0; i < COORD_TABLE_COUNT; i++)
        batch_fini(&trial->tables[i]);
    if (trial->log_fd >= 0)
        (void)close(trial->log_fd);
    ls_buf_fini(&trial->lines);
    trial->store->trial = NULL;
    free(trial);
}

void coord_store_trial_discard(struct coord_store_trial *trial)
{
    if (trial == NULL)
        return;
    if (ls_fs_remove_tree(trial->part, NULL) != LS_OK) {
        /* What stays is recognised by its name, and removed when the run is resumed. */
    }
    close_trial(trial);
}

const char *coord_store_trial_folder(const struct coord_store_trial *trial)
{
    return trial->folder;
}

static enum ls_err create_in(const struct coord_store_trial *trial, const char *name, int flags,
                             int *out_fd, struct ls_diag *diag)
{
    char path[PATH_MAX];
    enum ls_err rc = coord_path(trial->part, name, path, diag);

    if (rc != LS_OK)
        return rc;
    *out_fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW | flags, 0644);
    if (*out_fd < 0)
        return ls_fail(diag, LS_EIO, "cannot create %s: %s", path, strerror(errno));
    return LS_OK;
}

static enum ls_err make_folder(struct coord_store_trial *trial, struct ls_diag *diag)
{
    char path[PATH_MAX];
    enum ls_err rc = coord_path(trial->store->dir, trial->folder, path, diag);

    if (rc != LS_OK)
        return rc;
    if (snprintf(trial->part, sizeof(trial->part), "%s" COORD_PART, path) >=
        (int)sizeof(trial->part))
        return ls_fail(diag, LS_ERANGE, "the path %.100s... is too long", path);
    rc = ls_fs_remove_tree(trial->part, diag);
    if (rc != LS_OK)
        return rc;
    /* Not mkdirs: a result folder that has vanished must not come back half. */
    if (mkdir(trial->part, 0755) != 0)
        return ls_fail(diag, LS_EIO, "cannot create the folder %s: %s", trial->part,
                       strerror(errno));
    return LS_OK;
}

enum ls_err coord_store_trial_begin(struct coord_store *store, uint32_t index, const char *target,
                                    const char *workload, uint32_t repetition,
                                    struct coord_store_trial **out_trial, struct ls_diag *diag)
{
    struct coord_store_trial *trial;
    enum ls_err rc;

    if (store->trial != NULL)
        return ls_fail(diag, LS_ESTATE, "a trial is open already");
    trial = calloc(1, sizeof(*trial));
    if (trial == NULL)
        return ls_fail(diag, LS_ENOMEM, "no memory for a trial");
    trial->store = store;
    trial->log_fd = -1;
    batch_init(&trial->journal);
    for (unsigned i = 0; i < COORD_TABLE_COUNT; i++)
        batch_init(&trial->tables[i]);
    ls_buf_init(&trial->lines, LINES_MAX_BYTES);
    coord_path_trial(index, target, workload, repetition, trial->folder, sizeof(trial->folder));
    rc = make_folder(trial, diag);
    if (rc == LS_OK)
        rc = create_in(trial, JOURNAL, O_APPEND, &trial->journal.fd, diag);
    if (rc != LS_OK) {
        coord_store_trial_discard(trial);
        return rc;
    }
    store->trial = trial;
    *out_trial = trial;
    return LS_OK;
}

/* ---- while it runs */

static void put_u32(unsigned char *out, uint32_t x)
{
    for (unsigned i = 0; i < 4; i++)
        out[i] = (unsigned char)(x >> (8 * i));
}

/* A record: agent and length, 32 bits each, little endian; the envelope as it came. */
enum ls_err coord_store_append(struct coord_store_trial *trial, uint32_t agent,
                               struct ls_bytes envelope, struct ls_diag *diag)
{
    unsigned char head[8];
    enum ls_err rc;

    if (envelope.len > UINT32_MAX)
        return ls_fail(diag, LS_ERANGE, "a report of %zu bytes is too large", envelope.len);
    put_u32(head, agent);
    put_u32(head + 4, (uint32_t)envelope.len);
    rc = batch_add(&trial->journal, (struct ls_bytes){ head, sizeof(head) }, diag);
    if (rc == LS_OK)
        rc = batch_add(&trial->journal, envelope, diag);
    return rc == LS_OK ? rc : ls_fail_in(diag, rc, "%s/" JOURNAL, trial->part);
}

enum ls_err coord_store_settle(struct coord_store_trial *trial, struct ls_diag *diag)
{
    enum ls_err rc = batch_flush(&trial->journal, diag);

    if (rc != LS_OK)
        return ls_fail_in(diag, rc, "%s/" JOURNAL, trial->part);
    for (unsigned i = 0; i < COORD_TABLE_COUNT; i++) {
        rc = batch_flush(&trial->tables[i], diag);
        if (rc != LS_OK)
            return ls_fail_in(diag, rc, "%s/%s", trial->part, table_names[i]);
    }
    return LS_OK;
}

enum ls_err coord_store_log(struct coord_store_trial *trial, uint64_t offset, struct ls_bytes data,
                            struct ls_diag *diag)
{
    enum ls_err rc = LS_OK;

    if (offset > COORD_LOG_MAX_BYTES || data.len > COORD_LOG_MAX_BYTES - offset)
        return LS_OK;
    if (trial->log_fd < 0)
        rc = create_in(trial, TARGET_LOG, 0, &trial->log_fd, diag);
    if (rc != LS_OK)
        return rc;
    while (data.len > 0) {
        ssize_t n = pwrite(trial->log_fd, data.data, data.len, (off_t)offset);

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return ls_fail(diag, LS_EIO, "cannot write %s/" TARGET_LOG ": %s", trial->part,
                           n < 0 ? strerror(errno) : "nothing was taken");
        data.data += n;
        data.len -= (size_t)n;
        offset += (uint64_t)n;
    }
    return LS_OK;
}

enum ls_err coord_store_rows(struct coord_store_trial *trial, enum coord_store_table table,
                             void (*head)(struct ls_buf *out), struct ls_bytes rows,
                             struct ls_diag *diag)
{
    struct batch *batch = &trial->tables[table];
    enum ls_err rc = LS_OK;

    if (batch->fd < 0) {
        rc = create_in(trial, table_names[table], O_APPEND, &batch->fd, diag);
        if (rc != LS_OK)
            return rc;
        head(&batch->data);
    }
    rc = batch_add(batch, rows, diag);
    return rc == LS_OK ? rc : ls_fail_in(diag, rc, "%s/%s", trial->part, table_names[table]);
}

enum ls_err coord_store_trial_file(struct coord_store_trial *trial, const char *name,
                                   struct ls_bytes data, struct ls_diag *diag)
{
    char path[PATH_MAX];
    enum ls_err rc = coord_path(trial->part, name, path, diag);

    return rc == LS_OK ? ls_fs_write(path, data, 0644, diag) : rc;
}

static struct coord_store_hlog *find_log(const struct coord_store_trial *trial, const char *client,
                                         bool coarse)
{
    struct coord_store_hlog *log = trial->logs;

    while (log != NULL && (log->coarse != coarse || (client == NULL || log->client == NULL
                                                         ? client != log->client
                                                         : strcmp(log->client, client) != 0)))
        log = log->next;
    return log;
}

static bool name_is_taken(const struct coord_store_trial *trial, const char *name)
{
    for (const struct coord_store_hlog *log = trial->logs; log != NULL; log = log->next) {
        if (strcmp(log->name, name) == 0)
            return true;
    }
    return false;
}

static void name_log(const struct coord_store_trial *trial, const char *client, char *out,
                     size_t out_bytes)
{
    unsigned copy = 1;

    do
        coord_path_hlog(client, copy++, out, out_bytes);
    while (client != NULL && name_is_taken(trial, out));
}

static enum ls_err log_fail(const struct coord_store_hlog *log, struct ls_diag *diag)
{
    return ls_fail(diag, LS_EIO, "cannot write %s: %s", log->name, strerror(errno));
}

static enum ls_err open_log(struct coord_store_trial *trial, const char *client, bool coarse,
                            struct coord_store_hlog **out_log, struct ls_diag *diag)
{
    struct coord_store_hlog *log = calloc(1, sizeof(*log));
    int fd = -1;
    enum ls_err rc = LS_OK;

    if (log == NULL)
        return ls_fail(diag, LS_ENOMEM, "no memory for a histogram log");
    log->client = client != NULL ? strdup(client) : NULL;
    log->coarse = coarse;
    if (coarse)
        (void)snprintf(log->name, sizeof(log->name), COORD_COARSE_LOG);
    else
        name_log(trial, client, log->name, sizeof(log->name));
    if (client != NULL && log->client == NULL)
        rc = ls_fail(diag, LS_ENOMEM, "no memory for %s", log->name);
    if (rc == LS_OK)
        rc = create_in(trial, log->name, 0, &fd, diag);
    if (rc == LS_OK) {
        log->file = fdopen(fd, "w");
        if (log->file == NULL || setvbuf(log->file, NULL, _IONBF, 0) != 0)
            rc = ls_fail(diag, LS_ENOMEM, "no memory for %s", log->name);
    }
    if (rc != LS_OK) {
        if (fd >= 0)
            (void)close(fd);
        free(log->client);
        free(log);
        return rc;
    }
    log->lines = &trial->lines;
    log->next = trial->logs;
    trial->logs = log;
    *out_log = log;
    return LS_OK;
}

static enum ls_err begin_log(struct coord_store_trial *trial, const char *client, bool coarse,
                             int64_t start_wall_ns, struct coord_store_hlog **out_log,
                             struct ls_diag *diag)
{
    char comment[200], piece[64] = "all clients";
    struct coord_store_hlog *log = find_log(trial, client, coarse);
    enum ls_err rc = LS_OK;

    if (log == NULL)
        rc = open_log(trial, client, coarse, &log, diag);
    if (rc != LS_OK)
        return rc;
    if (ftruncate(fileno(log->file), 0) != 0 || fseek(log->file, 0, SEEK_SET) != 0)
        return log_fail(log, diag);
    if (client != NULL)
        (void)coord_path_piece(client, piece, sizeof(piece));
    (void)snprintf(comment, sizeof(comment), "lockstep %s, %s, values in nanoseconds",
                   strchr(trial->folder, '/') + 1, piece);
    rc = ls_hist_log_begin(log->file, comment, start_wall_ns, diag);
    if (rc == LS_OK)
        *out_log = log;
    return rc;
}

enum ls_err coord_store_hlog_begin(struct coord_store_trial *trial, const char *client,
                                   int64_t start_wall_ns, struct coord_store_hlog **out_log,
                                   struct ls_diag *diag)
{
    return begin_log(trial, client, false, start_wall_ns, out_log, diag);
}

enum ls_err coord_store_coarse_begin(struct coord_store_trial *trial, int64_t start_wall_ns,
                                     struct coord_store_hlog **out_log, struct ls_diag *diag)
{
    return begin_log(trial, NULL, true, start_wall_ns, out_log, diag);
}

enum ls_err coord_store_hlog_write(struct coord_store_hlog *log, const char *tag, int64_t start_ns,
                                   int64_t length_ns, const struct ls_hist *hist,
                                   struct ls_diag *diag)
{
    enum ls_err rc = ls_hist_log_write(log->file, tag, start_ns, length_ns, hist, diag);

    return rc == LS_OK ? rc : ls_fail_in(diag, rc, "%s", log->name);
}

enum ls_err coord_store_hlog_add(struct coord_store_hlog *log, const char *tag, int64_t start_ns,
                                 int64_t length_ns, const struct ls_hist_sparse *hist,
                                 struct ls_diag *diag)
{
    enum ls_err rc = ls_hist_log_add_sparse(log->lines, tag, start_ns, length_ns, hist, diag);

    if (rc == LS_OK)
        return rc;
    ls_buf_reset(log->lines);
    return ls_fail_in(diag, rc, "%s", log->name);
}

enum ls_err coord_store_hlog_flush(struct coord_store_hlog *log, struct ls_diag *diag)
{
    bool whole = fwrite(log->lines->data, 1, log->lines->len, log->file) == log->lines->len;

    ls_buf_reset(log->lines);
    return whole ? LS_OK : log_fail(log, diag);
}

/* ---- the end */

static enum ls_err sync_table(struct batch *batch, struct ls_diag *diag)
{
    enum ls_err rc = batch_flush(batch, diag);

    if (rc == LS_OK && batch->fd >= 0 && fsync(batch->fd) != 0)
        rc = ls_fail(diag, LS_EIO, "cannot write: %s", strerror(errno));
    return rc;
}

static enum ls_err sync_logs(struct coord_store_trial *trial, struct ls_diag *diag)
{
    for (struct coord_store_hlog *log = trial->logs; log != NULL; log = log->next) {
        bool ok = fsync(fileno(log->file)) == 0;

        if (!ok)
            return log_fail(log, diag);
        ok = fclose(log->file) == 0;
        log->file = NULL;
        if (!ok)
            return log_fail(log, diag);
    }
    if (trial->log_fd >= 0 && fsync(trial->log_fd) != 0)
        return ls_fail(diag, LS_EIO, "cannot write %s/" TARGET_LOG ": %s", trial->part,
                       strerror(errno));
    for (unsigned i = 0; i < COORD_TABLE_COUNT; i++) {
        enum ls_err rc = sync_table(&trial->tables[i], diag);

        if (rc != LS_OK)
            return ls_fail_in(diag, rc, "%s/%s", trial->part, table_names[i]);
    }
    return LS_OK;
}

static enum ls_err write_json(const struct coord_store_trial *trial, const Ls__Trial *message,
                              struct ls_diag *diag)
{
    char path[PATH_MAX];
    struct ls_buf buf;
    char *text = ls_msg_to_json(&message->base, 2);
    enum ls_err rc = coord_path(trial->part, "trial.json", path, diag);

    ls_buf_init(&buf, COORD_RESULT_MAX_BYTES);
    ls_buf_adds(&buf, text != NULL ? text : "");
    ls_buf_adds(&buf, "\n");
    if (rc == LS_OK && (text == NULL || !buf.ok))
        rc = ls_fail(diag, LS_ENOMEM, "no memory for trial.json");
    if (rc == LS_OK)
        rc = ls_fs_write(path, (struct ls_bytes){ buf.data, buf.len }, 0644, diag);
    ls_buf_fini(&buf);
    free(text);
    return rc;
}

/* ---- a trial of another result */

static enum ls_err copy_file(const struct coord_store_trial *trial, const char *from,
                             const char *name, struct ls_diag *diag)
{
    unsigned char piece[16384];
    enum ls_err rc;
    ssize_t len;
    int in, out = -1;

    rc = ls_fs_open(from, &in, diag);
    if (rc != LS_OK)
        return rc;
    rc = create_in(trial, name, 0, &out, diag);
    while (rc == LS_OK && (len = read(in, piece, sizeof(piece))) != 0) {
        rc = len < 0 ? ls_fail(diag, LS_EIO, "cannot read %s: %s", from, strerror(errno))
                     : ls_fs_write_all(out, (struct ls_bytes){ piece, (size_t)len }, diag);
    }
    if (rc == LS_OK && fsync(out) != 0)
        rc = ls_fail(diag, LS_EIO, "cannot write %s/%s: %s", trial->part, name, strerror(errno));
    if (out >= 0)
        (void)close(out);
    (void)close(in);
    return rc;
}

enum ls_err coord_store_trial_copy(struct coord_store_trial *trial, const char *dir,
                                   const char *folder, struct ls_diag *diag)
{
    struct coord_sums sums = { 0 };
    char prefix[300], from[PATH_MAX], hex[LS_SHA256_HEX];
    enum ls_err rc = coord_sums_read(&sums, dir, diag);

    (void)snprintf(prefix, sizeof(prefix), "%.290s/", folder);
    for (size_t i = 0; i < sums.n && rc == LS_OK; i++) {
        const char *name = sums.items[i].path + strlen(prefix);

        if (strncmp(sums.items[i].path, prefix, strlen(prefix)) != 0 ||
            strcmp(name, "trial.json") == 0 || strchr(name, '/') != NULL)
            continue;
        rc = coord_path(dir, sums.items[i].path, from, diag);
        if (rc == LS_OK)
            rc = copy_file(trial, from, name, diag);
        if (rc == LS_OK)
            rc = ls_sha256_file(from, hex, diag);
        if (rc == LS_OK && strcmp(hex, sums.items[i].hex) != 0)
            rc = ls_fail(diag, LS_EPROTO, "%s was changed after it was written", from);
    }
    coord_sums_fini(&sums);
    return rc;
}

/* From part to its own name; a folder of that name is one that no result.json knows. */
static enum ls_err move_into_place(struct coord_store_trial *trial, struct ls_diag *diag)
{
    struct coord_store *store = trial->store;
    char final[PATH_MAX], journal[PATH_MAX], trials[PATH_MAX], prefix[sizeof(trial->folder) + 1];
    enum ls_err rc = coord_path(store->dir, trial->folder, final, diag);

    if (rc == LS_OK)
        rc = coord_path(trial->part, JOURNAL, journal, diag);
    if (rc == LS_OK)
        rc = coord_path(store->dir, COORD_TRIALS_DIR, trials, diag);
    if (rc == LS_OK && unlink(journal) != 0)
        rc = ls_fail(diag, LS_EIO, "cannot remove %s: %s", journal, strerror(errno));
    if (rc == LS_OK)
        rc = coord_sync_folder(trial->part, diag);
    if (rc == LS_OK)
        rc = ls_fs_remove_tree(final, diag);
    if (rc == LS_OK && rename(trial->part, final) != 0)
        rc = ls_fail(diag, LS_EIO, "cannot rename %s: %s", trial->part, strerror(errno));
    if (rc == LS_OK)
        rc = coord_sync_folder(trials, diag);
    if (rc != LS_OK)
        return rc;
    (void)snprintf(prefix, sizeof(prefix), "%s/", trial->folder);
    coord_sums_drop(&store->sums, prefix);
    return coord_hash_folder(&store->sums, store->dir, trial->folder, diag);
}

enum ls_err coord_store_trial_finish(struct coord_store_trial *trial, const Ls__Trial *message,
                                     struct ls_diag *diag)
{
    enum ls_err rc = sync_logs(trial, diag);

    if (rc == LS_OK)
        rc = write_json(trial, message, diag);
    if (rc == LS_OK)
        rc = move_into_place(trial, diag);
    if (rc != LS_OK) {
        coord_store_trial_discard(trial);
        return rc;
    }
    close_trial(trial);
    return LS_OK;
}
