#include "agent/expand.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/buf.h"

#define TEXT_MAX     (128u << 10)
#define PLACEHOLDERS "{dir}, {host}, {port}, {cpus}, {instance}, {program}"

/* The length of the placeholder that begins at text, braces included; 0: there is none. */
static size_t placeholder(const char *text)
{
    size_t len = strspn(text + 1, "abcdefghijklmnopqrstuvwxyz_");

    return len > 0 && text[len + 1] == '}' ? len + 2 : 0;
}

/* number: room for a value that has to be written. */
static const char *value_of(const struct agent_expand *values, const char *name, size_t len,
                            char number[16])
{
    bool instance = len == 8 && memcmp(name, "instance", len) == 0;

    (void)snprintf(number, 16, "%" PRIu32, instance ? values->instance : values->port);
    if (len == 3 && memcmp(name, "dir", len) == 0)
        return values->dir;
    if (len == 4 && memcmp(name, "host", len) == 0)
        return values->host;
    if (len == 4 && memcmp(name, "port", len) == 0)
        return number;
    if (instance)
        return number;
    if (len == 4 && memcmp(name, "cpus", len) == 0)
        return values->cpus != NULL ? values->cpus : "";
    if (len == 7 && memcmp(name, "program", len) == 0)
        return values->program;
    return NULL;
}

static enum ls_err expand_into(const struct agent_expand *values, const char *text,
                               struct ls_buf *out, struct ls_diag *diag)
{
    while (*text != '\0') {
        size_t len = *text == '{' ? placeholder(text) : 0;
        char number[16];
        const char *value;

        if (len == 0) {
            size_t plain = 1 + strcspn(text + 1, "{");

            ls_buf_add(out, text, plain);
            text += plain;
            continue;
        }
        value = value_of(values, text + 1, len - 2, number);
        if (value == NULL)
            return ls_fail(diag, LS_EINVAL, "%.*s is no placeholder: there are " PLACEHOLDERS,
                           (int)(len < 80 ? len : 80), text);
        ls_buf_adds(out, value);
        text += len;
    }
    return LS_OK;
}

/* prefix is taken as it stands. */
static enum ls_err expand(const struct agent_expand *values, const char *prefix, const char *text,
                          char **out_text, struct ls_diag *diag)
{
    struct ls_buf buf;
    enum ls_err rc;
    char *result = NULL;

    ls_buf_init(&buf, TEXT_MAX);
    ls_buf_adds(&buf, prefix);
    rc = expand_into(values, text, &buf, diag);
    if (rc == LS_OK && !buf.ok)
        rc = ls_fail(diag, LS_ERANGE, "\"%.40s\" is longer than %u KiB", text, TEXT_MAX >> 10);
    if (rc == LS_OK)
        result = buf.len > 0 ? ls_buf_detach(&buf) : strdup("");
    if (rc == LS_OK && result == NULL)
        rc = ls_fail(diag, LS_ENOMEM, "no memory for \"%.40s\"", text);
    ls_buf_fini(&buf);
    if (rc == LS_OK)
        *out_text = result;
    return rc;
}

enum ls_err agent_expand_text(const struct agent_expand *values, const char *text, char **out_text,
                              struct ls_diag *diag)
{
    return expand(values, "", text, out_text, diag);
}

enum ls_err agent_expand_argv(const struct agent_expand *values, char *const *words, size_t count,
                              char ***out_argv, struct ls_diag *diag)
{
    char **argv = calloc(count + 1, sizeof(*argv));
    enum ls_err rc = LS_OK;

    if (argv == NULL)
        return ls_fail(diag, LS_ENOMEM, "no memory for %zu words", count);
    for (size_t i = 0; i < count && rc == LS_OK; i++)
        rc = expand(values, "", words[i], &argv[i], diag);
    if (rc != LS_OK)
        agent_expand_free(argv);
    else
        *out_argv = argv;
    return rc;
}

/* Replaces what has the same name. list has room for one more. Takes entry. */
static void set_entry(char **list, size_t *count, char *entry)
{
    size_t len = strcspn(entry, "=") + 1;
    size_t i = 0;

    while (i < *count && strncmp(list[i], entry, len) != 0)
        i++;
    if (i == *count)
        (*count)++;
    else
        free(list[i]);
    list[i] = entry;
}

static enum ls_err inherit(const char *name, char **list, size_t *count, struct ls_diag *diag)
{
    const char *value = getenv(name);
    size_t len;
    char *entry;

    if (value == NULL)
        return LS_OK;
    len = strlen(name) + strlen(value) + 2;
    entry = malloc(len);
    if (entry == NULL)
        return ls_fail(diag, LS_ENOMEM, "no memory for %s", name);
    (void)snprintf(entry, len, "%s=%s", name, value);
    set_entry(list, count, entry);
    return LS_OK;
}

