/* agent/introduce.h - what an agent says of itself when it enrols: HELLO, but for its numbers. */
#ifndef LS_AGENT_INTRODUCE_H
#define LS_AGENT_INTRODUCE_H

#include "common/identity.h"
#include "common/options.h"
#include "proto/wire.pb-c.h"

struct agent_policy;

struct agent_introduction {
    Ls__Hello hello; /* boot_id is drawn anew by agent_introduction_begin() */
    char boot_id[33];
    char host_id[40];
    Ls__Label *labels; /* owned, like what follows */
    char **cores;
    size_t core_count;
};

/* This host's name, as one of an agent (common/identity.h). Returns out, > LS_IDENTITY_NAME_MAX
 * bytes. */
const char *agent_host_name(char *out, size_t out_bytes);

/* Reads the host's facts, which takes some milliseconds. name and address (NULL: none) must live as
 * long; labels are key=value. LS_EINVAL: a label or the address is none. LS_ENOMEM. */
enum ls_err agent_introduction_init(struct agent_introduction *intro, const char *name,
                                    Ls__Role role, const char *address,
                                    const struct ls_option_list *labels,
                                    const struct agent_policy *policy,
                                    struct ls_diag *diag) LS_NODISCARD;
/* A new session: nobody may take it for an earlier one. LS_EIO. */
enum ls_err agent_introduction_begin(struct agent_introduction *intro,
                                     struct ls_diag *diag) LS_NODISCARD;
void agent_introduction_fini(struct agent_introduction *intro); /* all zero is fine */

#endif
