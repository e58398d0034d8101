#include "coordinator/history/history.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <sqlite3.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "coordinator/history/history_internal.h"
#include "coordinator/result/store.h"
#include "coordinator/result/store_paths.h"
#include "coordinator/result/summary.h"

#define APPLICATION_ID 0x4c534849 /* "LSHI": tells our files from other people's */
#define SCHEMA_VERSION 2
#define DEPTH_MAX      2u

static const char schema[] =
    "CREATE TABLE run (run_id TEXT PRIMARY KEY, folder TEXT NOT NULL, plan TEXT NOT NULL,"
    " plan_sha256 TEXT NOT NULL, started_at TEXT NOT NULL, finished_at TEXT NOT NULL,"
    " status TEXT NOT NULL, exit_status INTEGER NOT NULL, version TEXT NOT NULL,"
    " hosts TEXT NOT NULL);"
    "CREATE TABLE label (run_id TEXT NOT NULL REFERENCES run ON DELETE CASCADE, key TEXT NOT NULL,"
    " value TEXT NOT NULL, PRIMARY KEY (run_id, key));"
    "CREATE TABLE host (run_id TEXT NOT NULL REFERENCES run ON DELETE CASCADE,"
    " agent TEXT NOT NULL, role TEXT NOT NULL, name TEXT NOT NULL, cpu TEXT NOT NULL,"
    " PRIMARY KEY (run_id, agent));"
    "CREATE TABLE figure (run_id TEXT NOT NULL REFERENCES run ON DELETE CASCADE,"
    " workload TEXT NOT NULL, target TEXT NOT NULL, metric TEXT NOT NULL, n INTEGER NOT NULL,"
    " median REAL NOT NULL, low REAL NOT NULL, high REAL NOT NULL,"
    " higher_is_better INTEGER NOT NULL,"
    " PRIMARY KEY (run_id, workload, target, metric));"
    "CREATE INDEX run_by_time ON run (plan, started_at);";

/* ---- talking to SQLite */

enum ls_err history_fail(const struct coord_history *history, struct ls_diag *diag,
                         const char *what)
{
    int code = sqlite3_errcode(history->db);

    if (code == SQLITE_NOMEM)
        return ls_fail(diag, LS_ENOMEM, "no memory for %.200s", history->path);
    if (code == SQLITE_NOTADB || code == SQLITE_CORRUPT)
        return ls_fail(diag, LS_EINVAL,
                       "%.200s is no history, or damaged (%s): 'lockstep history rebuild' makes a "
                       "new one from the results, once it is out of the way",
                       history->path, sqlite3_errmsg(history->db));
    if (code == SQLITE_BUSY)
        return ls_fail(diag, LS_ETIMEOUT, "%.200s: others have written to it for too long",
                       history->path);
    return ls_fail(diag, LS_EIO, "%.200s: cannot %s: %s", history->path, what,
                   sqlite3_errmsg(history->db));
}

static enum ls_err run_sql(struct coord_history *history, const char *sql, const char *what,
                           struct ls_diag *diag)
{
    return sqlite3_exec(history->db, sql, NULL, NULL, NULL) == SQLITE_OK
               ? LS_OK
               : history_fail(history, diag, what);
}

/* A statement with its values: s a text, i an int64_t, d a double. */
static enum ls_err put(struct coord_history *history, struct ls_diag *diag, const char *sql,
                       const char *types, ...)
{
    sqlite3_stmt *statement = NULL;
    bool ok = sqlite3_prepare_v2(history->db, sql, -1, &statement, NULL) == SQLITE_OK;
    enum ls_err rc = LS_OK;
    va_list ap;

    va_start(ap, types);
    for (int i = 0; ok && types[i] != '\0'; i++) {
        if (types[i] == 's')
            ok = sqlite3_bind_text(statement, i + 1, va_arg(ap, const char *), -1,
                                   SQLITE_TRANSIENT) == SQLITE_OK;
        else if (types[i] == 'i')
            ok = sqlite3_bind_int64(statement, i + 1, va_arg(ap, int64_t)) == SQLITE_OK;
        else
            ok = sqlite3_bind_double(statement, i + 1, va_arg(ap, double)) == SQLITE_OK;
    }
    va_end(ap);
    if (!ok || sqlite3_step(statement) != SQLITE_DONE)
        rc = history_fail(history, diag, "write");
    (void)sqlite3_finalize(statement); /* says again what step has said */
    return rc;
}

static int64_t pragma(struct coord_history *history, const char *sql)
{
    sqlite3_stmt *statement = NULL;
    int64_t value = -1;

    if (sqlite3_prepare_v2(history->db, sql, -1, &statement, NULL) == SQLITE_OK &&
        sqlite3_step(statement) == SQLITE_ROW)
        value = sqlite3_column_int64(statement, 0);
    (void)sqlite3_finalize(statement);
    return value;
}

static enum ls_err begin(struct coord_history *history, struct ls_diag *diag)
{
    return run_sql(history, "BEGIN IMMEDIATE", "write", diag);
}

