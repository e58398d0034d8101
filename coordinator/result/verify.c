#include "coordinator/result/verify.h"

#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/digest.h"
#include "common/fs.h"
#include "common/msg_json.h"
#include "coordinator/pki/sign.h"
#include "coordinator/result/message.h"
#include "coordinator/result/store.h"
#include "coordinator/result/store_paths.h"
#include "coordinator/result/summary.h"
#include "coordinator/result/sums.h"
#include "coordinator/result/verify_internal.h"

#define FOLDER_MAX 200u /* bytes of a trial's */

/* ---- what is told */

void verify_differs(struct verify *v, const char *file, const char *figure, const char *published,
                    const char *recomputed, const char *text)
{
    Ls__Discrepancy *one;

    if (v->out->n_differences >= COORD_VERIFY_DIFFERENCES_MAX) {
        v->out->more++;
        return;
    }
    one = coord_message_append(&v->out->n_differences, &v->out->differences,
                               &ls__discrepancy__descriptor);
    v->no_memory = v->no_memory || one == NULL || !coord_message_string(&one->file, file) ||
                   !coord_message_string(&one->figure, figure) ||
                   !coord_message_string(&one->published, published) ||
                   !coord_message_string(&one->recomputed, recomputed) ||
                   !coord_message_string(&one->text, text);
}

void verify_note(struct verify *v, const char *fmt, ...)
{
    char **notes = realloc(v->out->notes, (v->out->n_notes + 1) * sizeof(*notes));
    char text[600];
    va_list ap;

    va_start(ap, fmt);
    (void)vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    if (notes != NULL)
        v->out->notes = notes;
    if (notes == NULL || (notes[v->out->n_notes] = strdup(text)) == NULL)
        v->no_memory = true;
    else
        v->out->n_notes++;
}

static void file_differs(void *ctx, const char *path, const char *what)
{
    verify_differs(ctx, path, "", NULL, NULL, what);
}

/* ---- files */

/* A file below the folder, whole. NULL: it has been told why not. The caller frees. */
static char *read_whole(struct verify *v, const char *name, size_t max_bytes, size_t *out_len)
{
    char path[PATH_MAX];
    struct ls_diag why = { .text = "" };
    char *text = NULL;
    enum ls_err rc = coord_path(v->dir, name, path, &why);

    if (rc == LS_OK)
        rc = ls_fs_read(path, max_bytes, &text, out_len, &why);
    if (rc != LS_OK)
        file_differs(v, name, why.text);
    return rc == LS_OK ? text : NULL;
}

static bool is_there(const struct verify *v, const char *name)
{
    char path[PATH_MAX];

    return coord_path(v->dir, name, path, NULL) == LS_OK && access(path, F_OK) == 0;
}

/* "2026-11-30T14:05:09.123Z" as seconds; now, if it is no time. */
static int64_t seconds_of(const char *wall)
{
    struct tm tm = { 0 };

    return strptime(wall, "%Y-%m-%dT%H:%M:%S", &tm) != NULL ? (int64_t)timegm(&tm)
                                                            : ls_clock_wall_ns() / LS_NS_PER_S;
}

static enum ls_err check_signature(struct verify *v, const char *ca, struct ls_diag *diag)
{
    struct ls_identity identity = { .uri = "" };
    struct ls_diag why = { .text = "" };
    size_t sums_len = 0, signature_len = 0, certificate_len = 0;
    char *sums = NULL, *signature = NULL, *certificate = NULL;
    bool ok = true;
    enum ls_err rc = LS_OK;

