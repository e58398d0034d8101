#include "coordinator/plan/plan_file.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/fs.h"
#include "common/msg_marks.h"
#include "coordinator/plan/plan_check.h"
#include "coordinator/plan/plan_expand.h"
#include "coordinator/plan/plan_quick.h"

/* ---- the text ---------------------------------------------------------------------------------
 */

static enum ls_err fail_file(struct ls_issues *issues, enum ls_err code, const char *text)
{
    ls_issues_add(issues, 0, 0, "", "%s", text);
    return code;
}

/* The commonest mistakes in words of their own; the file may still change behind our back. */
static enum ls_err look_at_file(const char *path, struct ls_issues *issues)
{
    char text[160];
    struct stat st;

    if (stat(path, &st) != 0) {
        (void)snprintf(text, sizeof(text), "cannot be read: %s", strerror(errno));
        return fail_file(issues, LS_EIO, text);
    }
    if (S_ISDIR(st.st_mode))
        return fail_file(issues, LS_EIO, "is a folder: name the plan file in it");
    if (!S_ISREG(st.st_mode))
        return fail_file(issues, LS_EIO, "is not a regular file");
    if (st.st_size == 0)
        return fail_file(issues, LS_EINVAL, "is empty: a plan needs targets and workloads");
    if (st.st_size > LS_YAML_MAX_BYTES) {
        (void)snprintf(text, sizeof(text), "is %lld bytes long: the limit is %u MiB",
                       (long long)st.st_size, LS_YAML_MAX_BYTES >> 20);
        return fail_file(issues, LS_EINVAL, text);
    }
    return LS_OK;
}

static enum ls_err read_text(const char *path, struct ls_issues *issues, char **out_text,
                             size_t *out_bytes)
{
    enum ls_err rc = look_at_file(path, issues);
    struct ls_diag diag;

    if (rc != LS_OK)
        return rc;
    rc = ls_fs_read(path, LS_YAML_MAX_BYTES, out_text, out_bytes, &diag);
    if (rc != LS_OK)
        ls_issues_add(issues, 0, 0, "", "%s", diag.text);
    return rc == LS_OK || rc == LS_ENOMEM ? rc : LS_EIO;
}

static char *folder_of(const char *path)
{
    const char *slash = strrchr(path, '/');

    if (slash == NULL)
        return strdup(".");
    return slash == path ? strdup("/") : strndup(path, (size_t)(slash - path));
}

/* ---- the message ------------------------------------------------------------------------------
 */

/* "quick start.yaml" gives "quick-start". */
static enum ls_err name_by_file(Ls__Plan *plan, const char *path)
{
    const char *slash = strrchr(path, '/');
    const char *base = slash == NULL ? path : slash + 1;
    const char *dot = strrchr(base, '.');
    size_t len = dot == NULL || dot == base ? strlen(base) : (size_t)(dot - base);
    char *name;

    if (plan->name != NULL)
        return LS_OK;
    if (len > COORD_PLAN_NAME_MAX)
        len = COORD_PLAN_NAME_MAX;
    name = len == 0 ? strdup("plan") : strndup(base, len);
    if (name == NULL)
        return LS_ENOMEM;
    for (char *c = name; *c != '\0'; c++) {
        if (!coord_plan_name_char(*c))
            *c = '-';
    }
    plan->name = name;
    return LS_OK;
}

/* What can be read of it, even with LS_EINVAL. */
static enum ls_err read_plan(const char *file, struct ls_bytes text, struct ls_issues *issues,
                             Ls__Plan **out_plan, struct ls_marks **out_marks)
{
    ProtobufCMessage *message;
    enum ls_err rc =
        ls_msg_from_yaml_partial(&ls__plan__descriptor, text, issues, &message, out_marks);

    *out_plan = (Ls__Plan *)message;
    if (message != NULL && name_by_file(*out_plan, file) != LS_OK) {
        ls__plan__free_unpacked(*out_plan, NULL);
        ls_marks_destroy(*out_marks);
        *out_plan = NULL;
        *out_marks = NULL;
        rc = LS_ENOMEM;
    }
    return rc;
}

enum ls_err coord_plan_load(const char *path, struct ls_issues *issues, Ls__Plan **out_plan,
                            struct ls_marks **out_marks, char sha256[LS_SHA256_HEX])
{
    Ls__Plan *plan = NULL;
    struct ls_marks *marks = NULL;
    struct ls_bytes bytes;
    char *text = NULL;
    size_t len = 0;
    enum ls_err rc = read_text(path, issues, &text, &len);

