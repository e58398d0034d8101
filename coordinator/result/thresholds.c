/* How much worse each metric may get: a file. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/fs.h"
#include "common/msg_yaml.h"
#include "coordinator/result/compare.h"
#include "coordinator/result/summary.h"
#include "proto/plan.pb-c.h"

enum ls_err coord_compare_percent(const char *text, double *out, struct ls_diag *diag)
{
    char *end = NULL;
    double percent = strtod(text, &end);

    if (end == text || !(percent > 0 && percent < 1000) || (*end == '%' ? end[1] : *end) != '\0')
        return ls_fail(
            diag, LS_EINVAL,
            "'%.40s' is no threshold: a percentage above 0 is expected, such as 5 or 2.5%%", text);
    *out = percent / 100;
    return LS_OK;
}

void coord_thresholds_fini(struct coord_thresholds *thresholds)
{
    for (size_t i = 0; i < thresholds->count; i++)
        free(thresholds->items[i].metric);
    free(thresholds->items);
    *thresholds = (struct coord_thresholds){ .count = 0 };
}

/* Each mistake at its place in the file. */
static enum ls_err take(const Ls__Thresholds *from, const struct ls_marks *marks,
                        struct ls_issues *issues, struct coord_thresholds *out)
{
    out->items = calloc(from->n_fail_on + 1, sizeof(*out->items));
    if (out->items == NULL)
        return LS_ENOMEM;
    for (size_t i = 0; i < from->n_fail_on; i++) {
        const Ls__Thresholds__FailOnEntry *entry = from->fail_on[i];
        struct coord_threshold *to = &out->items[out->count];
        struct ls_diag why = { .text = "" };

        /* A script's own are known to the results alone. */
        if (coord_metric_find(entry->key) == NULL &&
            strncmp(entry->key, COORD_SCRIPT_PREFIX, strlen(COORD_SCRIPT_PREFIX)) != 0)
            ls_issues_add_at(issues, marks, &from->base, "fail_on", (int)i,
                             "there is no metric '%.60s'", entry->key);
        if (coord_compare_percent(entry->value, &to->fail_on, &why) != LS_OK)
            ls_issues_add_at(issues, marks, &from->base, "fail_on", (int)i, "%s", why.text);
        to->metric = strdup(entry->key);
        if (to->metric == NULL)
            return LS_ENOMEM;
        out->count++;
    }
    if (from->n_fail_on == 0)
        ls_issues_add_at(issues, marks, &from->base, NULL, -1,
                         "has no thresholds: 'fail_on: {throughput_per_s: 5%%}' is one");
    return issues->count > 0 ? LS_EINVAL : LS_OK;
}

static enum ls_err say(const struct ls_issues *issues, enum ls_err rc, const char *path,
                       struct ls_diag *diag)
{
    char *text;

    if (rc == LS_ENOMEM)
        return ls_fail(diag, rc, "no memory for %.200s", path);
    text = ls_issues_format(issues);
    if (text != NULL && text[0] != '\0')
        text[strcspn(text, "\n")] = '\0'; /* the first one is enough to mend */
    rc = ls_fail(diag, LS_EINVAL, "%.440s", text != NULL ? text : path);
    free(text);
    return rc;
}

enum ls_err coord_thresholds_read(const char *path, struct coord_thresholds *out,
                                  struct ls_diag *diag)
{
    ProtobufCMessage *message = NULL;
    struct ls_marks *marks = NULL;
    struct ls_issues issues;
    char *text = NULL;
    size_t len = 0;
    enum ls_err rc = ls_fs_read(path, LS_YAML_MAX_BYTES, &text, &len, diag);

    *out = (struct coord_thresholds){ .count = 0 };
    if (rc != LS_OK)
        return rc;
    ls_issues_init(&issues, path);
    rc = ls_msg_from_yaml(&ls__thresholds__descriptor,
                          (struct ls_bytes){ (const unsigned char *)text, len }, &issues, &message,
                          &marks);
    if (rc == LS_OK)
        rc = take((const Ls__Thresholds *)message, marks, &issues, out);
    if (rc != LS_OK)
        rc = say(&issues, rc, path, diag);
    if (message != NULL)
        protobuf_c_message_free_unpacked(message, NULL);
    ls_marks_destroy(marks);
    ls_issues_fini(&issues);
    free(text);
    return rc;
}
