#include "tests/support/responder.h"

#include "tests/support/test.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/respond/respond.h"

#define OPTIONS_MAX 32

static void serve_as_child(const int *ends, const char *const *options)
{
    char *argv[OPTIONS_MAX + 4] = { (char[]){ "respond" }, (char[]){ "--listen" },
                                    (char[]){ "127.0.0.1:0" }, (char[]){ "--die-with-parent" } };
    int argc = 4;

    for (; options != NULL && *options != NULL && argc < OPTIONS_MAX; options++)
        argv[argc++] = strdup(*options); /* ends with the process */
    if (dup2(ends[1], STDOUT_FILENO) < 0)
        _exit(99);
    (void)close(ends[0]);
    (void)close(ends[1]);
    exit(agent_respond_main(argc, argv)); /* not _exit: a leak is a failure of the child, too */
}

static void read_counts(struct responder *responder)
{
    assert_non_null(fgets(responder->counts, (int)sizeof(responder->counts), responder->output));
    assert_int_equal(responder->counts[0], '{');
}

void responder_start(struct responder *responder, const char *const *options)
{
    char line[128] = "";
    const char *colon;
    int ends[2];

    (void)memset(responder, 0, sizeof(*responder));
    assert_int_equal(pipe(ends), 0);
    (void)fflush(NULL);
    responder->pid = fork();
    assert_true(responder->pid >= 0);
    if (responder->pid == 0)
        serve_as_child(ends, options);
    (void)close(ends[1]);
    responder->output = fdopen(ends[0], "r");
    assert_non_null(responder->output);
    assert_non_null(fgets(line, sizeof(line), responder->output));
    assert_int_equal(strncmp(line, "listening on 127.0.0.1:", 23), 0);
    colon = strrchr(line, ':');
    responder->port = (uint16_t)strtoul(colon + 1, NULL, 10);
    assert_int_not_equal(responder->port, 0);
}

void responder_ask(struct responder *responder)
{
    assert_int_equal(kill(responder->pid, SIGUSR1), 0);
    read_counts(responder);
}

void responder_stop(struct responder *responder)
{
    int status = 0;

    assert_int_equal(kill(responder->pid, SIGTERM), 0);
    read_counts(responder);
    assert_int_equal(waitpid(responder->pid, &status, 0), responder->pid);
    assert_int_equal(status, 0);
    (void)fclose(responder->output);
    responder->output = NULL;
}

uint64_t responder_count(const struct responder *responder, const char *name)
{
    char key[64];
    const char *at;

    (void)snprintf(key, sizeof(key), "\"%s\":", name);
    at = strstr(responder->counts, key);
    return at != NULL ? strtoull(at + strlen(key), NULL, 10) : 0;
}
