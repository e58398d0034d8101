/* Datagrams at both ends: strangers', which have no effect, and those of a peer who has the key and
 * says anything at all. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock_udp.h"
#include "common/offset.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const unsigned char key[LS_CLOCK_KEY_BYTES] = { 1, 2, 3 };

/* The libFuzzer way to report: a crash. */
static void require(int truth)
{
    if (!truth)
        abort();
}

/* What it says, sealed with the key: an honest peer that sends anything at all. */
static void take_as_genuine(struct ls_bytes in)
{
    struct ls_clock_datagram datagram, back;
    struct ls_clock_exchange exchange;
    struct ls_clock_asker asker;
    struct ls_clock_echo echo;
    struct ls_offset offset;
    unsigned char bytes[LS_CLOCK_DATAGRAM_BYTES];
    uint64_t number = 0;

    if (!ls_clock_parse(in, &datagram))
        return;
    ls_clock_seal(&datagram, key, bytes);
    require(memcmp(bytes, in.data, LS_CLOCK_DATAGRAM_BYTES - 16) == 0);
    require(ls_clock_parse((struct ls_bytes){ bytes, sizeof(bytes) }, &back));
    ls_clock_echo_init(&echo, datagram.agent, key);
    if (ls_clock_echo_take(&echo, (struct ls_bytes){ bytes, sizeof(bytes) }, &number))
        require(datagram.kind == LS_CLOCK_PROBE && number == datagram.number &&
                !ls_clock_echo_take(&echo, (struct ls_bytes){ bytes, sizeof(bytes) }, &number));
    ls_clock_asker_init(&asker, datagram.agent, key);
    ls_clock_asker_sent(&asker, datagram.number, 1000);
    ls_offset_init(&offset);
    ls_offset_add(&offset, 1, 2, 3, 4);
    if (ls_clock_asker_take(&asker, (struct ls_bytes){ bytes, sizeof(bytes) }, &exchange) ==
        LS_CLOCK_ANSWERED)
        ls_offset_add(&offset, exchange.sent_ns, exchange.received_ns, exchange.replied_ns, 2000);
    (void)ls_offset_at(&offset, datagram.received_ns, &exchange.sent_ns, &exchange.received_ns);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct ls_bytes in = { data, size };
    struct ls_clock_datagram datagram;
    struct ls_clock_exchange exchange;
    struct ls_clock_asker asker;
    struct ls_clock_echo echo;
    uint64_t number;

    take_as_genuine(in);
    if (!ls_clock_parse(in, &datagram))
        return 0;
    ls_clock_echo_init(&echo, datagram.agent, key);
    ls_clock_asker_init(&asker, datagram.agent, key);
    ls_clock_asker_sent(&asker, datagram.number, 1000);
    require(!ls_clock_echo_take(&echo, in, &number) || ls_clock_verify(in, key));
    require(ls_clock_asker_take(&asker, in, &exchange) == LS_CLOCK_NOTHING ||
            ls_clock_verify(in, key));
    return 0;
}