static enum ls_err add_entry(const struct agent_expand *values, const char *name, const char *value,
                             char **list, size_t *count, struct ls_diag *diag)
{
    size_t prefix_bytes = strlen(name) + 2;
    char *prefix, *entry = NULL;
    enum ls_err rc;

    if (name[0] == '\0' || strchr(name, '=') != NULL)
        return ls_fail(diag, LS_EINVAL, "\"%.80s\" is no name for an environment variable", name);
    prefix = malloc(prefix_bytes);
    if (prefix == NULL)
        return ls_fail(diag, LS_ENOMEM, "no memory for %.80s", name);
    (void)snprintf(prefix, prefix_bytes, "%s=", name);
    rc = expand(values, prefix, value, &entry, diag);
    free(prefix);
    if (rc != LS_OK)
        return ls_fail_in(diag, rc, "%.80s", name);
    set_entry(list, count, entry);
    return LS_OK;
}

enum ls_err agent_expand_env(const struct agent_expand *values, Ls__Target__EnvEntry *const *env,
                             size_t count, char ***out_envp, struct ls_diag *diag)
{
    static const char *const inherited[] = { "PATH", "HOME", "LANG" };
    size_t used = 0;
    char **list = calloc(count + LS_ARRAY_LEN(inherited) + 1, sizeof(*list));
    enum ls_err rc = LS_OK;

    if (list == NULL)
        return ls_fail(diag, LS_ENOMEM, "no memory for %zu environment variables", count);
    for (size_t i = 0; i < LS_ARRAY_LEN(inherited) && rc == LS_OK; i++)
        rc = inherit(inherited[i], list, &used, diag);
    if (rc == LS_OK && values->home_is_dir)
        rc = add_entry(values, "HOME", "{dir}", list, &used, diag);
    for (size_t i = 0; i < count && rc == LS_OK; i++)
        rc = add_entry(values, env[i]->key, env[i]->value, list, &used, diag);
    if (rc != LS_OK)
        agent_expand_free(list);
    else
        *out_envp = list;
    return rc;
}

/* A '*' at the end stands for any rest. */
static bool is_public(const char *entry)
{
    static const char *const names[] = {
        "PATH",
        "HOME",
        "LANG",
        "LC_*",
        "TZ",
        "TMPDIR",
        "HOST",
        "PORT",
        "CPUS",
        "WORKERS",
        "THREADS",
        "INSTANCE",
        "INSTANCES",
        "REUSE",
        "LOG",
        "LOG_LEVEL",
        "DEBUG",
        "NODE_ENV",
        "NODE_OPTIONS",
        "UV_THREADPOOL_SIZE",
        "UV_USE_IO_URING",
        "BUN_JSC_*",
        "BUN_ENV",
        "DENO_ENV",
        "DENO_JOBS",
        "GOMAXPROCS",
        "GOGC",
        "GOMEMLIMIT",
        "GODEBUG",
        "PYTHONHASHSEED",
        "PYTHONOPTIMIZE",
        "PYTHONUNBUFFERED",
        "PYTHONMALLOC",
        "RUST_LOG",
        "RUST_BACKTRACE",
        "TOKIO_WORKER_THREADS",
        "RAYON_NUM_THREADS",
        "OMP_NUM_THREADS",
        "MALLOC_*",
        "LD_PRELOAD",
        "LD_LIBRARY_PATH",
        "ASAN_OPTIONS",
        "UBSAN_OPTIONS",
        "TSAN_OPTIONS",
        "JAVA_HOME",
    };
    size_t len = strcspn(entry, "=");

    for (size_t i = 0; i < LS_ARRAY_LEN(names); i++) {
        size_t name_len = strlen(names[i]);

        if (names[i][name_len - 1] == '*'
                ? len >= name_len - 1 && memcmp(entry, names[i], name_len - 1) == 0
                : len == name_len && memcmp(entry, names[i], len) == 0)
            return true;
    }
    return false;
}

enum ls_err agent_expand_publish(char *const *envp, char ***out_shown, char ***out_hidden,
                                 struct ls_diag *diag)
{
    size_t count = 0, shown_count = 0, hidden_count = 0;
    char **shown, **hidden;
    bool ok;

    while (envp[count] != NULL)
        count++;
    shown = calloc(count + 1, sizeof(*shown));
    hidden = calloc(count + 1, sizeof(*hidden));
    ok = shown != NULL && hidden != NULL;
    for (size_t i = 0; i < count && ok; i++) {
        char *copy = is_public(envp[i])
                         ? (shown[shown_count++] = strdup(envp[i]))
                         : (hidden[hidden_count++] = strndup(envp[i], strcspn(envp[i], "=")));

        ok = copy != NULL;
    }
    if (!ok) {
        agent_expand_free(shown);
        agent_expand_free(hidden);
        return ls_fail(diag, LS_ENOMEM, "no memory for %zu environment variables", count);
    }
    *out_shown = shown;
    *out_hidden = hidden;
    return LS_OK;
}

void agent_expand_free(char **list)
{
    for (size_t i = 0; list != NULL && list[i] != NULL; i++)
        free(list[i]);
    free(list);
}
