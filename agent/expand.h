/* agent/expand.h - {dir}, {host}, {port}, {cpus}, {instance} and {program} in a target's command,
 * version and env.
 *
 * A pair of braces with lower-case letters and underscores between is a placeholder, and one of the
 * six or refused, so that a misspelt one does not reach the target; any other brace stands for
 * itself ("{}", "${HOME}", JSON). What was put in is not looked at again. */
#ifndef LS_AGENT_EXPAND_H
#define LS_AGENT_EXPAND_H

#include <stdbool.h>
#include <stdint.h>

#include "common/err.h"
#include "proto/plan.pb-c.h"

struct agent_expand {
    const char *dir;
    const char *host;
    uint16_t port;
    const char *cpus;    /* "" or NULL if the plan leaves them alone */
    uint32_t instance;   /* 0, 1, 2 ... of several */
    const char *program; /* NULL: there is none */
    bool home_is_dir;    /* HOME is dir, not that of the agent's user */
};

/* LS_EINVAL, LS_ENOMEM, LS_ERANGE (above 128 KiB). On LS_OK the caller frees *out_text. */
enum ls_err agent_expand_text(const struct agent_expand *values, const char *text, char **out_text,
                              struct ls_diag *diag) LS_NODISCARD;

/* A NULL-terminated argv. The caller hands *out_argv to agent_expand_free(). */
enum ls_err agent_expand_argv(const struct agent_expand *values, char *const *words, size_t count,
                              char ***out_argv, struct ls_diag *diag) LS_NODISCARD;

/* The whole environment of a target: PATH, HOME and LANG of this process as far as they are set,
 * and env, which may replace them; nothing else. LS_EINVAL: a name that is empty or holds '='. The
 * caller hands *out_envp to agent_expand_free(). */
enum ls_err agent_expand_env(const struct agent_expand *values, Ls__Target__EnvEntry *const *env,
                             size_t count, char ***out_envp, struct ls_diag *diag) LS_NODISCARD;

/* What may be known of an environment: entries of variables that carry no secrets, by a list of
 * names, and of all others the names alone. LS_ENOMEM. The caller hands both to
 * agent_expand_free(). */
enum ls_err agent_expand_publish(char *const *envp, char ***out_shown, char ***out_hidden,
                                 struct ls_diag *diag) LS_NODISCARD;

void agent_expand_free(char **list); /* NULL is fine */

#endif
