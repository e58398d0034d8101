/* coordinator/cli.h - the commands of lockstep, and what they share. */
#ifndef LS_COORDINATOR_CLI_H
#define LS_COORDINATOR_CLI_H

#include <stdbool.h>

#include "common/buf.h"
#include "common/err.h"
#include "coordinator/exit.h"
#include "coordinator/result/report.h"
#include "proto/result.pb-c.h"

/* Each takes its own argv, with the command's name in argv[0], and returns the exit status. */
int coord_cmd_agents(int argc, char **argv);
int coord_cmd_run(int argc, char **argv);
int coord_cmd_bench(int argc, char **argv);
int coord_cmd_calibrate(int argc, char **argv);
int coord_cmd_compare(int argc, char **argv);
int coord_cmd_check(int argc, char **argv);
int coord_cmd_pki(int argc, char **argv);
int coord_cmd_bundle(int argc, char **argv);
int coord_cmd_history(int argc, char **argv);
int coord_cmd_metrics(int argc, char **argv);
int coord_cmd_report(int argc, char **argv);
int coord_cmd_rerun(int argc, char **argv);
int coord_cmd_verify(int argc, char **argv);
int coord_cmd_slurm(int argc, char **argv);
int coord_cmd_up(int argc, char **argv);
int coord_cmd_down(int argc, char **argv);

/* Ends a command that failed before there was a result: the sentence on stderr and, with json, one
 * document on stdout. Returns exit_status. */
int coord_cli_fail(bool json, int exit_status, const char *text);

/* The document alone, for who has told people already. */
int coord_cli_print_failure(int exit_status, const char *text);

/* The result on stdout: as JSON, or as text for the terminal. Returns exit_status, or
 * COORD_EXIT_FAULT if stdout took it not. */
int coord_cli_print(const Ls__Result *result, bool json, const char *dir, int exit_status);

/* Text on stdout. Returns exit_status, or COORD_EXIT_FAULT if stdout took it not. */
int coord_cli_put(const struct ls_buf *text, int exit_status);
/* How text looks on this stdout: its columns, and whether it takes colours. */
struct coord_report_options coord_cli_looks(void);

/* The comparison on stdout. Returns the exit status that it makes. */
int coord_cli_compared(Ls__Comparisons *all, enum coord_report_format format);
/* Nothing could be compared: the sentence on stderr and, with json, one document on stdout. Returns
 * status. */
int coord_cli_not_compared(bool json, int status, const char *text);

/* Is --json among the words? Asked before they are parsed, so that even a usage error is JSON. */
bool coord_cli_wants_json(int argc, char **argv);

#endif
