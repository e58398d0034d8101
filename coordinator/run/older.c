#include "coordinator/run/older.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/buf.h"
#include "coordinator/bundle/plan_files.h"
#include "coordinator/result/compare.h"
#include "coordinator/result/compare_internal.h"
#include "coordinator/result/message.h"
#include "coordinator/run/fill.h"

#define TEXT_MAX (1u << 24)

/* ---- what a row is */

static void add_packed(struct ls_buf *text, const ProtobufCMessage *message)
{
    size_t size = protobuf_c_message_get_packed_size(message);
    unsigned char *packed = malloc(size + 1);

    if (packed != NULL) {
        (void)protobuf_c_message_pack(message, packed);
        ls_buf_add(text, packed, size);
    }
    text->ok = text->ok && packed != NULL;
    free(packed);
}

enum ls_err coord_older_row_sha256(const Ls__Target *target, const Ls__Workload *workload,
                                   const char *base_dir, char out[LS_SHA256_HEX],
                                   struct ls_diag *diag)
{
    Ls__Result named = LS__RESULT__INIT;
    struct ls_buf text;
    enum ls_err rc;

    ls_buf_init(&text, TEXT_MAX);
    add_packed(&text, &target->base);
    add_packed(&text, &workload->base);
    rc = coord_plan_files_of(&target->base, base_dir, &named, diag);
    if (rc == LS_OK)
        rc = coord_plan_files_of(&workload->base, base_dir, &named, diag);
    for (size_t i = 0; i < named.n_files && rc == LS_OK; i++)
        ls_buf_adds(&text, named.files[i]->sha256);
    if (rc == LS_OK && !text.ok)
        rc = ls_fail(diag, LS_ENOMEM, "no memory for what a trial is");
    if (rc == LS_OK)
        ls_sha256_hex((struct ls_bytes){ text.data, text.len }, out);
    coord_message_clear(&named.n_files, &named.files);
    ls_buf_fini(&text);
    return rc;
}

/* ---- the same machine? */

/* Facts without which figures do not belong into one table, and facts that a reader has to know of.
 */
static const char *const machine[] = { " hostname", " architecture", " cpu_model", " cpu_threads" };
static const char *const noted[] = { " kernel", " os", " smt", " governor", " boost" };

static bool ends_with_one_of(const char *what, const char *const *tails, size_t count)
{
    size_t len = strlen(what);

    for (size_t i = 0; i < count; i++) {
        size_t tail = strlen(tails[i]);

        if (len > tail && strcmp(what + len - tail, tails[i]) == 0)
            return true;
    }
    return false;
}

static enum ls_err compare_hosts(const struct coord_older *older, const Ls__Result *from,
                                 const Ls__Result *to, Ls__Merged *merged, struct ls_diag *diag)
{
    Ls__Comparison *found = coord_message_new(&ls__comparison__descriptor);
    enum ls_err rc = LS_OK;

    if (found == NULL || !coord_compare_hosts(found, from, to))
        rc = ls_fail(diag, LS_ENOMEM, "no memory to compare hosts");
    for (size_t i = 0; rc == LS_OK && i < found->n_differences; i++) {
        const Ls__Difference *one = found->differences[i];
        char text[300];

        if (ends_with_one_of(one->what, machine, LS_ARRAY_LEN(machine))) {
            rc = ls_fail(diag, LS_ESTATE,
                         "%.80s cannot be merged: %.60s was '%.40s' and is '%.40s', and figures of "
                         "two machines do not belong into one table",
                         older->dir, one->what, one->a, one->b);
            break;
        }
        if (!ends_with_one_of(one->what, noted, LS_ARRAY_LEN(noted)))
            continue;
        (void)snprintf(text, sizeof(text), "%.80s: '%.80s', then '%.80s'", one->what, one->a,
                       one->b);
        if (!coord_message_add_string(&merged->n_differences, &merged->differences, text))
            rc = ls_fail(diag, LS_ENOMEM, "no memory for what differs");
    }
    coord_message_free(found);
    return rc;
}

/* ---- row by row */

struct row {
    const char *target;
    const char *workload;
};

static bool runs_again(const struct coord_older *older, const struct row *row)
{
    for (size_t i = 0; i < older->running->count; i++) {
        const struct coord_trial *trial = &older->running->items[i];

        if (strcmp(trial->target->name, row->target) == 0 &&
            strcmp(trial->workload->name, row->workload) == 0)
            return true;
    }
    return false;
}

/* Probes and rungs are in folders of their own, which are not the trial's. */
static bool has_parts(const Ls__Workload *workload)
{
    return workload->load != NULL && (workload->load->law_case == LS__LOAD__LAW_CAPACITY ||
                                      workload->load->law_case == LS__LOAD__LAW_LADDER);
}

