/* A peer's bytes: cut into frames, each unpacked. What is accepted packs again to bytes that are
 * accepted again and say the same. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "common/transport_impl.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The libFuzzer way to report: a crash. */
static void require(int truth)
{
    if (!truth)
        abort();
}

static void check_again(const Ls__Envelope *envelope)
{
    size_t len = ls__envelope__get_packed_size(envelope);
    unsigned char *bytes = malloc(len);
    unsigned char *twice = malloc(len);
    Ls__Envelope *back = NULL;
    struct ls_diag diag = { 0 };
    enum ls_err rc;

    require(bytes != NULL && twice != NULL);
    require(ls__envelope__pack(envelope, bytes) == len);
    rc = ls_envelope_unpack((struct ls_bytes){ bytes, len }, &back, &diag);
    /* Shorter bytes may come with too small a budget. */
    require(rc == LS_OK || rc == LS_ENOMEM);
    if (rc == LS_OK) {
        require(ls__envelope__get_packed_size(back) == len);
        require(ls__envelope__pack(back, twice) == len);
        require(memcmp(bytes, twice, len) == 0);
    }
    ls_envelope_free(back);
    free(bytes);
    free(twice);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct ls_bytes left = { data, size };
    struct ls_bytes frame;
    size_t bytes = 0;

    while (ls_frame_next(left, LS_FRAME_MAX_FROM_AGENT, &frame, &bytes, NULL) == LS_OK) {
        struct ls_diag diag = { 0 };
        Ls__Envelope *envelope = NULL;

        require(frame.data == left.data + LS_FRAME_HEAD && frame.len + LS_FRAME_HEAD == bytes);
        (void)ls_envelope_peek_version(frame);
        if (ls_envelope_unpack(frame, &envelope, &diag) == LS_OK)
            check_again(envelope);
        else
            require(diag.text[0] != '\0');
        ls_envelope_free(envelope);
        left.data += bytes;
        left.len -= bytes;
    }
    return 0;
}
