/* coordinator/plan/plan_check_parts.h - the parts of plan_check.h; nobody else includes it. */
#ifndef LS_COORDINATOR_PLAN_PLAN_CHECK_PARTS_H
#define LS_COORDINATOR_PLAN_PLAN_CHECK_PARTS_H

#include "common/csv.h"
#include "coordinator/plan/plan_check.h"

#define COORD_PLAN_CONNECTIONS_MAX 1000000u
#define COORD_PLAN_INSTANCES_MAX   256u /* of a target, and processes that have to be ready */
#define COORD_PLAN_DAY_NS          (86400 * INT64_C(1000000000))

/* The first problem with a value is enough, but every value is looked at. Parts of the plan that
 * could not be read are absent, so nothing below may rely on anything being there. */
struct coord_plan_checker {
    const Ls__Plan *plan;
    const struct ls_marks *marks;
    const char *base_dir;
    struct ls_issues *issues;
    uint32_t clients;    /* as given or by default; at least 1 */
    uint64_t file_bytes; /* of all files so far */
};

/* An issue at message's field, or its element index (-1: the field itself). */
void coord_plan_check_say(struct coord_plan_checker *c, const ProtobufCMessage *message,
                          const char *field, int index, const char *fmt, ...) LS_PRINTF(5, 6);

/* min and max are allowed. duration NULL: not given, fine. */
void coord_plan_check_duration(struct coord_plan_checker *c, const ProtobufCMessage *message,
                               const char *field, const Ls__Duration *duration, int64_t min_ns,
                               int64_t max_ns);
void coord_plan_check_range(struct coord_plan_checker *c, const ProtobufCMessage *message,
                            const char *field, uint64_t value, uint64_t min, uint64_t max);
/* A target's or a workload's name, or the plan's. */
void coord_plan_check_name(struct coord_plan_checker *c, const ProtobufCMessage *message,
                           const char *name, const char *whose);
/* Not more than COORD_PLAN_ITEMS_MAX of them? Says so otherwise. */
bool coord_plan_check_few(struct coord_plan_checker *c, const ProtobufCMessage *message,
                          const char *field, size_t count);

/* A file that the plan names, relative to the plan: it can be read, has at most max bytes, and all
 * of them together are not too much to be sent to agents. False: what is wrong has been said. */
bool coord_plan_check_file(struct coord_plan_checker *c, const ProtobufCMessage *message,
                           const char *field, int index, const char *file, uint64_t max_bytes);

/* Files that go into {dir}, under the last part of their names. */
void coord_plan_check_shipped(struct coord_plan_checker *c, const ProtobufCMessage *message,
                              char *const *files, size_t count);
/* Words and values with {dir} and the like in them. */
void coord_plan_check_placeholders(struct coord_plan_checker *c, const ProtobufCMessage *message,
                                   const char *field, int index, const char *text);
/* message is the entry of a mapping of variables. */
void coord_plan_check_variable(struct coord_plan_checker *c, const ProtobufCMessage *message,
                               const char *name, const char *value);
/* An extended regular expression, a SHA-256 in hex, a literal address; NULL: not given, fine. */
void coord_plan_check_pattern(struct coord_plan_checker *c, const ProtobufCMessage *message,
                              const char *field, const char *pattern);
void coord_plan_check_sha256(struct coord_plan_checker *c, const ProtobufCMessage *message,
                             const char *field, const char *hex);
void coord_plan_check_address(struct coord_plan_checker *c, const ProtobufCMessage *message,
                              const char *host);
void coord_plan_check_stop(struct coord_plan_checker *c, const Ls__Stop *stop);
/* A metric of results, or of a script; NULL is fine. */
void coord_plan_check_metric(struct coord_plan_checker *c, const ProtobufCMessage *message,
                             const char *name);
/* Probe, program, what does not apply and what was published. */
void coord_plan_check_absent(struct coord_plan_checker *c, const Ls__Target *target);
void coord_plan_check_services(struct coord_plan_checker *c, const ProtobufCMessage *message,
                               Ls__Service *const *services, size_t count);
/* That targets can get to the services beside them. */
void coord_plan_check_reach(struct coord_plan_checker *c, const Ls__Workload *w);
void coord_plan_check_process(struct coord_plan_checker *c, const Ls__Workload *w);
/* Is there anything for clients to do? Process workloads are the servers'. */
bool coord_plan_needs_clients(const Ls__Plan *plan);
/* The environment's, that a plan may name; NULL: it is not set, or empty. */
const char *coord_plan_variable(const char *name);
void coord_plan_check_tls(struct coord_plan_checker *c, const Ls__Tls *tls);
void coord_plan_check_target(struct coord_plan_checker *c, const Ls__Target *target);
void coord_plan_check_workload(struct coord_plan_checker *c, const Ls__Workload *workload);
/* False if a rate is of no use; index -1: the field itself. */
bool coord_plan_check_rate(struct coord_plan_checker *c, const ProtobufCMessage *law,
                           const char *field, int index, const Ls__Rate *rate, bool may_be_zero);
