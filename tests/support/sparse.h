/* tests/support/sparse.h - a histogram as a report brings it. */
#ifndef LS_TESTS_SUPPORT_SPARSE_H
#define LS_TESTS_SUPPORT_SPARSE_H

#include "common/hist_sparse.h"

/* For ls_hist_sparse_fini. */
void sparse_of(const struct ls_hist *hist, struct ls_hist_sparse *out);

#endif
