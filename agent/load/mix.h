/* agent/load/mix.h - the order in which weighted requests are sent. */
#ifndef LS_AGENT_LOAD_MIX_H
#define LS_AGENT_LOAD_MIX_H

#include "agent/load/workload.h"
#include "common/err.h"

#define LOAD_MIX_MAX                                                            \
    1000000u /* places: the sum of the weights by their greatest common divisor \
              */

/* Smooth weighted round robin (nginx's): in each prefix of the period, every request has occurred
 * as often as its weight asks for, to within one or so, and over the whole period exactly. Reduces
 * the weights of requests by their greatest common divisor. *out_mix is NULL if all are alike, for
 * then each comes in turn. LS_EINVAL: a weight is 0. LS_ERANGE: more than LOAD_MIX_MAX places.
 * LS_ENOMEM. The caller frees. */
enum ls_err load_mix_create(struct load_request *requests, uint32_t count,
                            struct load_place **out_mix, uint32_t *out_len,
                            struct ls_diag *diag) LS_NODISCARD;

#endif
