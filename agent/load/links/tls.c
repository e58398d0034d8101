/* TLS over another link: its hub is an inner hub and a translator of callbacks. What arrives is
 * decrypted from the inner hub's receive buffer, what is sent is encrypted into its send buffer.
 */
#include "agent/load/tls.h"

#include <errno.h>
#include <stdlib.h>

#include "agent/load/link.h"

#define PLAIN_IN_BYTES 65536u /* several records at a time: their answers leave together */

struct tls_link {
    void *ctx;
    struct agent_link_hub *hub;
    struct tls_session *session; /* NULL: closed */
    struct tls_link *next;       /* in the hub's list of the doomed, if is_doomed */
    bool is_doomed;
    bool broken; /* a send failed: told by the next turn */
    bool asked;  /* something was sent since bytes came */
};

/* Followed in memory by the carrier's state. */
#define CARRIER_OFFSET ((sizeof(struct tls_link) + 15) & ~(size_t)15)

struct agent_link_hub {
    struct agent_link_env env;
    const struct agent_link_class *carrier;
    struct agent_link_hub *inner; /* owned; carrier's */
    struct tls_context *context;  /* owned */
    struct tls_link *doomed;
    uint8_t plain_in[PLAIN_IN_BYTES];
    uint8_t plain_out[TLS_PLAIN_MAX];
};

static void *carrier_of(struct tls_link *link)
{
    return (unsigned char *)link + CARRIER_OFFSET;
}

static void close_link(struct agent_link_hub *hub, void *state)
{
    struct tls_link *link = state;

    if (link->session == NULL)
        return;
    hub->carrier->close(hub->inner, carrier_of(link));
    tls_end(link->session);
    link->session = NULL;
    link->broken = false;
}

/* ---- handshake ------------------------------------------------------------------------------- */

static void refuse(struct tls_link *link, int error)
{
    close_link(link->hub, link);
    link->hub->env.opened(link->ctx, error);
}

/* Sends what the handshake or a key update has to say. */
static void send_output(struct tls_link *link)
{
    struct agent_link_hub *hub = link->hub;

    if (tls_has_output(link->session))
        hub->carrier->flush(hub->inner, carrier_of(link));
}

static void handshake_failed(struct tls_link *link)
{
    bool untrusted = tls_is_untrusted(link->session);

    send_output(link); /* the alert that says so */
    refuse(link, untrusted ? EKEYREJECTED : EPROTO);
}

static void on_opened(void *ctx, int error)
{
    struct tls_link *link = ctx;
    struct agent_link_hub *hub = link->hub;

    if (error != 0) {
        refuse(link, error);
        return;
    }
    if (hub->env.connected != NULL)
        hub->env.connected(link->ctx);
    if (tls_shake(link->session) != TLS_OK)
        handshake_failed(link);
    else
        send_output(link);
}

/* ---- records --------------------------------------------------------------------------------- */

static void read_records(struct tls_link *link, int64_t wall_ns)
{
    struct agent_link_hub *hub = link->hub;
    enum tls_result result;
    size_t len;

    link->asked = false;
    do {
        result = tls_open(link->session, hub->plain_in, sizeof(hub->plain_in), &len);
        if (len > 0)
            hub->env.bytes(link->ctx, (struct ls_bytes){ .data = hub->plain_in, .len = len },
                           wall_ns);
        if (link->session == NULL)
            return; /* closed by the callee */
    } while (result == TLS_OK && tls_has_more(link->session));
    send_output(link);
    if (!link->asked)
        tls_rest(link->session);
    if (result == TLS_CLOSED)
        hub->env.ended(link->ctx, LOAD_CLOSED_EARLY, 0);
    else if (result == TLS_FAILED)
        hub->env.ended(link->ctx, LOAD_TLS_ERROR, EPROTO);
}

static void on_bytes(void *ctx, struct ls_bytes in, int64_t wall_ns)
{
    struct tls_link *link = ctx;
    struct agent_link_hub *hub = link->hub;

    tls_take(link->session, in);
    if (LS_UNLIKELY(!tls_is_secured(link->session))) {
        if (tls_shake(link->session) != TLS_OK) {
            handshake_failed(link);
            return;
        }
        if (!tls_is_secured(link->session)) {
            send_output(link);
            return;
        }
        /* The first request may leave together with the end of the handshake. */
        hub->env.opened(link->ctx, 0);
        if (link->session == NULL)
            return;
    }
    read_records(link, wall_ns);
}

