#include "tests/support/test.h"

#include <stdlib.h>

#include "common/hist_codec.h"
#include "tests/support/sparse.h"

void sparse_of(const struct ls_hist *hist, struct ls_hist_sparse *out)
{
    unsigned char *data = NULL;
    size_t len = 0;

    assert_int_equal(ls_hist_sparse_init(out), LS_OK);
    assert_int_equal(ls_hist_encode(hist, &data, &len), LS_OK);
    assert_int_equal(ls_hist_decode((struct ls_bytes){ data, len }, out, NULL), LS_OK);
    free(data);
}
