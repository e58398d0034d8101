/* tests/common/transport_rig.h - both ends of a session on one loop, and what they saw. */
#ifndef LS_TESTS_TRANSPORT_RIG_H
#define LS_TESTS_TRANSPORT_RIG_H

#include <ev.h>

#include "common/rng.h"
#include "common/transport_impl.h"
#include "tests/support/tmpdir.h"

struct rig;

/* What a test may put in the way; NULL: nothing. */
struct rig_hooks {
    enum ls_err (*enrol)(struct rig *rig, const Ls__Hello *hello, struct ls_diag *diag);
    enum ls_err (*report)(struct rig *rig, const Ls__Envelope *report);
    void (*command)(struct rig *rig, const Ls__Envelope *command);
    void (*dialer_up)(struct rig *rig);
};

struct rig {
    struct ev_loop *loop;
    struct ev_timer poll; /* wakes the loop so that conditions and deadlines are looked at */
    struct tmpdir dir;
    char url[96];
    struct ls_listener *listener;
    struct ls_dialer *dialer;
    struct ls_peer *peer; /* enrolled last */
    struct rig_hooks hooks;
    struct ls_credentials *coordinator_keys; /* borrowed; NULL: no TLS */
    struct ls_credentials *agent_keys;
    char last_why[256];
    struct ls_diag diag; /* of a dialer that could not be made */

    unsigned enrolled, peer_ups, peer_downs, clocks, takens, forgotten;
    uint64_t reports;    /* taken, in order */
    uint64_t report_sum; /* of their offsets */
    bool out_of_order;
    int64_t clock[4];

    unsigned ups, resumes, downs, flushes, refusals;
    uint64_t commands;
    uint64_t reports_made, commands_made; /* for tests that produce on the way */
    char refused_code[64];
    char refused_text[256];
};

/* A fast pace: deadlines of a fraction of a second. */
void rig_set_pace(void);
void rig_init(struct rig *rig); /* loop and folder */
/* Destroys what there is, sees that no socket stayed behind, ends nng's threads. */
void rig_fini(struct rig *rig);
void rig_reset(struct rig *rig); /* forgets what was seen; there must be neither end */
void rig_listener_env(struct rig *rig, struct ls_listener_env *out);
void rig_listen(struct rig *rig);
void rig_listen_at(struct rig *rig, const char *url, const char *run_id);
void rig_dial(struct rig *rig, const char *agent, const char *boot_id);
enum ls_err rig_dialer(struct rig *rig, const char *url, const char *agent, const char *boot_id,
                       uint32_t reports_max, struct ls_dialer **out);

/* Runs the loop until done(rig) or fails the test after 20 s. */
void rig_until(struct rig *rig, bool (*done)(struct rig *rig));
/* Runs the loop as long as there is something to do, at most this long. */
void rig_run_ms(struct rig *rig, int ms);

bool rig_both_up(struct rig *rig);
bool rig_was_refused(struct rig *rig);

/* A small report that carries n; a command likewise. */
enum ls_err rig_report(struct ls_dialer *dialer, uint64_t n);
enum ls_err rig_command(struct ls_peer *peer, uint64_t n);
unsigned rig_open_descriptors(void);

#endif
