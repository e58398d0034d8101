/* lockstep up and lockstep down: agents on other hosts, started and taken down over ssh. What is
 * done there is a matter of a shell, deploy/ssh/fleet.sh. */
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/options.h"
#include "coordinator/cli.h"
#include "coordinator/script.h"

struct arguments {
    struct ls_option_list hosts;
    const char *listen;
    const char *fleet;
    const char *policy;
    const char *ssh;
    int64_t wait_ns;
    bool help;
};

#define ROW(field) offsetof(struct arguments, field)
#define FLEET_ROW                                                                     \
    {                                                                                 \
        "fleet", 0, LS_OPTION_TEXT, ROW(fleet), "DIR", "fleet", 1, 0,                 \
            "where this fleet's keys are kept, and what was started: for 'down', too" \
    }
#define HELP_ROW                                                              \
    {                                                                         \
        "help", 'h', LS_OPTION_FLAG, ROW(help), NULL, NULL, 1, 0, "this text" \
    }

static const struct ls_option up_rows[] = {
    { "ssh", 0, LS_OPTION_LIST, ROW(hosts), "ROLE=HOST", NULL, 1, 0,
      "server=HOST or client=HOST, as ssh knows it, several with a comma between or several times" },
    { "listen", 0, LS_OPTION_TEXT, ROW(listen), "URL", NULL, 1, 0,
      "where the agents will dial to: tls+tcp://ADDRESS:PORT of this host" },
    { "policy", 0, LS_OPTION_TEXT, ROW(policy), "FILE", NULL, 1, 0,
      "what the agents may do there (whatever the user may: it is you who logs in)" },
    { "ssh-command", 0, LS_OPTION_TEXT, ROW(ssh), "COMMAND", "ssh -o BatchMode=yes", 1, 0,
      "how a host is reached, words with blanks between" },
    { "wait", 0, LS_OPTION_DURATION, ROW(wait_ns), "TIME", "20s", 1e9, 3.6e12,
      "for all agents to enrol" },
    FLEET_ROW,
    HELP_ROW,
};

static const struct ls_option down_rows[] = { FLEET_ROW, HELP_ROW };

static int fail(int status, const char *text)
{
    return coord_cli_fail(false, status, text);
}

static int become(const char *const *words, size_t count)
{
    struct ls_diag diag = { 0 };
    char script[4096];

    if (coord_script_find("ssh/fleet.sh", script, sizeof(script), &diag) == LS_OK)
        (void)!coord_script_become(script, words, count, &diag);
    return fail(COORD_EXIT_FAULT, diag.text);
}

static int begin_up(const struct arguments *args)
{
    size_t count = 0;
    const char **words = calloc(args->hosts.count + 8, sizeof(*words));
    char wait_s[24];
    int status;

    if (words == NULL)
        return fail(COORD_EXIT_FAULT, "out of memory");
    (void)snprintf(wait_s, sizeof(wait_s), "%lld", (long long)(args->wait_ns / 1000000000));
    words[count++] = "up";
    words[count++] = args->fleet;
    words[count++] = args->listen;
    words[count++] = wait_s;
    words[count++] = args->ssh;
    words[count++] = args->policy != NULL ? args->policy : "";
    for (size_t i = 0; i < args->hosts.count; i++)
        words[count++] = args->hosts.items[i];
    status = become(words, count);
    free(words);
    return status;
}

int coord_cmd_up(int argc, char **argv)
{
    struct arguments args = { 0 };
    struct ls_diag diag = { 0 };
    size_t plain = 0;
    int status;

    if (ls_options_parse(up_rows, LS_ARRAY_LEN(up_rows), argc, argv, &args, NULL, 0, &plain,
                         &diag) != LS_OK) {
        status = fail(COORD_EXIT_USAGE, diag.text);
    } else if (args.help) {
        (void)printf("usage: lockstep up --ssh ROLE=HOST,... --listen URL [option ...]\n\n"
                     "Copies lockstep-agent and keys of its own to each host, starts it there, and "
                     "says who has enrolled.\n\n");
        ls_options_help(up_rows, LS_ARRAY_LEN(up_rows), stdout);
        status = COORD_EXIT_OK;
    } else if (args.hosts.count == 0) {
        status = fail(COORD_EXIT_USAGE, "up: --ssh is missing: --ssh server=HOST,client=HOST,...");
    } else if (args.listen == NULL) {
        status =
            fail(COORD_EXIT_USAGE, "up: --listen URL is missing: where will the agents dial to?");
    } else {
        status = begin_up(&args);
    }
    ls_options_fini(up_rows, LS_ARRAY_LEN(up_rows), &args);
    return status;
}

int coord_cmd_down(int argc, char **argv)
{
    struct arguments args = { 0 };
    struct ls_diag diag = { 0 };
    size_t plain = 0;
    const char *words[2];

    if (ls_options_parse(down_rows, LS_ARRAY_LEN(down_rows), argc, argv, &args, NULL, 0, &plain,
                         &diag) != LS_OK)
        return fail(COORD_EXIT_USAGE, diag.text);
    if (args.help) {
        (void)printf("usage: lockstep down [--fleet DIR]\n\nEnds the agents that 'lockstep up' has "
                     "started, and removes all that it brought to their hosts.\n\n");
        ls_options_help(down_rows, LS_ARRAY_LEN(down_rows), stdout);
        return COORD_EXIT_OK;
    }
    words[0] = "down";
    words[1] = args.fleet;
    return become(words, LS_ARRAY_LEN(words));
}
