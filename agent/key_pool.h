/* agent/key_pool.h - a folder of keys for this agent alone, or one out of several.
 *
 * Keys are a name, and two agents of one name would throw each other out of runs: the folder is
 * locked for as long as the agent lives, and a second agent is refused before it dials.
 *
 * A service that is scaled to N containers has one command line and one mount, but each agent needs
 * a name of its own. --keys may therefore name a folder of folders of keys: the first one that no
 * other process of this host has taken is this agent's.
 */
#ifndef LS_AGENT_KEY_POOL_H
#define LS_AGENT_KEY_POOL_H

#include "common/err.h"

struct agent_key_pool {
    int fd;         /* owned; the taken folder, locked. -1: no lock is to be had there */
    char dir[1024]; /* the folder to use */
};

/* LS_ESTATE: it is taken, or all are; diag says by which process, if that is to be seen.
 * LS_EREFUSED: dir is too long a path. On LS_OK the caller ends with agent_key_pool_fini(). */
enum ls_err agent_key_pool_init(struct agent_key_pool *pool, const char *dir,
                                struct ls_diag *diag) LS_NODISCARD;
void agent_key_pool_fini(struct agent_key_pool *pool);

#endif
