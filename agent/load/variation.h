/* agent/load/variation.h - a request whose bytes, and perhaps whose expected answer, differ from
 * turn to turn.
 *
 * Where few different ones exist they are all rendered before the load: then a turn costs a look
 * into a table. Otherwise the pieces are copied into the connection's own buffer when the request
 * is sent, and once more when its answer begins. Nothing is allocated or formatted under load.
 */
#ifndef LS_AGENT_LOAD_VARIATION_H
#define LS_AGENT_LOAD_VARIATION_H

#include "agent/load/workload.h"
#include "common/err.h"
#include "common/pattern.h"

#define LOAD_RENDERINGS_MAX       65536u
#define LOAD_RENDERINGS_BYTES_MAX (64u << 20) /* of all requests of an agent */
#define LOAD_RENDERED_MAX         (16u << 20) /* bytes of one rendered request */

struct load_rendering {
    const unsigned char *bytes;
    const unsigned char *expect;
    uint32_t len;
    uint32_t expect_len;
};

struct load_variation {
    struct ls_variables variables; /* owned, like the patterns */
    struct ls_pattern head;        /* request line and headers to the empty line */
    struct ls_pattern body;
    struct ls_pattern expect;
    struct ls_bytes fixed_body; /* instead of body, borrowed: sent behind what is rendered */
    bool expect_varies;
    size_t bytes_max; /* longest rendering, without fixed_body */
    size_t expect_max;
    bool in_turn;                 /* place in table: turn modulo table_len */
    struct load_rendering *table; /* owned; NULL: rendered when it is needed */
    uint64_t table_len;
    unsigned char *store;  /* owned: what table points to */
    unsigned char *frames; /* owned: instead, for requests of HTTP/2; NULL: as rendered */
};

/* Sets bytes_max and expect_max, and renders everything if there are no more than
 * LOAD_RENDERINGS_MAX and they fit into *budget bytes, which are reduced by what they take.
 * variables, patterns, fixed_body and expect_varies have been set. LS_EINVAL: a value would break
 * the request apart (a space in the request line, a control byte in the head). LS_ERANGE: longer
 * than LOAD_RENDERED_MAX. LS_ENOMEM. */
enum ls_err load_variation_prepare(struct load_variation *variation, size_t *budget,
                                   struct ls_diag *diag) LS_NODISCARD;
void load_variation_fini(struct load_variation *variation); /* a zeroed one is fine, and twice */

/* Which of table is a turn's. */
uint64_t load_variation_index(const struct load_variation *variation, uint64_t turn);

/* Where a turn's rendering is: its place in table, or the turn itself if there is none. */
static inline uint64_t load_variation_place(const struct load_variation *variation, uint64_t turn)
{
    if (variation->table == NULL)
        return turn;
    if (!variation->in_turn)
        return load_variation_index(variation, turn);
    /* The narrow division costs half of the wide one. */
    return turn <= UINT32_MAX ? (uint32_t)turn % (uint32_t)variation->table_len
                              : turn % variation->table_len;
}

/* The same of a turn, if before is that of the turn before it. */
static inline uint64_t load_variation_next(const struct load_variation *variation, uint64_t turn,
                                           uint64_t before)
{
    if (variation->table == NULL || !variation->in_turn)
        return load_variation_place(variation, turn);
    return before + 1 < variation->table_len ? before + 1 : 0;
}

/* A turn's bytes (bytes_max at most, without fixed_body) and expected body (expect_max). */
size_t load_variation_render(const struct load_variation *variation, uint64_t turn,
                             unsigned char *out);
size_t load_variation_expect(const struct load_variation *variation, uint64_t turn,
                             unsigned char *out);

/* Request number k of the load as one that does not vary, for messages: label is "GET /item/17",
 * and expect_body what was expected. Everything else is borrowed from workload. LS_ENOMEM; the
 * caller frees *out_store. */
enum ls_err load_request_show(const struct load_workload *workload, uint64_t k,
                              struct load_request *out_request, char **out_store) LS_NODISCARD;

#endif