    if (!is_there(v, COORD_SIGNATURE_FILE)) {
        if (ca != NULL || is_there(v, COORD_SIGNER_FILE))
            file_differs(v, COORD_SIGNATURE_FILE, "is missing: the result is not signed");
        return coord_message_string(&v->out->signature, "none") ? LS_OK : LS_ENOMEM;
    }
    sums = read_whole(v, COORD_SUMS_FILE, COORD_SUMS_MAX_BYTES, &sums_len);
    signature = read_whole(v, COORD_SIGNATURE_FILE, COORD_SIGNATURE_MAX, &signature_len);
    certificate = read_whole(v, COORD_SIGNER_FILE, COORD_CERTIFICATE_MAX, &certificate_len);
    ok = sums != NULL && signature != NULL && certificate != NULL;
    if (ok)
        rc = coord_signature_check(
            &(struct coord_signature){
                .data = { (unsigned char *)sums, sums_len },
                .signature = { (unsigned char *)signature, signature_len },
                .certificate = { (unsigned char *)certificate, certificate_len },
                .ca = ca,
                .at_s = seconds_of(v->result != NULL ? v->result->finished_at : "") },
            &identity, &why);
    if (rc == LS_EPROTO)
        file_differs(v, COORD_SIGNATURE_FILE, why.text);
    else if (rc != LS_OK)
        *diag = why;
    ok = ok && rc == LS_OK;
    if (!coord_message_string(&v->out->signature, !ok          ? "bad"
                                                  : ca != NULL ? "good"
                                                               : "unverified") ||
        !coord_message_string(&v->out->signed_by, identity.uri))
        rc = LS_ENOMEM;
    free(sums);
    free(signature);
    free(certificate);
    return rc == LS_EPROTO ? LS_OK : rc;
}

static enum ls_err check_files(struct verify *v, struct ls_diag *diag)
{
    struct ls_diag why = { .text = "" };
    uint32_t unused;
    enum ls_err rc = coord_store_verify(v->dir, file_differs, v, &v->out->files, &unused, &why);

    if (rc == LS_EPROTO || rc == LS_ERANGE) {
        file_differs(v, COORD_SUMS_FILE, why.text);
        return LS_OK;
    }
    if (rc != LS_OK)
        *diag = why;
    return rc;
}

/* ---- figures */

static void check_plan(struct verify *v)
{
    char hex[LS_SHA256_HEX], text[200];
    size_t len = 0;
    char *plan = read_whole(v, COORD_PLAN_FILE, COORD_RESULT_MAX_BYTES, &len);

    if (plan == NULL)
        return;
    ls_sha256_hex((struct ls_bytes){ (unsigned char *)plan, len }, hex);
    free(plan);
    v->out->figures++;
    (void)snprintf(text, sizeof(text),
                   "is not the plan of " COORD_RESULT_FILE ", whose SHA-256 is "
                   "%.12s...",
                   v->result->plan_sha256);
    if (strcmp(hex, v->result->plan_sha256) != 0)
        verify_differs(v, COORD_PLAN_FILE, "plan_sha256", v->result->plan_sha256, hex, text);
}

/* environment.json is the list alone: read as that field of a Result. */
static void check_hosts(struct verify *v)
{
    static const char *const names[] = { "hosts", NULL };
    const struct verify_source source = { .file = COORD_RESULT_FILE, .from = COORD_HOSTS_FILE };
    ProtobufCMessage *hosts = NULL;
    struct ls_diag why = { .text = "" };
    struct ls_buf wrapped;
    size_t len = 0;
    char *text = read_whole(v, COORD_HOSTS_FILE, COORD_RESULT_MAX_BYTES, &len);
    enum ls_err rc;

    if (text == NULL)
        return;
    ls_buf_init(&wrapped, COORD_RESULT_MAX_BYTES + 64);
    ls_buf_adds(&wrapped, "{\"hosts\":");
    ls_buf_add(&wrapped, text, len);
    ls_buf_adds(&wrapped, "}");
    rc = wrapped.ok ? ls_msg_from_json(&ls__result__descriptor,
                                       (struct ls_bytes){ wrapped.data, wrapped.len }, &hosts, &why)
                    : LS_ENOMEM;
    if (rc == LS_OK)
        verify_fields(v, &source, "", &v->result->base, hosts, names);
    else if (rc == LS_ENOMEM)
        v->no_memory = true;
    else
        file_differs(v, COORD_HOSTS_FILE, why.text);
    if (hosts != NULL)
        protobuf_c_message_free_unpacked(hosts, NULL);
    ls_buf_fini(&wrapped);
    free(text);
}