static void on_ended(void *ctx, enum load_outcome how, int error)
{
    struct tls_link *link = ctx;
    struct agent_link_hub *hub = link->hub;
    bool secured = tls_is_secured(link->session);

    /* A FIN that nobody announced may have cut an answer that lasts until close. */
    if (how == LOAD_CLOSED_EARLY && tls_hung_up(link->session) == TLS_FAILED)
        how = LOAD_TLS_ERROR;
    if (secured)
        hub->env.ended(link->ctx, how, error);
    else
        refuse(link, how == LOAD_RESET ? error : ECONNABORTED);
}

static size_t on_pull(void *ctx, uint8_t *out, size_t cap)
{
    struct tls_link *link = ctx;
    struct agent_link_hub *hub = link->hub;
    size_t len = tls_drain(link->session, out, cap);
    size_t sealed = 0;
    size_t room = cap - len;
    size_t plain;

    if (LS_UNLIKELY(!tls_is_secured(link->session) || link->broken || room <= 2 * TLS_SEAL_ROOM))
        return len;
    room -= TLS_SEAL_ROOM;
    plain = hub->env.pull(link->ctx, hub->plain_out,
                          room < sizeof(hub->plain_out) ? room : sizeof(hub->plain_out));
    if (plain == 0)
        return len;
    link->asked = true;
    if (LS_UNLIKELY(tls_seal(link->session, (struct ls_bytes){ hub->plain_out, plain }, out + len,
                             cap - len, &sealed) != TLS_OK)) {
        link->broken = true; /* a send must not call back */
        if (!link->is_doomed) {
            link->is_doomed = true;
            link->next = hub->doomed;
            hub->doomed = link;
        }
    }
    return len + sealed;
}

/* ---- the class ------------------------------------------------------------------------------- */

static void hub_destroy(struct agent_link_hub *hub)
{
    if (hub == NULL)
        return;
    hub->carrier->hub_destroy(hub->inner);
    tls_context_destroy(hub->context);
    free(hub);
}

static enum ls_err hub_create(const struct agent_link_env *env, uint32_t links_max,
                              struct agent_link_hub **out_hub, struct ls_diag *diag)
{
    struct agent_link_hub *hub = calloc(1, sizeof(*hub));
    struct agent_link_env inner = *env; /* what is not named here is the carrier's affair */
    enum ls_err rc;

    if (hub == NULL)
        return ls_fail(diag, LS_ENOMEM, "no memory for a hub of TLS links");
    inner.opened = on_opened;
    inner.bytes = on_bytes;
    inner.ended = on_ended;
    inner.pull = on_pull;
    hub->env = *env;
    hub->carrier = env->carrier;
    rc = tls_context_create(env->tls, &hub->context, diag);
    if (rc == LS_OK && !env->brief)
        tls_context_expect_many(hub->context);
    if (rc == LS_OK)
        rc = hub->carrier->hub_create(&inner, links_max, &hub->inner, diag);
    if (rc != LS_OK) {
        hub_destroy(hub);
        return rc;
    }
    *out_hub = hub;
    return LS_OK;
}

static void turn(struct agent_link_hub *hub, int64_t until_ns)
{
    struct tls_link *link;

    hub->carrier->turn(hub->inner, hub->doomed != NULL ? 0 : until_ns);
    while (LS_UNLIKELY((link = hub->doomed) != NULL)) {
        hub->doomed = link->next;
        link->is_doomed = false;
        if (link->session != NULL && link->broken)
            hub->env.ended(link->ctx, LOAD_TLS_ERROR, EPROTO);
    }
}

static void wake(struct agent_link_hub *hub)
{
    hub->carrier->wake(hub->inner);
}

static void open_link(struct agent_link_hub *hub, void *state, void *ctx,
                      const struct sockaddr *address, socklen_t address_len)
{
    struct tls_link *link = state; /* is_doomed and next outlive a connection */

    link->ctx = ctx;
    link->hub = hub;
    link->broken = false;
    link->session = tls_begin(hub->context);
    if (link->session == NULL) {
        hub->env.opened(ctx, ENOMEM);
        return;
    }
    hub->carrier->open(hub->inner, carrier_of(link), link, address, address_len);
}

static void flush(struct agent_link_hub *hub, void *state)
{
    struct tls_link *link = state;

    if (link->session != NULL)
        hub->carrier->flush(hub->inner, carrier_of(link));
}

void agent_link_tls_over(const struct agent_link_class *carrier, struct agent_link_class *out)
{
    *out = (struct agent_link_class){
        .name = "tls",
        .io = carrier->io,
        .link_size = CARRIER_OFFSET + carrier->link_size,
        .hub_create = hub_create,
        .hub_destroy = hub_destroy,
        .turn = turn,
        .wake = wake,
        .open = open_link,
        .flush = flush,
        .close = close_link,
    };
}

const struct tls_context *agent_link_tls_context(const struct agent_link_hub *hub)
{
    return hub->context;
}
