/* common/transport_keys.c - keys while connections live: what is read anew, what ends, and whose
 * certificate is not taken any more. */
#include <stdio.h>

#include "common/clock.h"
#include "common/log.h"
#include "common/tls_engine.h"
#include "common/transport_nng.h"

#define DAY_NS             (86400 * LS_NS_PER_S)
#define VERIFIED_PER_SWEEP 100u

static void log_end(struct ls_hub *hub)
{
    const struct ls_identity *own = ls_credentials_identity(hub->credentials);
    int64_t now_ns = ls_clock_mono_ns();
    char end[32];

    if (hub->end_said_ns != 0 && now_ns - hub->end_said_ns < DAY_NS)
        return;
    hub->end_said_ns = now_ns;
    ls_clock_format_wall(ls_credentials_expiry_wall_ns(hub->credentials), end, sizeof(end));
    ls_log(LS_LOG_WARN, "tls.ends_soon",
           "%s: the certificate of %s ends at %s: lockstep pki issue %s %s --renew",
           ls_credentials_folder(hub->credentials), own->uri, end, ls_identity_role_name(own->role),
           own->name);
}

void ls_hub_log_news(struct ls_hub *hub)
{
    char text[512];
    bool good;

    if (hub->credentials == NULL)
        return;
    if (ls_credentials_end_soon(hub->credentials, ls_clock_wall_ns()))
        log_end(hub);
    if (!ls_credentials_news(hub->credentials, &good, text, sizeof(text)))
        return;
    if (good)
        ls_log(LS_LOG_INFO, "tls.renewed", "%s", text);
    else
        ls_log(LS_LOG_WARN, "tls.not_renewed", "the keys from before stay in use: %s", text);
}

/* A certificate is good for as long as it says, not for as long as a connection lasts. Who has been
 * given a new one comes again with it. */
static bool is_expired(const struct ls_conn *conn, int64_t now_wall_ns)
{
    return conn->expiry_wall_ns != 0 && now_wall_ns >= conn->expiry_wall_ns;
}

/* Keys have changed, and this one was taken with those from before. */
static bool is_taken_no_more(struct ls_conn *conn)
{
    struct ls_tls_peer peer;

    ls_tls_look_again(conn->stream, &peer);
    conn->generation = conn->hub->generation;
    return peer.trouble[0] != '\0';
}

void ls_hub_look_at_keys(struct ls_hub *hub, int64_t now_ns)
{
    unsigned left = VERIFIED_PER_SWEEP;
    int64_t now_wall_ns = ls_clock_wall_ns();

    if (hub->credentials == NULL)
        return;
    if (now_ns - hub->keys_seen_ns >= hub->pace.heartbeat_ns) {
        hub->keys_seen_ns = now_ns;
        hub->generation = ls_credentials_generation(hub->credentials);
        ls_hub_log_news(hub);
    }
    for (struct ls_conn *conn = hub->conns, *next; conn != NULL && !hub->dying && left > 0;
         conn = next) {
        conn->pins++;
        if (conn->up && !conn->closing && is_expired(conn, now_wall_ns))
            ls_conn_close(conn, "its certificate has expired");
        if (conn->up && !conn->closing && conn->generation != hub->generation) {
            left--;
            if (is_taken_no_more(conn))
                ls_conn_close(conn, "its certificate is not taken any more");
        }
        next = conn->next;
        conn->pins--;
        ls_conn_release(conn);
    }
}