void coord_plan_check_queue(struct coord_plan_checker *c, const ProtobufCMessage *law,
                            uint32_t queue);
void coord_plan_check_capacity(struct coord_plan_checker *c, const Ls__Workload *workload,
                               const Ls__Capacity *capacity);
void coord_plan_check_ladder(struct coord_plan_checker *c, const Ls__Workload *workload,
                             const Ls__Ladder *ladder);
/* Arrival law, think time and lifetime. */
void coord_plan_check_load(struct coord_plan_checker *c, const Ls__Workload *workload);
void coord_plan_check_http(struct coord_plan_checker *c, const Ls__Http *http);
void coord_plan_check_tables(struct coord_plan_checker *c);
void coord_plan_check_websocket(struct coord_plan_checker *c, const Ls__Workload *w);
/* An HTTP header's name, and what is wrong with a value (NULL: nothing). */
bool coord_plan_is_token(const char *text);
const char *coord_plan_bad_header(const char *value);
/* What is wrong with a path: "space" (NULL: nothing). */
const char *coord_plan_bad_path(const char *path);
/* One that stands alone: no table belongs to it. */
void coord_plan_check_request(struct coord_plan_checker *c, const Ls__Request *request);

/* Fills in what was left out of a plan without issues; base_dir is what its files are relative to.
 * LS_ENOMEM; LS_EIO, LS_EINVAL, LS_ERANGE: a table is another one since it was checked. */
enum ls_err coord_plan_complete(Ls__Plan *plan, const char *base_dir) LS_NODISCARD;

/* Reads the table of a workload's requests. LS_EIO, LS_EINVAL, LS_ERANGE, LS_ENOMEM. */
enum ls_err coord_plan_read_table(const Ls__Data *data, const char *base_dir,
                                  struct ls_csv **out_csv, struct ls_diag *diag) LS_NODISCARD;
/* Replaces the placeholders of request by the first value of each. Errors as above. */
enum ls_err coord_plan_first_values(Ls__Request *request, const Ls__Data *data,
                                    const char *base_dir) LS_NODISCARD;

/* ---- defaults that the schema cannot carry ----------------------------------------------------
 */

#define COORD_DEFAULT_WARMUP_NS            INT64_C(3000000000)
#define COORD_DEFAULT_MEASURE_NS           INT64_C(10000000000)
#define COORD_DEFAULT_TIMEOUT_NS           INT64_C(5000000000)
#define COORD_DEFAULT_INTERVAL_NS          INT64_C(1000000000) /* or all of measure, if that is less */
#define COORD_DEFAULT_READY_TIMEOUT_NS     INT64_C(10000000000)
#define COORD_DEFAULT_STOP_GRACE_NS        INT64_C(6000000000)
#define COORD_DEFAULT_PROCESS_RUNS         10u
#define COORD_DEFAULT_PROCESS_TIMEOUT_NS   INT64_C(60000000000)
#define COORD_DEFAULT_PROCESS_OUTPUT_BYTES (UINT64_C(8) << 20)
#define COORD_DEFAULT_PROBE_TIMEOUT_NS     INT64_C(5000000000)
#define COORD_DEFAULT_MESSAGE_BYTES        64u
#define COORD_CAPACITY_TAIL                20 /* requests beyond a percentile that a probe should see */
#define COORD_DEFAULT_CAPACITY_WARMUP_NS   INT64_C(1000000000) /* of each probe */
#define COORD_DEFAULT_CAPACITY_START_PER_S 1000
#define COORD_DEFAULT_CAPACITY_LEAST_PER_S 1
#define COORD_DEFAULT_CAPACITY_MOST_PER_S  10e6
#define COORD_DEFAULT_CAPACITY_BUDGET_NS   INT64_C(180000000000)
#define COORD_DEFAULT_CAPACITY_LONGEST_NS  INT64_C(30000000000)
#define COORD_DEFAULT_CAPACITY_CONFIRM_NS  INT64_C(30000000000)
#define COORD_DEFAULT_CAPACITY_PRECISION   0.02
#define COORD_DEFAULT_CAPACITY_ERRORS      0.001
#define COORD_DEFAULT_CAPACITY_SETTLE_NS   INT64_C(1000000000)
#define COORD_DEFAULT_CAPACITY_STEP_NS     INT64_C(2000000000)
#define COORD_CAPACITY_PROBES_LEAST        4
#define COORD_DEFAULT_LADDER_EACH_NS       INT64_C(3000000000)
#define COORD_DEFAULT_START_SKEW_NS        INT64_C(5000000)

#endif
