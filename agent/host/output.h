/* agent/host/output.h - what one run of a process workload prints: bounded, compared, and read for
 * the script's own figures.
 *
 * Bytes go in as they come, however many: at most process.output of them are kept for comparison,
 * lines are looked at up to HOST_OUTPUT_LINE_MAX bytes each, and metrics up to
 * HOST_OUTPUT_METRICS_MAX. One thread at a time.
 */
#ifndef LS_AGENT_HOST_OUTPUT_H
#define LS_AGENT_HOST_OUTPUT_H

#include <stdbool.h>

#include "common/err.h"
#include "proto/wire.pb-c.h"

#define HOST_OUTPUT_LINE_MAX    (64u << 10)
#define HOST_OUTPUT_METRICS_MAX 1000u

/* What is the same for all runs: patterns compiled, files looked up. */
struct host_expectation;

/* process as plan_check.h leaves it; it and expected (output or the file's content; data NULL: not
 * given) are borrowed. LS_EINVAL: a pattern; LS_ENOMEM. */
enum ls_err host_expectation_create(const Ls__Process *process, struct ls_bytes expected,
                                    struct host_expectation **out_expectation,
                                    struct ls_diag *diag) LS_NODISCARD;
void host_expectation_destroy(struct host_expectation *expectation); /* NULL is fine */

/* Is anything to be known of what runs print? */
bool host_expectation_listens(const struct host_expectation *expectation);

struct host_output;

/* expectation is borrowed. LS_ENOMEM. */
enum ls_err host_output_create(const struct host_expectation *expectation,
                               struct host_output **out_output, struct ls_diag *diag) LS_NODISCARD;
void host_output_destroy(struct host_output *output); /* NULL is fine */

void host_output_feed(struct host_output *output, struct ls_bytes bytes);
/* The marker has been printed, as a whole line. */
bool host_output_is_marked(const struct host_output *output);

/* All of it has come. Fills output_bytes, output_sha256 (if all of it was kept), values and
 * lines_ignored of run, and, where exit and all else were as expected (is_fine), outcome: graceful,
 * handled or output, with why. LS_ENOMEM. */
enum ls_err host_output_judge(struct host_output *output, bool is_fine, Ls__ProcessRun *run,
                              struct ls_diag *diag) LS_NODISCARD;
/* The last of what was kept, as text for people; out. */
const char *host_output_tail(const struct host_output *output, char *out, size_t out_bytes);

#endif
