/* agent/key_pool.h - one folder of keys out of several, for agents that are all started alike.
 *
 * A service that is scaled to N containers has one command line and one mount, but each agent needs
 * a name of its own. --keys may therefore name a folder of folders of keys: the first one that no
 * other process of this host has taken is this agent's for as long as it lives.
 */
#ifndef LS_AGENT_KEY_POOL_H
#define LS_AGENT_KEY_POOL_H

#include "common/err.h"

struct agent_key_pool {
    int fd;         /* owned; the taken folder, locked. -1: dir is a folder of keys itself */
    char dir[1024]; /* the folder to use */
};

/* LS_ESTATE: all are taken; LS_EREFUSED: dir is too long a path. On LS_OK the caller ends with
 * agent_key_pool_fini(). */
enum ls_err agent_key_pool_init(struct agent_key_pool *pool, const char *dir,
                                struct ls_diag *diag) LS_NODISCARD;
void agent_key_pool_fini(struct agent_key_pool *pool);

#endif