    if (rc != LS_OK)
        return rc;
    bytes = (struct ls_bytes){ (const unsigned char *)text, len };
    rc = read_plan(path, bytes, issues, &plan, &marks);
    if (rc == LS_OK) {
        ls_sha256_hex(bytes, sha256);
        *out_plan = plan;
        *out_marks = marks;
    } else if (plan != NULL) {
        ls__plan__free_unpacked(plan, NULL);
        ls_marks_destroy(marks);
    }
    free(text);
    return rc;
}

static enum ls_err set_one(Ls__Plan *plan, struct ls_marks *marks, const char *word,
                           struct ls_issues *issues)
{
    const char *equals = strchr(word, '=');
    enum ls_err rc;
    char *path;

    if (equals == NULL || equals == word) {
        ls_issues_add_from(issues, "--set", 0, 0, "",
                           "'%.64s' is no change: write path=value, such as "
                           "workloads[0].measure=2s",
                           word);
        return LS_EINVAL;
    }
    path = strndup(word, (size_t)(equals - word));
    if (path == NULL)
        return LS_ENOMEM;
    rc = ls_msg_set(&plan->base, marks, path, equals + 1, issues);
    free(path);
    return rc;
}

enum ls_err coord_plan_set(Ls__Plan *plan, struct ls_marks *marks, const char *const *set,
                           size_t count, struct ls_issues *issues)
{
    enum ls_err result = LS_OK;

    for (size_t i = 0; i < count; i++) {
        enum ls_err rc = set_one(plan, marks, set[i], issues);

        if (rc == LS_ENOMEM)
            return rc;
        if (rc != LS_OK)
            result = rc;
    }
    return result;
}

/* ---- all in one -------------------------------------------------------------------------------
 */

void coord_plan_close(struct coord_plan *plan)
{
    if (plan->plan != NULL)
        ls__plan__free_unpacked(plan->plan, NULL);
    ls_marks_destroy(plan->marks);
    free(plan->text);
    free(plan->base_dir);
    *plan = (struct coord_plan){ 0 };
}

/* Goes on after mistakes, so that the user sees all of them. */
static enum ls_err read_and_check(const struct coord_plan_source *source, struct ls_issues *issues,
                                  struct coord_plan *p)
{
    struct ls_bytes bytes = { (const unsigned char *)p->text, p->text_bytes };
    enum ls_err read = read_plan(source->file, bytes, issues, &p->plan, &p->marks);
    enum ls_err set;
    enum ls_err check;

    if (p->plan == NULL)
        return read;
    if (source->quick && !coord_plan_quick(p->plan))
        return LS_ENOMEM;
    set = coord_plan_set(p->plan, p->marks, source->set, source->set_count, issues);
    if (set == LS_ENOMEM || coord_plan_expand(p->plan, p->base_dir) != LS_OK)
        return LS_ENOMEM;
    check = coord_plan_check(p->plan, p->marks, p->base_dir, issues);
    return read != LS_OK ? read : set != LS_OK ? set : check;
}

enum ls_err coord_plan_open(const struct coord_plan_source *source, struct ls_issues *issues,
                            struct coord_plan *out_plan)
{
    struct coord_plan p = { .text_bytes = source->text_bytes };
    enum ls_err rc = LS_OK;

    if (source->text == NULL) {
        rc = read_text(source->file, issues, &p.text, &p.text_bytes);
    } else {
        p.text = calloc(1, source->text_bytes + 1);
        if (p.text != NULL)
            (void)memcpy(p.text, source->text, source->text_bytes);
    }
    p.base_dir = source->base_dir != NULL ? strdup(source->base_dir) : folder_of(source->file);
    if (rc == LS_OK && (p.text == NULL || p.base_dir == NULL))
        rc = LS_ENOMEM;
    if (rc == LS_OK)
        rc = read_and_check(source, issues, &p);
    if (rc == LS_OK) {
        ls_sha256_hex((struct ls_bytes){ (const unsigned char *)p.text, p.text_bytes }, p.sha256);
        *out_plan = p;
        return LS_OK;
    }
    if (rc == LS_ENOMEM && issues->count == 0)
        ls_issues_add(issues, 0, 0, "", "there is no memory left to read it");
    ls_issues_sort(issues);
    coord_plan_close(&p);
    return rc;
}