/* Why the row is not taken, in why; "" if it is. */
static enum ls_err judge(const struct coord_older *older, const Ls__Trial *trial, char *why,
                         size_t why_bytes, struct ls_diag *diag)
{
    const Ls__Target *target = NULL;
    const Ls__Workload *workload = NULL;
    char hex[LS_SHA256_HEX];
    enum ls_err rc;

    for (size_t i = 0; i < older->plan->n_targets; i++) {
        if (strcmp(older->plan->targets[i]->name, trial->target) == 0)
            target = older->plan->targets[i];
    }
    for (size_t i = 0; i < older->plan->n_workloads; i++) {
        if (strcmp(older->plan->workloads[i]->name, trial->workload) == 0)
            workload = older->plan->workloads[i];
    }
    why[0] = '\0';
    if (target == NULL || workload == NULL || !coord_workload_has_target(workload, target->name)) {
        (void)snprintf(why, why_bytes, "the plan has no such row any more");
        return LS_OK;
    }
    if (has_parts(workload)) {
        (void)snprintf(why, why_bytes,
                       "the parts of a search or a ladder are not copied: run it again");
        return LS_OK;
    }
    rc = coord_older_row_sha256(target, workload, older->base_dir, hex, diag);
    if (rc == LS_OK && strcmp(hex, trial->row_sha256) != 0)
        (void)snprintf(
            why, why_bytes,
            "the plan, a file that it names, or --quick makes it another row than it was");
    return rc;
}

static bool is_first_of_row(const Ls__Result *from, size_t at)
{
    for (size_t i = 0; i < at; i++) {
        if (strcmp(from->trials[i]->target, from->trials[at]->target) == 0 &&
            strcmp(from->trials[i]->workload, from->trials[at]->workload) == 0)
            return false;
    }
    return true;
}

static enum ls_err take_trial(const struct coord_older *older, const Ls__Result *from,
                              const Ls__Trial *trial, struct coord_store *store, Ls__Result *to,
                              struct ls_diag *diag)
{
    struct coord_store_trial *files = NULL;
    Ls__Trial *copy = coord_message_copy(trial);
    enum ls_err rc = LS_ENOMEM;

    if (copy == NULL ||
        (copy->run_id[0] == '\0' && !coord_message_string(&copy->run_id, from->run_id))) {
        coord_message_free(copy);
        return ls_fail(diag, rc, "no memory for an older trial");
    }
    copy->index = (uint32_t)to->n_trials + 1;
    rc = store != NULL ? coord_store_trial_begin(store, copy->index, copy->target, copy->workload,
                                                 copy->repetition, &files, diag)
                       : LS_OK;
    if (rc == LS_OK && files != NULL)
        rc = coord_store_trial_copy(files, older->dir, trial->folder, diag);
    if (rc == LS_OK && files != NULL &&
        !coord_message_string(&copy->folder, coord_store_trial_folder(files)))
        rc = ls_fail(diag, LS_ENOMEM, "no memory for an older trial");
    if (rc != LS_OK) {
        coord_store_trial_discard(files);
        coord_message_free(copy);
        return rc;
    }
    if (files != NULL)
        rc = coord_store_trial_finish(files, copy, diag);
    if (rc == LS_OK)
        return coord_fill_add_trial(to, copy, diag);
    coord_message_free(copy);
    return rc;
}

static enum ls_err take_row(const struct coord_older *older, const Ls__Result *from, size_t first,
                            struct coord_store *store, Ls__Result *to, Ls__Merged *merged,
                            struct ls_diag *diag)
{
    const Ls__Trial *trial = from->trials[first];
    struct row row = { trial->target, trial->workload };
    char why[120], text[400];
    enum ls_err rc;

    if (runs_again(older, &row))
        return LS_OK;
    rc = judge(older, trial, why, sizeof(why), diag);
    if (rc != LS_OK)
        return rc;
    (void)snprintf(text, sizeof(text), "%.64s/%.64s%s%s", row.target, row.workload,
                   why[0] != '\0' ? ": " : "", why);
    if (!coord_message_add_string(why[0] != '\0' ? &merged->n_left : &merged->n_rows,
                                  why[0] != '\0' ? &merged->left : &merged->rows, text))
        return ls_fail(diag, LS_ENOMEM, "no memory for an older row");
    for (size_t i = first; why[0] == '\0' && i < from->n_trials && rc == LS_OK; i++) {
        if (strcmp(from->trials[i]->target, row.target) == 0 &&
            strcmp(from->trials[i]->workload, row.workload) == 0)
            rc = take_trial(older, from, from->trials[i], store, to, diag);
    }
    return rc;
}

enum ls_err coord_older_take(const struct coord_older *older, struct coord_store *store,
                             Ls__Result *result, struct ls_diag *diag)
{
    Ls__Result *from = NULL;
    Ls__Merged *merged;
    enum ls_err rc = coord_store_load(older->dir, &from, diag);

    if (rc != LS_OK)
        return rc;
    merged = coord_message_append(&result->n_merged, &result->merged, &ls__merged__descriptor);
    if (merged == NULL || !coord_message_string(&merged->run_id, from->run_id) ||
        !coord_message_string(&merged->folder, older->dir) ||
        !coord_message_string(&merged->started_at, from->started_at))
        rc = ls_fail(diag, LS_ENOMEM, "no memory for an older result");
    if (rc == LS_OK)
        rc = compare_hosts(older, from, result, merged, diag);
    for (size_t i = 0; i < from->n_trials && rc == LS_OK; i++) {
        if (is_first_of_row(from, i))
            rc = take_row(older, from, i, store, result, merged, diag);
    }
    ls__result__free_unpacked(from, NULL);
    return rc;
}

uint32_t coord_older_count(const Ls__Result *result)
{
    uint32_t count = 0;

    for (size_t i = 0; i < result->n_trials; i++)
        count += result->trials[i]->run_id[0] != '\0';
    return count;
}
