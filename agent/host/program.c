#include "agent/host/program.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/host/proc.h"

#define HASH_CACHE 32

/* ---- find */

static const char *path_of(char *const *envp)
{
    for (size_t i = 0; envp != NULL && envp[i] != NULL; i++) {
        if (strncmp(envp[i], "PATH=", 5) == 0)
            return envp[i] + 5;
    }
    return "";
}

/* folder[0..len) joined with name, from dir if it is relative. False: too long. */
static bool join(const char *dir, const char *folder, size_t len, const char *name,
                 char out[PATH_MAX])
{
    bool relative = len == 0 || folder[0] != '/';
    int n = snprintf(out, PATH_MAX, "%s%s%.*s%s%s", relative ? dir : "", relative ? "/" : "",
                     (int)len, folder, len > 0 ? "/" : "", name);

    return n > 0 && n < PATH_MAX;
}

/* 0, or why it cannot be executed: ENOENT, EACCES, EISDIR. */
static int executable(const char *path)
{
    struct stat st;

    if (stat(path, &st) < 0)
        return errno;
    if (S_ISDIR(st.st_mode))
        return EISDIR;
    if (!S_ISREG(st.st_mode) || access(path, X_OK) < 0)
        return EACCES;
    return 0;
}

static enum ls_err find_in_path(const char *name, const char *dir, const char *path,
                                char out[PATH_MAX], struct ls_diag *diag)
{
    char refused[PATH_MAX] = "";
    const char *at = path;

    while (*path != '\0') {
        size_t len = strcspn(at, ":");
        int error = join(dir, at, len, name, out) ? executable(out) : ENOENT;

        if (error == 0)
            return LS_OK;
        if (error == EACCES && refused[0] == '\0')
            (void)memcpy(refused, out, PATH_MAX);
        if (at[len] == '\0')
            break;
        at += len + 1;
    }
    if (refused[0] != '\0')
        return ls_fail(diag, LS_EINVAL, "%.300s is not executable: chmod +x it", refused);
    return ls_fail(diag, LS_EINVAL,
                   "%.100s is not installed, or not in PATH=%.200s: install it, give its absolute "
                   "path, or set PATH in the target's env",
                   name, path);
}

/* A script's "#!" line. Kernel rules: blanks, the path, at most one argument. */
static void read_interpreter(struct host_program_file *out)
{
    char head[256];
    ssize_t n = host_proc_slurp(out->real, head, sizeof(head));
    const char *from = head + 2;
    size_t len;

    out->interpreter[0] = '\0';
    if (n < 3 || head[0] != '#' || head[1] != '!')
        return;
    from += strspn(from, " \t");
    len = strcspn(from, "\r\n");
    (void)snprintf(out->interpreter, sizeof(out->interpreter), "%.*s", (int)len, from);
}

static enum ls_err check_interpreter(const struct host_program_file *program, const char *dir,
                                     struct ls_diag *diag)
{
    char file[PATH_MAX], path[PATH_MAX];
    int error;

    if (program->interpreter[0] == '\0')
        return LS_OK;
    (void)snprintf(file, sizeof(file), "%.*s", (int)strcspn(program->interpreter, " \t"),
                   program->interpreter);
    error = join(dir, "", 0, file, path) ? executable(file[0] == '/' ? file : path) : ENOENT;
    if (error == 0)
        return LS_OK;
    return ls_fail(diag, LS_EINVAL,
                   "%.200s is a script for %.100s, which %s: install that, or correct the script's "
                   "first line",
                   program->path, file, error == EACCES ? "is not executable" : "does not exist");
}

enum ls_err host_program_find(const char *name, const char *dir, char *const *envp,
                              struct host_program_file *out, struct ls_diag *diag)
{
    enum ls_err rc = LS_OK;
    int error = 0;

    (void)memset(out, 0, sizeof(*out));
    if (name[0] == '\0')
        return ls_fail(diag, LS_EINVAL, "the command is empty");
    if (strchr(name, '/') == NULL) {
        rc = find_in_path(name, dir, path_of(envp), out->path, diag);
    } else if (name[0] == '/') {
        (void)snprintf(out->path, sizeof(out->path), "%s", name);
        error = executable(out->path);
    } else {
        error = join(dir, "", 0, name, out->path) ? executable(out->path) : ENAMETOOLONG;
    }
    if (rc != LS_OK)
        return rc;
    if (error == EACCES)
        return ls_fail(diag, LS_EINVAL, "%.300s is not executable: chmod +x it", out->path);
    if (error != 0)
        return ls_fail(diag, LS_EINVAL, "cannot run %.300s: %s", out->path, strerror(error));
    if (realpath(out->path, out->real) == NULL)
        return ls_fail(diag, LS_EINVAL, "cannot resolve %.300s: %s", out->path, strerror(errno));
    read_interpreter(out);
    return check_interpreter(out, dir, diag);
}

/* ---- hash */

struct cached {
    struct stat st;
    char sha256[LS_SHA256_HEX];
};

static struct {
    pthread_mutex_t lock;
    struct cached entries[HASH_CACHE];
    unsigned used;
    unsigned next; /* the oldest, to be replaced */
} cache = { .lock = PTHREAD_MUTEX_INITIALIZER };

/* The change time too: it cannot be set, so a file that was replaced in place is noticed. */
static bool same_file(const struct stat *a, const struct stat *b)
{
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino && a->st_size == b->st_size &&
           a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec &&
           a->st_ctim.tv_sec == b->st_ctim.tv_sec && a->st_ctim.tv_nsec == b->st_ctim.tv_nsec;
}