static enum ls_err end(struct coord_history *history, enum ls_err rc, struct ls_diag *diag)
{
    if (rc == LS_OK)
        rc = run_sql(history, "COMMIT", "write", diag);
    if (rc != LS_OK)
        (void)sqlite3_exec(history->db, "ROLLBACK", NULL, NULL, NULL); /* it has failed already */
    return rc;
}

/* ---- opening */

/* Of two that make the file at once one makes the tables. */
static enum ls_err make_tables(struct coord_history *history, struct ls_diag *diag)
{
    char sql[96];
    enum ls_err rc = begin(history, diag);

    if (rc != LS_OK)
        return rc;
    if (pragma(history, "PRAGMA user_version") == 0) {
        if (pragma(history, "SELECT count(*) FROM sqlite_master") != 0)
            rc = ls_fail(diag, LS_EINVAL, "%.200s is somebody else's SQLite file", history->path);
        if (rc == LS_OK)
            rc = run_sql(history, schema, "make tables", diag);
        (void)snprintf(sql, sizeof(sql), "PRAGMA application_id=%d; PRAGMA user_version=%d",
                       APPLICATION_ID, SCHEMA_VERSION);
        if (rc == LS_OK)
            rc = run_sql(history, sql, "make tables", diag);
    }
    return end(history, rc, diag);
}

static enum ls_err prepare(struct coord_history *history, struct ls_diag *diag)
{
    int64_t version;
    enum ls_err rc;

    (void)sqlite3_busy_timeout(history->db, COORD_HISTORY_WAIT_MS);
    rc = run_sql(history, "PRAGMA foreign_keys=ON", "open", diag);
    if (rc == LS_OK)
        rc = run_sql(history, "SELECT count(*) FROM sqlite_master", "open", diag);
    if (rc != LS_OK)
        return rc;
    version = pragma(history, "PRAGMA user_version");
    if (version == 0)
        rc = make_tables(history, diag);
    else if (pragma(history, "PRAGMA application_id") != APPLICATION_ID)
        rc = ls_fail(diag, LS_EINVAL, "%.200s is somebody else's SQLite file", history->path);
    else if (version != SCHEMA_VERSION)
        rc = ls_fail(diag, LS_EINVAL,
                     "%.200s was made by another version of lockstep (%lld, this is %d)",
                     history->path, (long long)version, SCHEMA_VERSION);
    /* Readers do not wait for writers then; where the file system cannot do it, they do. */
    if (rc == LS_OK)
        (void)sqlite3_exec(history->db, "PRAGMA journal_mode=WAL", NULL, NULL, NULL);
    return rc;
}

enum ls_err coord_history_open(const char *path, struct coord_history **out, struct ls_diag *diag)
{
    struct coord_history *history = calloc(1, sizeof(*history));
    enum ls_err rc = LS_ENOMEM;

    if (history != NULL)
        history->path = strdup(path);
    if (history == NULL || history->path == NULL)
        (void)ls_fail(diag, rc, "no memory for %.200s", path);
    else if (sqlite3_open_v2(path, &history->db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE,
                             NULL) != SQLITE_OK)
        rc = ls_fail(diag, LS_EIO, "cannot open %.200s: %s", path,
                     history->db != NULL ? sqlite3_errmsg(history->db) : "out of memory");
    else
        rc = prepare(history, diag);
    if (rc != LS_OK) {
        coord_history_close(history);
        return rc;
    }
    *out = history;
    return LS_OK;
}

void coord_history_close(struct coord_history *history)
{
    if (history == NULL)
        return;
    (void)sqlite3_close(history->db); /* every statement is finished: nothing can be busy */
    free(history->path);
    free(history);
}

/* ---- adding */

/* Names of the hosts that decide what figures are worth: those of servers, else of clients. */
static void name_hosts(const Ls__Result *result, char *out, size_t out_bytes)
{
    static const char *const roles[] = { "server", "client" };
    size_t len = 0;

    out[0] = '\0';
    for (size_t r = 0; len == 0 && r < LS_ARRAY_LEN(roles); r++) {
        for (size_t i = 0; i < result->n_hosts; i++) {
            const Ls__Host *host = result->hosts[i];
            const char *name = host->facts != NULL ? host->facts->hostname : "";
            bool again = false;

            for (size_t k = 0; k < i; k++)
                again = again || (strcmp(result->hosts[k]->role, roles[r]) == 0 &&
                                  result->hosts[k]->facts != NULL &&
                                  strcmp(result->hosts[k]->facts->hostname, name) == 0);
            if (again || name[0] == '\0' || strcmp(host->role, roles[r]) != 0 ||
                len + strlen(name) + 2 > out_bytes)
                continue;
            len += (size_t)snprintf(out + len, out_bytes - len, "%s%s", len > 0 ? "+" : "", name);
        }
    }
}

/* A script's own metrics have the direction that their trials say. */
static bool is_better_higher(const Ls__Result *result, const char *name)
{
    struct coord_metric metric;

    return coord_metric_of(result, name, &metric) && metric.higher_is_better;
}

static enum ls_err put_run(struct coord_history *history, const char *folder, const Ls__Result *r,
                           struct ls_diag *diag)
{
    char hosts[1024];
    enum ls_err rc = put(history, diag, "DELETE FROM run WHERE run_id=?", "s", r->run_id);

