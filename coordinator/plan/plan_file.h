/* coordinator/plan/plan_file.h - a plan from its file, with the changes of the command line. */
#ifndef LS_COORDINATOR_PLAN_PLAN_FILE_H
#define LS_COORDINATOR_PLAN_PLAN_FILE_H

#include "common/digest.h"
#include "common/msg_yaml.h"
#include "proto/plan.pb-c.h"

/* Where a plan comes from. */
struct coord_plan_source {
    const char *file;       /* path, and how messages name it */
    const char *text;       /* NULL: read from file */
    size_t text_bytes;      /* of text, unless it is NULL */
    const char *base_dir;   /* that its files are relative to; NULL: the folder of file */
    const char *const *set; /* "path=value" each, applied in this order */
    size_t set_count;
    bool quick; /* seconds a row: plan_quick.h */
};

struct coord_plan {
    Ls__Plan *plan; /* checked and completed */
    struct ls_marks *marks;
    char *text; /* as given; NUL-terminated beyond text_bytes */
    size_t text_bytes;
    char *base_dir;
    char sha256[LS_SHA256_HEX]; /* of text */
};

/* Reads, changes, checks and completes a plan: everything below in one. All mistakes of the file,
 * of the changes and of what they make together are in issues (initialised by the caller with
 * source->file), sorted by position. LS_OK: the caller ends with coord_plan_close(). LS_EINVAL: the
 * plan is wrong; LS_EIO: it cannot be read; LS_ENOMEM; *out_plan is then untouched. */
enum ls_err coord_plan_open(const struct coord_plan_source *source, struct ls_issues *issues,
                            struct coord_plan *out_plan) LS_NODISCARD;
void coord_plan_close(struct coord_plan *plan); /* all zero is fine */

/* Only reads it: nothing is checked that a schema cannot say, no default filled in but the name,
 * which is that of the file. Errors as above. */
enum ls_err coord_plan_load(const char *path, struct ls_issues *issues, Ls__Plan **out_plan,
                            struct ls_marks **out_marks, char sha256[LS_SHA256_HEX]) LS_NODISCARD;

/* Applies "path=value" (proto/README.md) to a plan that was read. LS_EINVAL: issues say why. */
enum ls_err coord_plan_set(Ls__Plan *plan, struct ls_marks *marks, const char *const *set,
                           size_t count, struct ls_issues *issues) LS_NODISCARD;

#endif
