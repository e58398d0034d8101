/* agent/policy/policy_impl.h - the inside of a policy; nobody else includes it. */
#ifndef LS_AGENT_POLICY_POLICY_IMPL_H
#define LS_AGENT_POLICY_POLICY_IMPL_H

#include "agent/policy/net.h"
#include "agent/policy/policy.h"

/* What a program's rule says of who runs it, looked up when the file was read. */
struct policy_program {
    struct host_confine confine;
};

struct policy_nets {
    struct policy_net *items; /* owned */
    size_t count;
};

struct agent_policy {
    enum agent_policy_kind kind;     /* of no meaning with a file */
    char *file;                      /* owned; as it was named; NULL: none */
    Ls__Policy *message;             /* owned; NULL: no file */
    struct policy_program *programs; /* owned; one for each of message's */
    struct policy_nets targets;
    struct policy_nets sources;
};

/* check.c: what a schema cannot say. Fills what is looked up; issues say what is wrong. LS_ENOMEM;
 * LS_EINVAL. */
enum ls_err policy_check(struct agent_policy *policy, const struct ls_marks *marks, bool root,
                         struct ls_issues *issues) LS_NODISCARD;

/* file.c: is what is open as fd, and each folder on the way to path, safe from others? LS_EREFUSED
 * says who could write what. path: absolute, without links. */
enum ls_err policy_file_trusted(int fd, const char *path, struct ls_diag *diag) LS_NODISCARD;

/* "policy.yaml": the file without its folders; of one with a file only. */
const char *policy_file_name(const struct agent_policy *policy);
/* "policy.yaml: " and the sentence, into diag; returns LS_EREFUSED. */
enum ls_err policy_refuse(const struct agent_policy *policy, struct ls_diag *diag, const char *fmt,
                          ...) LS_PRINTF(3, 4);

#endif
