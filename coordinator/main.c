/* lockstep: the commands. */
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "common/fs.h"
#include "common/msg_yaml.h"
#include "coordinator/cli.h"
#include "coordinator/libraries.h"

/* Larger blocks are the kernel's again when they are freed. Left to itself, malloc() keeps ever
 * larger ones once one was freed, between what a fleet's agents have: a sixth more memory each. */
#define GIVEN_BACK_BYTES (128 * 1024)

static const struct {
    const char *name;
    int (*run)(int argc, char **argv);
    const char *arguments;
    const char *help;
} commands[] = {
    { "run", coord_cmd_run, "PLAN", "runs a test plan" },
    { "bench", coord_cmd_bench, "URL", "loads one URL, no plan file" },
    { "calibrate", coord_cmd_calibrate, "",
      "measures how much load this host can make, for later runs" },
    { "check", coord_cmd_check, "PLAN", "validates a plan and says what it would do" },
    { "pki", coord_cmd_pki, "WORD", "keys for agents and coordinators on several hosts" },
    { "agents", coord_cmd_agents, "", "says which agents are there, with their clocks and limits" },
    { "up", coord_cmd_up, "", "starts agents on other hosts, over ssh" },
    { "down", coord_cmd_down, "", "takes them down again" },
    { "slurm", coord_cmd_slurm, "PLAN", "runs a test plan as a job of a Slurm cluster" },
    { "report", coord_cmd_report, "DIR", "renders a result again" },
    { "compare", coord_cmd_compare, "DIR..",
      "says what became better or worse, and fails if it shall" },
    { "history", coord_cmd_history, "WORD",
      "what runs have found over time, and where it changed" },
    { "metrics", coord_cmd_metrics, "DIR", "a result's figures as Prometheus reads them" },
    { "bundle", coord_cmd_bundle, "DIR", "puts a result, its raw data and its plan into one file" },
    { "rerun", coord_cmd_rerun, "FILE", "runs a bundle's plan here and compares" },
    { "verify", coord_cmd_verify, "DIR",
      "compares files with their sums, and figures with raw data" },
};

static void help(FILE *file)
{
    (void)fputs("usage: lockstep COMMAND [argument ...]\n\n", file);
    for (size_t i = 0; i < LS_ARRAY_LEN(commands); i++)
        (void)fprintf(file, "  %-9s %-5s  %s\n", commands[i].name, commands[i].arguments,
                      commands[i].help);
    (void)fputs(
        "\n'lockstep COMMAND --help' lists a command's options.\n"
        "Exit status: 0 done and valid; 1 worse than allowed; 2 usage or plan; 3 incomplete; 4 a "
        "result is invalid; 5 refused; 70 our own fault; 130 interrupted.\n",
        file);
}

static int unknown(int argc, char **argv)
{
    const char *names[LS_ARRAY_LEN(commands)];
    const char *meant;
    char text[200];

    for (size_t i = 0; i < LS_ARRAY_LEN(commands); i++)
        names[i] = commands[i].name;
    meant = ls_closest(argv[1], names, LS_ARRAY_LEN(commands));
    if (meant != NULL)
        (void)snprintf(text, sizeof(text), "unknown command '%.60s'; did you mean '%s'?", argv[1],
                       meant);
    else
        (void)snprintf(text, sizeof(text),
                       "unknown command '%.60s'; 'lockstep --help' lists the commands", argv[1]);
    return coord_cli_fail(coord_cli_wants_json(argc, argv), COORD_EXIT_USAGE, text);
}

int main(int argc, char **argv)
{
    ls_fs_hold_std();
    (void)mallopt(M_MMAP_THRESHOLD, GIVEN_BACK_BYTES); /* fails for sizes beyond 32 MiB only */
    (void)signal(SIGPIPE, SIG_IGN);
    (void)signal(SIGXFSZ, SIG_IGN); /* a file limit is an error to report, not to die of */
    if (argc < 2) {
        help(stderr);
        return COORD_EXIT_USAGE;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 ||
        strcmp(argv[1], "help") == 0) {
        help(stdout);
        return COORD_EXIT_OK;
    }
    if (strcmp(argv[1], "--version") == 0) {
        if (argc > 2 && (strcmp(argv[2], "--verbose") == 0 || strcmp(argv[2], "-v") == 0))
            coord_libraries_print(stdout);
        else
            (void)printf("lockstep %s\n", LS_VERSION);
        return COORD_EXIT_OK;
    }
    for (size_t i = 0; i < LS_ARRAY_LEN(commands); i++) {
        if (strcmp(argv[1], commands[i].name) == 0)
            return commands[i].run(argc - 1, argv + 1);
    }
    return unknown(argc, argv);
}