    name_hosts(r, hosts, sizeof(hosts));
    if (rc == LS_OK)
        rc = put(history, diag, "INSERT INTO run VALUES (?,?,?,?,?,?,?,?,?,?)", "sssssssiss",
                 r->run_id, folder, r->name, r->plan_sha256, r->started_at, r->finished_at,
                 r->status, (int64_t)r->exit_status, r->lockstep_version, hosts);
    for (size_t i = 0; rc == LS_OK && i < r->n_hosts; i++) {
        const Ls__Facts *facts = r->hosts[i]->facts;

        rc = put(history, diag, "INSERT OR REPLACE INTO host VALUES (?,?,?,?,?)", "sssss",
                 r->run_id, r->hosts[i]->agent, r->hosts[i]->role,
                 facts != NULL ? facts->hostname : "", facts != NULL ? facts->cpu_model : "");
    }
    for (size_t i = 0; rc == LS_OK && i < r->n_labels; i++) {
        const char *value = strchr(r->labels[i], '=');
        char key[128];

        if (value == NULL)
            continue;
        (void)snprintf(key, sizeof(key), "%.*s", (int)(value - r->labels[i]), r->labels[i]);
        rc = put(history, diag, "INSERT OR REPLACE INTO label VALUES (?,?,?)", "sss", r->run_id,
                 key, value + 1);
    }
    for (size_t i = 0; rc == LS_OK && i < r->n_summary; i++) {
        const Ls__Summary *row = r->summary[i];

        if (row->n > 0 && !coord_figure_is_bound(r, row->workload, row->target, row->metric))
            rc = put(history, diag, "INSERT OR REPLACE INTO figure VALUES (?,?,?,?,?,?,?,?,?)",
                     "ssssidddi", r->run_id, row->workload, row->target, row->metric,
                     (int64_t)row->n, row->median, row->ci95_low, row->ci95_high,
                     (int64_t)is_better_higher(r, row->metric));
    }
    return rc;
}

enum ls_err coord_history_add(struct coord_history *history, const char *dir,
                              const Ls__Result *result, struct ls_diag *diag)
{
    enum ls_err rc = begin(history, diag);

    if (rc != LS_OK)
        return rc;
    return end(history, put_run(history, dir, result, diag), diag);
}

/* ---- rebuilding */

struct rebuild {
    struct coord_history *history;
    void (*tell)(void *ctx, const char *folder, const char *why);
    void *ctx;
    uint32_t added;
};

static bool holds(const char *dir, const char *name)
{
    char path[PATH_MAX];

    return coord_path(dir, name, path, NULL) == LS_OK && access(path, F_OK) == 0;
}

static enum ls_err add_folder(struct rebuild *job, const char *dir, struct ls_diag *diag)
{
    struct ls_diag why = { .text = "" };
    Ls__Result *result = NULL;
    enum ls_err rc = coord_store_load(dir, &result, &why);

    if (rc == LS_ENOMEM) {
        *diag = why;
        return rc;
    }
    if (rc != LS_OK) {
        job->tell(job->ctx, dir, why.text);
        return LS_OK;
    }
    rc = put_run(job->history, dir, result, diag);
    job->added += rc == LS_OK;
    ls__result__free_unpacked(result, NULL);
    return rc;
}

static enum ls_err add_below(struct rebuild *job, const char *dir, unsigned depth,
                             struct ls_diag *diag)
{
    enum ls_err rc = LS_OK;
    char path[PATH_MAX];
    struct stat st;
    DIR *handle;

    if (holds(dir, COORD_RESULT_FILE))
        return add_folder(job, dir, diag);
    handle = opendir(dir);
    if (handle == NULL) {
        if (depth == 0)
            return ls_fail(diag, LS_EIO, "cannot read the folder %s: %s", dir, strerror(errno));
        job->tell(job->ctx, dir, strerror(errno));
        return LS_OK;
    }
    for (struct dirent *entry = readdir(handle); entry != NULL && rc == LS_OK;
         entry = readdir(handle)) {
        if (entry->d_name[0] == '.' || coord_path(dir, entry->d_name, path, NULL) != LS_OK ||
            lstat(path, &st) != 0 || !S_ISDIR(st.st_mode))
            continue;
        if (depth < DEPTH_MAX)
            rc = add_below(job, path, depth + 1, diag);
    }
    (void)closedir(handle);
    return rc;
}

enum ls_err coord_history_rebuild(struct coord_history *history, const char *dir,
                                  void (*tell)(void *ctx, const char *folder, const char *why),
                                  void *ctx, uint32_t *out_added, struct ls_diag *diag)
{
    struct rebuild job = { .history = history, .tell = tell, .ctx = ctx };
    enum ls_err rc = begin(history, diag);

    if (rc != LS_OK)
        return rc;
    rc = put(history, diag, "DELETE FROM run", "");
    if (rc == LS_OK)
        rc = add_below(&job, dir, 0, diag);
    rc = end(history, rc, diag);
    if (rc == LS_OK)
        *out_added = job.added;
    return rc;
}
