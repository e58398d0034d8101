/* coordinator/result/verify.h - is a result folder what it was, and do its figures follow from what
 * was recorded?
 *
 * Two things are asked that do not lean on each other. Files: each has the SHA-256 in SHA256SUMS,
 * none is missing, none is there that is not listed; and if SHA256SUMS is signed, by whom.
 * Figures: each that can be is computed again from the histogram logs, intervals.csv and server.csv
 * of its trial, sums over clients and repetitions from their parts, and compared to the last digit;
 * so that whoever changes a figure and makes the sums anew is found out by the figures.
 */
#ifndef LS_COORDINATOR_RESULT_VERIFY_H
#define LS_COORDINATOR_RESULT_VERIFY_H

#include <stdbool.h>

#include "common/buf.h"
#include "common/err.h"
#include "coordinator/result/report.h"
#include "proto/result.pb-c.h"

#define COORD_VERIFY_DIFFERENCES_MAX 1000u /* are listed, more are counted */

/* Makes the tables of result's plan again, in the folder dir, and puts them in the place of those
 * that it has. LS_ENOMEM; anything else: they cannot be made here, and diag says why. */
typedef enum ls_err coord_verify_pages(const char *dir, Ls__Result *result, struct ls_diag *diag);

struct coord_verify_options {
    const char *ca;            /* certificates of whom to trust; NULL: nobody in particular */
    bool figures_only;         /* the files are not compared with their sums */
    coord_verify_pages *pages; /* NULL: tables are taken as they are */
};

/* Fills a new Verification: status is agrees or differs. LS_EIO, LS_EINVAL: dir is no result at
 * all; LS_EREFUSED: ca cannot be used; LS_ENOMEM. */
enum ls_err coord_verify(const char *dir, const struct coord_verify_options *options,
                         Ls__Verification *out, struct ls_diag *diag) LS_NODISCARD;

/* Text or JSON. LS_ENOMEM. */
enum ls_err coord_verify_render(const Ls__Verification *verification,
                                enum coord_report_format format,
                                const struct coord_report_options *options, struct ls_buf *out,
                                struct ls_diag *diag) LS_NODISCARD;

#endif
