/* The file of a policy: who could have written it, its text, its message. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/policy/policy_impl.h"
#include "common/buf.h"

/* ---- trust */

static enum ls_err owner_trusted(const struct stat *st, const char *path, struct ls_diag *diag)
{
    if (st->st_uid == 0 || st->st_uid == geteuid())
        return LS_OK;
    return ls_fail(diag, LS_EREFUSED,
                   "%.200s belongs to user %u, who could allow himself anything: chown root it",
                   path, (unsigned)st->st_uid);
}

/* In a folder with the sticky bit, such as /tmp, only the owner can replace what is there. */
static enum ls_err mode_trusted(const struct stat *st, const char *path, struct ls_diag *diag)
{
    bool sticky = S_ISDIR(st->st_mode) && (st->st_mode & S_ISVTX) != 0;

    if ((st->st_mode & (S_IWGRP | S_IWOTH)) == 0 || sticky)
        return LS_OK;
    return ls_fail(diag, LS_EREFUSED,
                   "%.200s can be written by its group or by others, who could allow themselves "
                   "anything: chmod go-w it",
                   path);
}

static enum ls_err folder_trusted(const char *path, struct ls_diag *diag)
{
    struct stat st;
    enum ls_err rc;

    if (stat(path, &st) != 0)
        return ls_fail(diag, LS_EIO, "cannot look at %.200s: %s", path, strerror(errno));
    rc = owner_trusted(&st, path, diag);
    return rc == LS_OK ? mode_trusted(&st, path, diag) : rc;
}

enum ls_err policy_file_trusted(int fd, const char *path, struct ls_diag *diag)
{
    char folder[PATH_MAX];
    struct stat st;
    enum ls_err rc;
    char *slash;

    if (fstat(fd, &st) != 0)
        return ls_fail(diag, LS_EIO, "cannot look at %.200s: %s", path, strerror(errno));
    rc = owner_trusted(&st, path, diag);
    if (rc == LS_OK)
        rc = mode_trusted(&st, path, diag);
    (void)snprintf(folder, sizeof(folder), "%s", path);
    while (rc == LS_OK && (slash = strrchr(folder, '/')) != NULL) {
        slash[slash == folder ? 1 : 0] = '\0';
        rc = folder_trusted(folder, diag);
        if (slash == folder)
            break;
    }
    return rc;
}

/* ---- text */

static enum ls_err read_all(int fd, const char *path, struct ls_buf *buf, struct ls_diag *diag)
{
    unsigned char piece[4096];
    ssize_t got;

    while ((got = read(fd, piece, sizeof(piece))) > 0) {
        if ((size_t)got > buf->max - buf->len)
            return ls_fail(diag, LS_EINVAL, "is larger than %zu KiB", buf->max >> 10);
        ls_buf_add(buf, piece, (size_t)got);
        if (!buf->ok)
            return ls_fail(diag, LS_ENOMEM, "no memory to read it");
    }
    return got == 0 ? LS_OK
                    : ls_fail(diag, LS_EIO, "cannot read %.200s: %s", path, strerror(errno));
}

/* The folder that a link to the file lies in decides which file it is, too. */
static enum ls_err link_trusted(const char *path, struct ls_diag *diag)
{
    char named[PATH_MAX], folder[PATH_MAX];
    char *slash;
    int n = snprintf(named, sizeof(named), "%s", path);

    if (n < 0 || (size_t)n >= sizeof(named))
        return ls_fail(diag, LS_EIO, "its path is too long");
    slash = strrchr(named, '/');
    if (slash != NULL)
        slash[slash == named ? 1 : 0] = '\0';
    if (realpath(slash != NULL ? named : ".", folder) == NULL)
        return ls_fail(diag, LS_EIO, "cannot be read: %s", strerror(errno));
    return folder_trusted(folder, diag);
}

static enum ls_err read_trusted(const char *path, struct ls_buf *buf, struct ls_diag *diag)
{
    char real[PATH_MAX];
    struct stat st;
    enum ls_err rc = link_trusted(path, diag);
    int fd;

    if (rc != LS_OK)
        return rc;
    if (realpath(path, real) == NULL)
        return ls_fail(diag, LS_EIO, "cannot be read: %s", strerror(errno));
    fd = open(real, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0)
        return ls_fail(diag, LS_EIO, "cannot be read: %s", strerror(errno));
    if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode))
        rc = ls_fail(diag, LS_EIO, "is not a regular file");
    if (rc == LS_OK)
        rc = policy_file_trusted(fd, real, diag);
    if (rc == LS_OK)
        rc = read_all(fd, real, buf, diag);
    (void)close(fd);
    return rc;
}

/* ---- the message */

enum ls_err agent_policy_parse(struct ls_bytes text, const char *file, bool root,
                               struct ls_issues *issues, struct agent_policy **out_policy)
{
    struct agent_policy *policy = calloc(1, sizeof(*policy));
    ProtobufCMessage *message = NULL;
    struct ls_marks *marks = NULL;
    enum ls_err rc = LS_ENOMEM;

    if (policy != NULL)
        policy->file = strdup(file);
    if (policy != NULL && policy->file != NULL)
        rc = ls_msg_from_yaml_partial(&ls__policy__descriptor, text, issues, &message, &marks);
    if (message != NULL) {
        enum ls_err check;

        policy->message = (Ls__Policy *)message;
        check = policy_check(policy, marks, root, issues);
        rc = rc == LS_OK || check == LS_ENOMEM ? check : rc;
    }
    ls_issues_sort(issues);
    ls_marks_destroy(marks);
    if (rc == LS_OK) {
        *out_policy = policy;
        return LS_OK;
    }
    if (rc == LS_ENOMEM)
        ls_issues_add(issues, 0, 0, "", "there is no memory left to read it");
    agent_policy_destroy(policy);
    return rc;
}

enum ls_err agent_policy_load(const char *path, struct ls_issues *issues,
                              struct agent_policy **out_policy)
{
    struct ls_diag diag = { 0 };
    struct ls_buf buf;
    enum ls_err rc;

    ls_buf_init(&buf, AGENT_POLICY_MAX_BYTES);
    rc = read_trusted(path, &buf, &diag);
    if (rc != LS_OK)
        ls_issues_add(issues, 0, 0, "", "%s", diag.text);
    else
        rc = agent_policy_parse((struct ls_bytes){ buf.data, buf.len }, path, geteuid() == 0,
                                issues, out_policy);
    ls_buf_fini(&buf);
    return rc;
}

const char *policy_file_name(const struct agent_policy *policy)
{
    const char *slash = strrchr(policy->file, '/');

    return slash != NULL ? slash + 1 : policy->file;
}

enum ls_err policy_refuse(const struct agent_policy *policy, struct ls_diag *diag, const char *fmt,
                          ...)
{
    char text[sizeof(diag->text)];
    va_list ap;

    va_start(ap, fmt);
    (void)vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    if (policy->file == NULL)
        return ls_fail(diag, LS_EREFUSED, "no policy file: %s", text);
    return ls_fail(diag, LS_EREFUSED, "%.64s: %s", policy_file_name(policy), text);
}