static bool cache_get(const struct stat *st, char out[LS_SHA256_HEX])
{
    bool found = false;

    (void)pthread_mutex_lock(&cache.lock);
    for (unsigned i = 0; i < cache.used && !found; i++) {
        found = same_file(&cache.entries[i].st, st);
        if (found)
            (void)memcpy(out, cache.entries[i].sha256, LS_SHA256_HEX);
    }
    (void)pthread_mutex_unlock(&cache.lock);
    return found;
}

static void cache_put(const struct stat *st, const char sha256[LS_SHA256_HEX])
{
    (void)pthread_mutex_lock(&cache.lock);
    cache.entries[cache.next].st = *st;
    (void)memcpy(cache.entries[cache.next].sha256, sha256, LS_SHA256_HEX);
    cache.next = (cache.next + 1) % HASH_CACHE;
    cache.used = cache.used < HASH_CACHE ? cache.used + 1 : HASH_CACHE;
    (void)pthread_mutex_unlock(&cache.lock);
}

enum ls_err host_program_hash(struct host_program_file *program, struct ls_diag *diag)
{
    struct stat before, after;
    enum ls_err rc;

    if (stat(program->real, &before) < 0)
        return ls_fail(diag, LS_EIO, "cannot read %.300s: %s", program->real, strerror(errno));
    if (cache_get(&before, program->sha256))
        return LS_OK;
    rc = ls_sha256_file(program->real, program->sha256, diag);
    if (rc == LS_OK && stat(program->real, &after) == 0 && same_file(&before, &after))
        cache_put(&before, program->sha256);
    return rc;
}

/* ---- what it has become */

static const char *name_in(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash == NULL ? path : slash + 1;
}

/* "/usr/bin/env -S node --x" and "/usr/bin/node --x" name node. */
static bool names_program(const char *interpreter, const char *binary)
{
    char line[PATH_MAX], real[PATH_MAX];
    char *rest = NULL;
    char *word;

    (void)snprintf(line, sizeof(line), "%s", interpreter);
    word = strtok_r(line, " \t", &rest);
    if (word == NULL)
        return false;
    if (strcmp(name_in(word), "env") != 0)
        return realpath(word, real) != NULL && strcmp(real, binary) == 0;
    do
        word = strtok_r(NULL, " \t", &rest);
    while (word != NULL && (word[0] == '-' || strchr(word, '=') != NULL));
    return word != NULL && strncmp(name_in(binary), name_in(word), strlen(name_in(word))) == 0;
}

/* Whose script it is, by where it lies. */
static const char *manager_of(const char *path)
{
    static const struct {
        const char *part;
        const char *name;
    } known[] = { { "/.pyenv/", "pyenv" },   { "/.nvm/", "nvm" },     { "/.asdf/", "asdf" },
                  { "/.volta/", "volta" },   { "/.rbenv/", "rbenv" }, { "/.nodenv/", "nodenv" },
                  { "/mise/", "mise" },      { "/.fnm/", "fnm" },     { "/.n/", "n" },
                  { "/.sdkman/", "sdkman" }, { "/snap/", "snap" } };

    for (size_t i = 0; i < LS_ARRAY_LEN(known); i++) {
        if (strstr(path, known[i].part) != NULL)
            return known[i].name;
    }
    return "";
}

void host_program_look_at(pid_t pid, const struct host_program_file *file,
                          struct host_program_file *out, char *shim, size_t shim_bytes)
{
    const char *manager = manager_of(file->path);
    char link[48];
    ssize_t n;

    (void)memset(out, 0, sizeof(*out));
    shim[0] = '\0';
    (void)snprintf(link, sizeof(link), "/proc/%d/exe", (int)pid);
    n = readlink(link, out->real, sizeof(out->real) - 1);
    if (n <= 0) { /* another user's, or it has gone */
        out->real[0] = '\0';
        return;
    }
    if (strcmp(out->real, file->real) == 0)
        (void)memcpy(out->sha256, file->sha256, sizeof(out->sha256));
    else if (host_program_hash(out, NULL) != LS_OK)
        out->sha256[0] = '\0'; /* replaced since it was started */
    if (strcmp(out->real, file->real) == 0 ||
        (file->interpreter[0] != '\0' && names_program(file->interpreter, out->real)))
        return;
    (void)snprintf(shim, shim_bytes, "%.150s is %s%s%s, which starts %.150s", file->path,
                   manager[0] != '\0' ? manager : "",
                   manager[0] != '\0' ? "'s " : (file->interpreter[0] != '\0' ? "a " : "another "),
                   file->interpreter[0] != '\0' ? "script" : "program", out->real);
}

/* ---- exec */

const char *host_program_exec_path(const struct host_program_file *program,
                                   const struct host_confine *confine)
{
    return confine->by_real_path ? program->real : program->path;
}

void host_program_explain_exec(const struct host_program_file *program, int error, char *out,
                               size_t out_bytes)
{
    const char *hint = "";

    if (error == ENOEXEC)
        hint = ": it is neither a program for this machine nor a script with a \"#!\" line";
    else if (error == ENOENT)
        hint = ": the file is there, but its interpreter or dynamic loader is not";
    else if (error == EACCES)
        hint = ": it, or its interpreter, is not executable, or lies on a noexec file system";
    else if (error == E2BIG)
        hint = ": command and environment are too long";
    else if (error == ETXTBSY)
        hint = ": somebody is writing to it";
    (void)snprintf(out, out_bytes, "cannot execute %.200s: %s%s", program->path, strerror(error),
                   hint);
}
