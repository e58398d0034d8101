/* tests/common/tamper_proxy.h - a man in the middle of TLS connections on loopback: he sees
 * records, has no keys, and does with one of them what he likes. */
#ifndef LS_TESTS_TAMPER_PROXY_H
#define LS_TESTS_TAMPER_PROXY_H

#include <ev.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum tamper { TAMPER_NOTHING, TAMPER_FLIP, TAMPER_TWICE, TAMPER_DROP, TAMPER_SWAP, TAMPER_COUNT };
enum tamper_way { TAMPER_FROM_AGENT, TAMPER_TO_AGENT };

struct tamper_link;

struct tamper_proxy {
    struct ev_loop *loop;
    ev_io accept;
    uint16_t port; /* dialled to */
    uint16_t upstream;
    /* What is done to the record of that number (from 0) of the first connection that has it. */
    enum tamper what;
    enum tamper_way way;
    unsigned record;
    bool touched;
    unsigned char touched_type; /* of the record: 20 change cipher spec, 22 handshake, 23 data */
    unsigned accepted;
    unsigned char *recorded; /* owned; all that the first agent's connection sent */
    size_t recorded_len;
    struct tamper_link *links;
};

void tamper_proxy_init(struct tamper_proxy *proxy, struct ev_loop *loop, uint16_t upstream);
void tamper_proxy_fini(struct tamper_proxy *proxy);

#endif
