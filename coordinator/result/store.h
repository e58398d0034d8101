/* coordinator/result/store.h - the result folder: whole files or none.
 *
 *     DIR/plan.yaml  environment.json  result.json  report.html  SHA256SUMS
 *     DIR/coordinator.pem  SHA256SUMS.sig      when there are keys to sign with
 *     DIR/trials/001-node-hello-r1/  merged.hlog  coarse.hlog  client-NAME.hlog  intervals.csv
 *                                    server.csv  target.log  runs.csv  trial.json
 *
 * A trial is written into trials/....part and renamed when everything in it is on the disk, so a
 * trial folder is complete or absent. result.json is replaced after each trial: an interrupted run
 * is always readable. A failure (full disk, read-only or vanished folder) is LS_EIO with the path
 * and the reason, and leaves earlier trials as they are. One thread; one process a folder (a lock
 * on it).
 */
#ifndef LS_COORDINATOR_RESULT_STORE_H
#define LS_COORDINATOR_RESULT_STORE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/attr.h"
#include "common/buf.h"
#include "common/err.h"
#include "common/hist_sparse.h"
#include "proto/result.pb-c.h"

#define COORD_RESULT_MAX_BYTES (256u << 20) /* no larger result.json is read */
#define COORD_LOG_MAX_BYTES    (64u << 20)  /* of a target.log; agents cap theirs well below */

struct coord_store;
struct coord_store_trial;
struct coord_signer;

/* "results/NAME-YYYYmmdd-HHMMSS" (UTC); name is data and made harmless. out holds >= 128 bytes. */
const char *coord_store_default_dir(const char *name, int64_t wall_ns, char *out, size_t out_bytes);

/* Makes dir and its parents. An existing empty folder is taken, another one refused: LS_ESTATE. */
enum ls_err coord_store_create(const char *dir, struct coord_store **out_store,
                               struct ls_diag *diag) LS_NODISCARD;
/* Goes on in a folder that holds a lockstep result, which is handed over (caller frees with
 * ls__result__free_unpacked). Half-written trials are removed. Errors as coord_store_load. */
enum ls_err coord_store_resume(const char *dir, struct coord_store **out_store,
                               Ls__Result **out_result, struct ls_diag *diag) LS_NODISCARD;
void coord_store_close(struct coord_store *store); /* NULL is fine; the folder stays */
const char *coord_store_dir(const struct coord_store *store);
/* From now on SHA256SUMS is signed; signer stays the caller's. */
void coord_store_sign(struct coord_store *store, struct coord_signer *signer);

enum ls_err coord_store_plan(struct coord_store *store, struct ls_bytes text,
                             struct ls_diag *diag) LS_NODISCARD;
/* report.html; its sum is written with the next result. */
enum ls_err coord_store_report(struct coord_store *store, struct ls_bytes page,
                               struct ls_diag *diag) LS_NODISCARD;
/* result.json, environment.json from its hosts, and SHA256SUMS over everything that is in the
 * folder, with its signature: when it fails, all are as they were. */
enum ls_err coord_store_result(struct coord_store *store, const Ls__Result *result,
                               struct ls_diag *diag) LS_NODISCARD;

/* ---- one trial
 * At most one is open. The store keeps nothing of it after finish or discard. */

enum ls_err coord_store_trial_begin(struct coord_store *store, uint32_t index, const char *target,
                                    const char *workload, uint32_t repetition,
                                    struct coord_store_trial **out_trial,
                                    struct ls_diag *diag) LS_NODISCARD;
/* "trials/001-node-hello-r1", for Trial.folder. */
const char *coord_store_trial_folder(const struct coord_store_trial *trial);

/* The journal: a report as it came. Gone when the trial is finished. */
enum ls_err coord_store_append(struct coord_store_trial *trial, uint32_t agent,
                               struct ls_bytes envelope, struct ls_diag *diag) LS_NODISCARD;
/* Writes what is gathered of journal and raw tables, before what was appended is acknowledged. It
 * then survives this process, not the machine (no fsync: it would disturb what is being measured).
 * What could not be written is lost, and the trial with it. */
enum ls_err coord_store_settle(struct coord_store_trial *trial, struct ls_diag *diag) LS_NODISCARD;