/* Its rows by what they are of: a later version may know more metrics. */
static void check_summary(struct verify *v, const Ls__Result *again)
{
    const struct verify_source source = { .file = COORD_RESULT_FILE, .from = "the trials" };
    bool same_version = strcmp(again->lockstep_version, LS_VERSION) == 0;
    char where[400];

    for (size_t i = 0; i < v->result->n_summary; i++) {
        const Ls__Summary *row = v->result->summary[i];
        const Ls__Summary *other =
            coord_summary_find(again, row->workload, row->target, row->metric);

        (void)snprintf(where, sizeof(where), "summary[%.80s %.80s %.80s]", row->target,
                       row->workload, row->metric);
        if (other != NULL)
            verify_message(v, &source, where, &row->base, &other->base);
        else
            verify_differs(v, COORD_RESULT_FILE, where, NULL, NULL,
                           "a summary of what the trials do not have");
    }
    if (same_version && v->result->n_summary != again->n_summary)
        verify_differs(v, COORD_RESULT_FILE, "summary", NULL, NULL,
                       "the summary has not a row for each metric of the trials");
}

static void check_sums(struct verify *v)
{
    static const char *const names[] = { "standings", NULL };
    const struct verify_source source = { .file = COORD_RESULT_FILE, .from = "the summary" };
    Ls__Result *again = coord_message_copy(v->result);

    if (again == NULL || coord_summary_build(again) != LS_OK) {
        v->no_memory = true;
    } else {
        check_summary(v, again);
        verify_fields(v, &source, "", &v->result->base, &again->base, names);
    }
    coord_message_free(again);
    if (strcmp(v->result->status, "complete") == 0 &&
        v->result->n_trials != v->result->trials_planned)
        verify_differs(v, COORD_RESULT_FILE, "status", NULL, NULL,
                       "the run is said to be complete, but not all its trials are there");
}

/* ---- trials */

