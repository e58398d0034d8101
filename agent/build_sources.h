/* agent/build_sources.h - the source addresses of a plan that this host has. */
#ifndef LS_AGENT_BUILD_SOURCES_H
#define LS_AGENT_BUILD_SOURCES_H

#include "common/sources.h"
#include "proto/wire.pb-c.h"

/* family: of the target's address. Addresses that cannot be bound here belong to other clients; if
 * there are no others, or none can be bound, that is LS_EINVAL, and diag names one. Ends with
 * ls_sources_fini, whatever was returned. */
enum ls_err agent_build_sources(const Ls__Prepare *prepare, int family, struct ls_sources *out,
                                struct ls_diag *diag) LS_NODISCARD;

#endif
