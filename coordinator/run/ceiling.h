/* coordinator/run/ceiling.h - what client hosts can make of the built-in responder, kept from
 * `lockstep calibrate` for the runs that follow.
 *
 * A ceiling holds for a host (by its facts), this version of lockstep and a shape: io, workers,
 * pipeline as they are, connections within a factor of COORD_CEILING_FACTOR, bytes of a request and
 * of a response within that or COORD_CEILING_BYTES. Of several, the nearest; otherwise none.
 */
#ifndef LS_COORDINATOR_RUN_CEILING_H
#define LS_COORDINATOR_RUN_CEILING_H

#include "common/err.h"
#include "proto/result.pb-c.h"

#define COORD_CEILING_VERSION 1u
#define COORD_CEILING_FACTOR  2.0
#define COORD_CEILING_BYTES   256.0
#define COORD_CEILING_MAX     4096u /* in the file; the oldest make room */

/* $XDG_CACHE_HOME/lockstep/calibration.json, or below $HOME/.cache. LS_ESTATE: neither is set. */
enum ls_err coord_ceiling_path(char *out, size_t out_bytes, struct ls_diag *diag) LS_NODISCARD;

/* An absent file, or one of another version, is an empty calibration. LS_EINVAL: it cannot be read.
 * The caller frees *out with ls__calibration__free_unpacked. */
enum ls_err coord_ceiling_load(const char *path, Ls__Calibration **out,
                               struct ls_diag *diag) LS_NODISCARD;
enum ls_err coord_ceiling_save(const char *path, const Ls__Calibration *calibration,
                               struct ls_diag *diag) LS_NODISCARD;

/* Adds what a client of a calibration's trial made, in place of what there was of the same host and
 * shape. limited_by: as in Headroom. LS_ENOMEM. */
enum ls_err coord_ceiling_keep(Ls__Calibration *calibration, const Ls__Facts *facts,
                               const Ls__Trial *trial, const char *limited_by,
                               struct ls_diag *diag) LS_NODISCARD;

/* NULL: none that fits. */
const Ls__Ceiling *coord_ceiling_find(const Ls__Calibration *calibration, const Ls__Facts *facts,
                                      const Ls__Trial *trial, const Ls__Client *client);

/* Fills the headroom of each client that has a ceiling, facts[i] being of client i, and of the
 * trial if all have. LS_ENOMEM. */
enum ls_err coord_ceiling_apply(const Ls__Calibration *calibration, Ls__Trial *trial,
                                const Ls__Facts *const *facts) LS_NODISCARD;

#endif
