/* agent/load/ws_room.h - the room of one worker: what its connections say, and whether every one of
 * them hears all of it, in order and once.
 *
 * The server relays each message to all members, those of other workers and hosts included. A
 * message begins with 16 characters: its sender's number, its own number among the sender's, the
 * instant at which it was due (to 64 ns, on the clock of the sender's host), a check digit. Each
 * member keeps, of each sender, which message comes next and which of the 32 before are missing.
 *
 * An operation ends when all members of its sender's own worker have the message, or are known to
 * have lost it because a later one came. What others get is in the books: each member's gaps are
 * counted as lost, and before it leaves, each sender says which number would have been its next.
 */
#ifndef LS_AGENT_LOAD_WS_ROOM_H
#define LS_AGENT_LOAD_WS_ROOM_H

#include "agent/load/driver.h"

struct ws_room;

/* connections: of this worker, 0 .. connections - 1 below. env has to outlive it. LS_ENOMEM;
 * LS_EINVAL: one that does not hear itself is alone, and nothing would tell that it was heard. */
enum ls_err ws_room_create(const struct agent_driver_env *env, uint32_t connections,
                           struct ws_room **out_room, struct ls_diag *diag) LS_NODISCARD;
void ws_room_destroy(struct ws_room *room); /* NULL is fine */

/* Bytes of the longest message that may come. */
size_t ws_room_longest(const struct load_workload *workload);

void ws_room_join(struct ws_room *room, uint32_t me);
/* Idempotent. What the others wait for it to get, they wait for no longer. */
void ws_room_part(struct ws_room *room, uint32_t me);
/* Ends the operations of me that have been said. */
void ws_room_forget(struct ws_room *room, uint32_t me, const struct agent_reply *reply);

/* The first bytes of the next message of me, which operation op is over with. */
void ws_room_say(struct ws_room *room, uint32_t me, uint32_t op,
                 unsigned char out[LOAD_WS_NUMBER_BYTES]);
/* The same of a message that says that there are no more. */
void ws_room_say_last(struct ws_room *room, uint32_t me, unsigned char out[LOAD_WS_NUMBER_BYTES]);

/* A message to me. False: it is none of ours. */
bool ws_room_hear(struct ws_room *room, uint32_t me, struct ls_bytes text);
/* Has everybody said the last word to me? */
bool ws_room_is_complete(const struct ws_room *room, uint32_t me);

/* Counts as lost what is still missing. Nothing is said or heard afterwards. */
void ws_room_balance(struct ws_room *room);

#endif
