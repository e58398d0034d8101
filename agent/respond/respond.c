#include "agent/respond/respond.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "agent/respond/server.h"
#include "common/buf.h"
#include "common/fs.h"

/* As lockstep's commands: see DESIGN. */
enum { EXIT_DONE = 0, EXIT_USAGE = 2, EXIT_START = 3, EXIT_FAULT = 70 };

static void add_counts(struct ls_buf *out, struct respond_server *server)
{
    struct sockaddr_storage address;
    struct respond_counts counts;
    const char *comma = "";
    char text[64];

    respond_server_address(server, &address);
    respond_server_counts(server, &counts);
    ls_buf_addf(out,
                "{\"listen\":\"%s\",\"connections\":%" PRIu64 ",\"open\":%" PRIu64
                ",\"accept_failures\":%" PRIu64 ",\"requests\":%" PRIu64 ",\"responses\":%" PRIu64
                ",\"unanswered\":%" PRIu64 ",\"bad_requests\":%" PRIu64 ",\"bytes_in\":%" PRIu64
                ",\"bytes_out\":%" PRIu64 ",\"stalls\":%" PRIu64 ",\"upgrades\":%" PRIu64
                ",\"deliveries\":%" PRIu64 ",\"pongs\":%" PRIu64 ",\"closes\":%" PRIu64
                ",\"actions\":{",
                respond_format_address(&address, text, sizeof(text)), counts.connections,
                counts.open, counts.accept_failures, counts.requests, counts.responses,
                counts.unanswered, counts.bad_requests, counts.bytes_in, counts.bytes_out,
                counts.stalls, counts.upgrades, counts.deliveries, counts.pongs, counts.closes);
    for (int i = RESPOND_NORMAL + 1; i < RESPOND_ACTION_COUNT; i++) {
        if (counts.actions[i] > 0) {
            ls_buf_addf(out, "%s\"%s\":%" PRIu64, comma,
                        respond_action_name((enum respond_action)i), counts.actions[i]);
            comma = ",";
        }
    }
    ls_buf_adds(out, "}");
}

/* One line on stdout and, if asked for, in the file. final: no thread runs any more. */
static enum ls_err report(const struct respond_settings *settings, struct respond_server *server,
                          bool final, struct ls_diag *diag)
{
    struct respond_lateness late;
    struct ls_bytes line;
    struct ls_buf out;
    enum ls_err rc = LS_OK;

    ls_buf_init(&out, 4096);
    add_counts(&out, server);
    if (final) {
        respond_server_lateness(server, &late);
        ls_buf_addf(&out,
                    ",\"late\":{\"count\":%" PRIu64 ",\"p50_ns\":%" PRId64 ",\"p99_ns\":%" PRId64
                    ",\"max_ns\":%" PRId64 "}",
                    late.count, late.p50_ns, late.p99_ns, late.max_ns);
    }
    ls_buf_adds(&out, "}\n");
    if (!out.ok) {
        ls_buf_fini(&out);
        return ls_fail(diag, LS_ENOMEM, "no memory for the counters");
    }
    line = (struct ls_bytes){ out.data, out.len };
    /* Who started us may have closed its end of the pipe: nobody to tell then. */
    (void)fwrite(line.data, 1, line.len, stdout);
    (void)fflush(stdout);
    if (settings->count_file != NULL)
        rc = ls_fs_write(settings->count_file, line, 0644, diag);
    ls_buf_fini(&out);
    return rc;
}

/* Blocks the signals that serve() waits for, in all threads to come. */
static void claim_signals(sigset_t *set)
{
    (void)sigemptyset(set);
    (void)sigaddset(set, SIGTERM);
    (void)sigaddset(set, SIGINT);
    (void)sigaddset(set, SIGUSR1);
    (void)pthread_sigmask(SIG_BLOCK, set, NULL);
    (void)signal(SIGPIPE, SIG_IGN);
}

static enum ls_err serve(const struct respond_settings *settings, const sigset_t *signals,
                         struct ls_diag *diag)
{
    struct sockaddr_storage address;
    struct respond_server *server = NULL;
    char text[64];
    enum ls_err rc = respond_server_create(settings, &server, diag);

    if (rc != LS_OK)
        return rc;
    respond_server_address(server, &address);
    (void)printf("listening on %s\n", respond_format_address(&address, text, sizeof(text)));
    (void)fflush(stdout);
    for (;;) {
        int number = sigwaitinfo(signals, NULL);

        if (number == SIGTERM || number == SIGINT)
            break;
        if (number == SIGUSR1)
            rc = report(settings, server, false, diag);
        if (rc != LS_OK)
            break;
    }
    respond_server_stop(server);
    if (rc == LS_OK)
        rc = report(settings, server, true, diag);
    respond_server_destroy(server);
    return rc;
}

int agent_respond_main(int argc, char **argv)
{
    struct respond_settings settings = { 0 };
    struct ls_diag diag = { 0 };
    struct rlimit files;
    sigset_t signals;
    bool help = false;
    enum ls_err rc = respond_settings_parse(argc, argv, &settings, &help, &diag);

    if (rc != LS_OK) {
        (void)fprintf(stderr, "lockstep-agent respond: %s\n", diag.text);
        return rc == LS_ENOMEM ? EXIT_FAULT : EXIT_USAGE;
    }
    if (help) {
        respond_settings_help(stdout);
        return EXIT_DONE;
    }
    claim_signals(&signals);
    if (settings.die_with_parent)
        (void)prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
        files.rlim_cur = files.rlim_max; /* as many connections as the host allows */
        (void)setrlimit(RLIMIT_NOFILE, &files);
    }
    rc = serve(&settings, &signals, &diag);
    if (rc != LS_OK)
        (void)fprintf(stderr, "lockstep-agent respond: %s\n", diag.text);
    respond_settings_fini(&settings);
    return rc == LS_OK ? EXIT_DONE : rc == LS_ENOMEM ? EXIT_FAULT : EXIT_START;
}
