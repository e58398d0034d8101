#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "agent/respond/request.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct tally {
    uint64_t requests;
    uint64_t expects;
    uint64_t bad;
};

static struct tally read_all(const uint8_t *data, size_t size, size_t step)
{
    struct respond_parser parser = { .state = 0 };
    struct respond_cache cache = { .len = 0 };
    struct tally tally = { 0 };

    for (size_t at = 0; at < size && tally.bad == 0; at += step) {
        const unsigned char *piece = data + at;
        size_t len = size - at < step ? size - at : step;
        enum respond_found found;
        struct respond_request request;

        do {
            found = respond_parser_next(&parser, &cache, &piece, &len, &request);
            tally.requests += found == RESPOND_REQUEST;
            tally.expects += found == RESPOND_EXPECTS;
            tally.bad += found == RESPOND_BAD;
        } while (found == RESPOND_REQUEST || found == RESPOND_EXPECTS);
    }
    respond_parser_fini(&parser);
    return tally;
}

/* However a stream is sliced, it holds the same requests up to the same fault. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct tally whole;
    struct tally sliced;

    if (size < 2)
        return 0;
    sliced = read_all(data + 1, size - 1, (size_t)(data[0] % 61) + 1);
    whole = read_all(data + 1, size - 1, size);
    if (whole.requests != sliced.requests || whole.expects != sliced.expects ||
        whole.bad != sliced.bad)
        abort();
    return 0;
}
