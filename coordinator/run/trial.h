/* coordinator/run/trial.h - the machine that takes one trial through its phases.
 *
 *     server -> clients -> clocks -> arm -> load -> collect -> done
 *
 * Events and invented or real time in, commands out: it does no I/O and reads no clock, so a test
 * drives whole trials. It keeps what each agent said of its phase by the table both programs share
 * (common/phase.h). What the agents measured goes to the caller's merge, not here.
 */
#ifndef LS_COORDINATOR_RUN_TRIAL_H
#define LS_COORDINATOR_RUN_TRIAL_H

#include <stdbool.h>
#include <stdint.h>

#include "common/err.h"
#include "common/phase.h"
#include "proto/wire.pb-c.h"

enum coord_stage {
    COORD_STAGE_SERVER,  /* the target starts and answers */
    COORD_STAGE_CLIENTS, /* each client's preflight */
    COORD_STAGE_CLOCKS,  /* offsets and their bounds, fresh */
    COORD_STAGE_ARM,     /* all agree on one instant */
    COORD_STAGE_LOAD,    /* warm-up, window and drain run by themselves */
    COORD_STAGE_COLLECT, /* last reports; the target is stopped */
    COORD_STAGE_DONE,
    COORD_STAGE_COUNT
};

const char *coord_stage_name(enum coord_stage stage); /* "preflight"; as progress lines say it */

/* What it does to the world. agent is a place in the fleet. */
struct coord_machine_env {
    void (*command)(void *ctx, uint32_t agent, Ls__Envelope *command);
    void (*probe_clock)(void *ctx, uint32_t agent);
    /* The agent's clock minus ours, and the slowest round trip seen; false: not known yet. */
    bool (*clock)(void *ctx, uint32_t agent, int64_t *out_offset_ns, int64_t *out_slowest_ns);
    /* Start agreed: warm-up begins at start_ns of our clock. Called once per attempt. */
    void (*armed)(void *ctx, int64_t start_ns);
    void *ctx;
};

struct coord_machine_spec {
    uint32_t trial; /* its number in the run */
    const Ls__Target *target;
    const Ls__Workload *workload;
    uint64_t seed;
    uint32_t servers;         /* agents 0 .. servers - 1; 0: the target runs already */
    uint32_t server;          /* which of them keeps the target; the others have nothing to do */
    uint32_t clients;         /* agents servers .. servers + clients - 1 */
    const char *const *names; /* per agent, for messages */
    const char *const *cpus;  /* per agent, a list; "" leaves it as it is */
    const uint32_t *workers;  /* per agent; servers 0 */
    char **server_addresses;  /* where the servers' agents are */
    size_t server_address_count;
    Ls__FileRef **files; /* of the target; already sent */
    size_t file_count;
    Ls__FileRef **plan_files; /* that the plan names by a path; already sent, to all */
    size_t plan_file_count;
    bool keep_server;        /* the target stays at the end, for another trial to go on with */
    int64_t start_lead_ns;   /* fleet.start_lead; 0: no more than it takes */
    bool go_on_without_lost; /* fleet.on_agent_loss: continue */
};

/* What a machine keeps of an agent is half a KiB, and each event of a stage that ends when all are
 * there looks at those that are: a few ms in all for a thousand agents. */
#define COORD_MACHINE_AGENTS_MAX 8192u

struct coord_machine;

enum ls_err coord_machine_create(const struct coord_machine_spec *spec,
                                 const struct coord_machine_env *env,
                                 struct coord_machine **out_machine,
                                 struct ls_diag *diag) LS_NODISCARD;
void coord_machine_destroy(struct coord_machine *machine); /* NULL is fine */

void coord_machine_start(struct coord_machine *machine, int64_t now_ns);
/* A phase report, a client's totals, a server's target or its end; others are ignored. */
void coord_machine_report(struct coord_machine *machine, uint32_t agent, const Ls__Envelope *report,
                          int64_t now_ns);
void coord_machine_clock(struct coord_machine *machine, uint32_t agent, int64_t now_ns);
void coord_machine_lost(struct coord_machine *machine, uint32_t agent, const char *why,
                        int64_t now_ns);
/* Ends the trial in good order; code and text are the reason. */
void coord_machine_abort(struct coord_machine *machine, const char *code, const char *text,
                         int64_t now_ns);
/* Does what is due; returns when to be called next. */
int64_t coord_machine_tick(struct coord_machine *machine, int64_t now_ns);

enum coord_stage coord_machine_stage(const struct coord_machine *machine);
/* Which part of the load it is in, by our clock; LS_PHASE_ARMED before the start. */
enum ls_phase coord_machine_load_phase(const struct coord_machine *machine, int64_t now_ns);
int64_t coord_machine_start_ns(const struct coord_machine *machine); /* 0: not armed yet */
uint32_t coord_machine_attempts(const struct coord_machine *machine);

/* What went wrong, first things first; the strings live as long as the machine. */
struct coord_machine_failure {
    uint32_t agent; /* UINT32_MAX: nobody in particular */
    char code[40];
    char text[480];
    char log_tail[2048];
    bool before_load; /* nothing was measured */
    bool agent_lost;
};
/* NULL: nothing did. */
const struct coord_machine_failure *coord_machine_failure(const struct coord_machine *machine);
/* DONE, but this agent has not come back to idle and is not lost: it hangs. */
bool coord_machine_is_stuck(const struct coord_machine *machine, uint32_t agent);
/* Agents that were lost, whether or not it went on without them. */
bool coord_machine_is_lost(const struct coord_machine *machine, uint32_t agent);
const char *coord_machine_why_lost(const struct coord_machine *machine, uint32_t agent); /* "" */

#endif