/* A folder right below trials/, as coord_store_trial_begin calls it. */
static bool folder_is_ours(const char *folder)
{
    static const char allowed[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-.";
    size_t skip = strlen(COORD_TRIALS_DIR "/");

    return strncmp(folder, COORD_TRIALS_DIR "/", skip) == 0 && strlen(folder) < FOLDER_MAX &&
           folder[skip] >= '0' && folder[skip] <= '9' &&
           folder[skip + strspn(folder + skip, allowed)] == '\0';
}

Ls__Trial *verify_read_trial(struct verify *v, const char *folder, char *relative)
{
    ProtobufCMessage *message = NULL;
    struct ls_diag why = { .text = "" };
    size_t len = 0;
    char *text;
    enum ls_err rc;

    if (!folder_is_ours(folder)) {
        verify_differs(v, COORD_RESULT_FILE, "folder", folder, NULL,
                       "a trial has no folder below " COORD_TRIALS_DIR);
        return NULL;
    }
    (void)snprintf(relative, PATH_MAX, "%s/trial.json", folder);
    text = read_whole(v, relative, COORD_RESULT_MAX_BYTES, &len);
    if (text == NULL)
        return NULL;
    rc = ls_msg_from_json(&ls__trial__descriptor, (struct ls_bytes){ (unsigned char *)text, len },
                          &message, &why);
    free(text);
    if (rc == LS_ENOMEM)
        v->no_memory = true;
    else if (rc != LS_OK)
        file_differs(v, relative, why.text);
    return (Ls__Trial *)message;
}

/* Its place in the order is in its folder's name. Of a search, a ladder or their like it is the
 * name of a part. */
static void check_name(struct verify *v, const Ls__Trial *trial, const char *where)
{
    char folder[FOLDER_MAX], figure[400];

    coord_path_trial(trial->index, trial->target, trial->workload, trial->repetition, folder,
                     sizeof(folder));
    v->out->figures++;
    (void)snprintf(figure, sizeof(figure), "%s.folder", where);
    if (trial->capacity == NULL && trial->ladder == NULL && strcmp(folder, trial->folder) != 0)
        verify_differs(v, COORD_RESULT_FILE, figure, trial->folder, folder,
                       "its folder is that of another trial");
}

/* What was not even tried: it does not apply, or its target is known not to be there. */
static bool is_without_folder(const Ls__Trial *trial)
{
    return trial->verdict == LS__VERDICT__VERDICT_NONE && trial->folder[0] == '\0' &&
           trial->process == NULL && trial->requests == NULL;
}

static void check_trial(struct verify *v, const Ls__Trial *trial)
{
    /* A search's trial is what confirms its answer, a ladder's its best rung; to which the whole
     * was added later, with what is to be said of it. */
    static const char *const added[] = { "capacity", "ladder", NULL };
    static const char *const added_to_parts[] = { "capacity", "ladder",  "load",
                                                  "reasons",  "verdict", NULL };
    char relative[PATH_MAX], where[300];
    const struct verify_source source = { .file = COORD_RESULT_FILE, .from = relative };
    Ls__Trial *own;

    (void)snprintf(where, sizeof(where), "trials[%.80s %.80s r%u]", trial->target, trial->workload,
                   trial->repetition);
    if (is_without_folder(trial)) {
        verify_trial(v, trial, where, COORD_RESULT_FILE);
        return;
    }
    check_name(v, trial, where);
    own = verify_read_trial(v, trial->folder, relative);
    if (own != NULL)
        verify_other_fields(v, &source, where, &trial->base, &own->base,
                            trial->capacity != NULL || trial->ladder != NULL ? added_to_parts
                                                                             : added);
    coord_message_free(own);
    verify_trial(v, trial, where, COORD_RESULT_FILE);
    verify_whole(v, trial, where);
}

/* The plan's own tables. */
static void check_pages(struct verify *v, coord_verify_pages *make)
{
    static const char *const names[] = { "pages", NULL };
    const struct verify_source source = { .file = COORD_RESULT_FILE, .from = "the trials" };
    struct ls_diag why = { .text = "" };
    Ls__Result *again;
    enum ls_err rc;

    if (make == NULL || v->result->n_pages == 0 || v->older)
        return;
    again = coord_message_copy(v->result);
    rc = again != NULL ? make(v->dir, again, &why) : LS_ENOMEM;
    if (rc == LS_OK)
        verify_fields(v, &source, "", &v->result->base, &again->base, names);
    else if (rc == LS_ENOMEM)
        v->no_memory = true;
    else
        verify_note(v, "The plan's tables were not made again: %.300s", why.text);
    coord_message_free(again);
}

static void check_figures(struct verify *v, coord_verify_pages *make_pages)
{
    check_plan(v);
    check_hosts(v);
    check_sums(v);
    check_pages(v, make_pages);
    for (size_t i = 0; i < v->result->n_trials; i++)
        check_trial(v, v->result->trials[i]);
}

/* ---- all of it */

enum ls_err coord_verify(const char *dir, const struct coord_verify_options *options,
                         Ls__Verification *out, struct ls_diag *diag)
{
    struct verify v = { .dir = dir, .out = out };
    struct ls_diag why = { .text = "" };
    Ls__Result *result = NULL;
    enum ls_err loaded = coord_store_load_unchecked(dir, &result, &why);
    enum ls_err rc = LS_OK;

    if (loaded == LS_ENOMEM || (loaded != LS_OK && !is_there(&v, COORD_RESULT_FILE))) {
        *diag = why;
        return loaded;
    }
    v.result = result;
    v.older = result != NULL && strcmp(result->lockstep_version, LS_VERSION) != 0;
    v.no_memory = !coord_message_string(&out->folder, dir) ||
                  !coord_message_string(&out->run_id, result != NULL ? result->run_id : "");
    if (!options->figures_only)
        rc = check_files(&v, diag);
    if (rc == LS_OK)
        rc = check_signature(&v, options->ca, diag);
    if (rc == LS_OK && loaded != LS_OK)
        file_differs(&v, COORD_RESULT_FILE, why.text);
    else if (rc == LS_OK)
        check_figures(&v, options->pages);
    if (rc == LS_OK &&
        (v.no_memory ||
         !coord_message_string(&out->status, out->n_differences > 0 ? "differs" : "agrees")))
        rc = LS_ENOMEM;
    if (rc == LS_ENOMEM)
        (void)ls_fail(diag, rc, "no memory to verify %.200s", dir);
    if (result != NULL)
        ls__result__free_unpacked(result, NULL);
    return rc;
}