/* A piece of target.log. Beyond COORD_LOG_MAX_BYTES: dropped, LS_OK. */
enum ls_err coord_store_log(struct coord_store_trial *trial, uint64_t offset, struct ls_bytes data,
                            struct ls_diag *diag) LS_NODISCARD;

/* A further file of the trial, whole. name is a plain one of ours. */
enum ls_err coord_store_trial_file(struct coord_store_trial *trial, const char *name,
                                   struct ls_bytes data, struct ls_diag *diag) LS_NODISCARD;

/* Histogram logs, as merge.c uses them: opened (again: emptied) by begin, closed by finish of the
 * trial. client: NULL is merged.hlog. start_wall_ns is what starts count from. */
struct coord_store_hlog;
enum ls_err coord_store_hlog_begin(struct coord_store_trial *trial, const char *client,
                                   int64_t start_wall_ns, struct coord_store_hlog **out_log,
                                   struct ls_diag *diag) LS_NODISCARD;
/* coarse.hlog: of a long trial, what merged.hlog has in few lines. */
enum ls_err coord_store_coarse_begin(struct coord_store_trial *trial, int64_t start_wall_ns,
                                     struct coord_store_hlog **out_log,
                                     struct ls_diag *diag) LS_NODISCARD;
enum ls_err coord_store_hlog_write(struct coord_store_hlog *log, const char *tag, int64_t start_ns,
                                   int64_t length_ns, const struct ls_hist *hist,
                                   struct ls_diag *diag) LS_NODISCARD;
/* The lines of one report of a client, of which thousands come at a time: added one by one, then
 * written together. Whoever has added flushes before anything else is added. */
enum ls_err coord_store_hlog_add(struct coord_store_hlog *log, const char *tag, int64_t start_ns,
                                 int64_t length_ns, const struct ls_hist_sparse *hist,
                                 struct ls_diag *diag) LS_NODISCARD;
enum ls_err coord_store_hlog_flush(struct coord_store_hlog *log, struct ls_diag *diag) LS_NODISCARD;

/* Raw tables (result/raw.h): rows are appended, behind head if they are the file's first. */
enum coord_store_table { COORD_TABLE_INTERVALS, COORD_TABLE_SERVER, COORD_TABLE_COUNT };
enum ls_err coord_store_rows(struct coord_store_trial *trial, enum coord_store_table table,
                             void (*head)(struct ls_buf *out), struct ls_bytes rows,
                             struct ls_diag *diag) LS_NODISCARD;

/* Writes trial.json, brings everything to the disk, renames the folder. The trial is gone
 * afterwards whatever is returned; on failure nothing of it stays in the folder. */
enum ls_err coord_store_trial_finish(struct coord_store_trial *trial, const Ls__Trial *message,
                                     struct ls_diag *diag) LS_NODISCARD;
/* What a trial of another result has on the disk, byte for byte, but trial.json. LS_EPROTO: a file
 * is not as its SHA256SUMS says. */
enum ls_err coord_store_trial_copy(struct coord_store_trial *trial, const char *dir,
                                   const char *folder, struct ls_diag *diag) LS_NODISCARD;
void coord_store_trial_discard(struct coord_store_trial *trial); /* removes it; NULL is fine */

/* ---- reading */

/* LS_EIO: no such folder or file; LS_EINVAL: not a lockstep result; LS_EPROTO: result.json is
 * truncated, was edited (SHA256SUMS says otherwise) or comes from a version we do not know.
 * Caller frees with ls__result__free_unpacked(result, NULL). */
enum ls_err coord_store_load(const char *dir, Ls__Result **out_result,
                             struct ls_diag *diag) LS_NODISCARD;

/* The same, whatever SHA256SUMS says: for who wants to say what is wrong with a folder. */
enum ls_err coord_store_load_unchecked(const char *dir, Ls__Result **out_result,
                                       struct ls_diag *diag) LS_NODISCARD;

/* Compares every file with SHA256SUMS and tells problem(ctx, path, what) of each that is changed,
 * missing or not listed. LS_OK: *out_files were compared, *out_problems told. LS_EIO, LS_EPROTO:
 * SHA256SUMS itself cannot be read. */
enum ls_err coord_store_verify(const char *dir,
                               void (*problem)(void *ctx, const char *path, const char *what),
                               void *ctx, uint32_t *out_files, uint32_t *out_problems,
                               struct ls_diag *diag) LS_NODISCARD;

#endif
