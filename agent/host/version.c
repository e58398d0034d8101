#include "agent/host/version.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/host/program.h"
#include "common/clock.h"
#include "common/utf8.h"

#define KEEP_BYTES 200

struct run {
    struct host_supervisor *supervisor;
    int read_fd;
    bool closed; /* by all writers */
    int cancel_fd;
    int64_t deadline_ns;
    bool timed_out;
    bool cancelled;
    bool failed; /* did not start, or did not end well: why says */
    char why[200];
    char text[KEEP_BYTES + 1];
    size_t len;
};

/* False: nothing there (at the moment). */
static bool take_output(struct run *r)
{
    char chunk[4096];
    ssize_t n = read(r->read_fd, chunk, sizeof(chunk));
    size_t keep = n > 0 ? (size_t)n : 0;

    if (keep > KEEP_BYTES - r->len)
        keep = KEEP_BYTES - r->len;
    (void)memcpy(r->text + r->len, chunk, keep);
    r->len += keep;
    return n > 0;
}

static void note_exit(struct run *r, int status)
{
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return;
    r->failed = true;
    if (WIFEXITED(status))
        (void)snprintf(r->why, sizeof(r->why), "exit %d", WEXITSTATUS(status));
    else
        (void)snprintf(r->why, sizeof(r->why), "signal %s", sigabbrev_np(WTERMSIG(status)));
}

/* Waits for the next thing to happen; ends the run when its time is over. */
static void wait_some(struct run *r)
{
    bool ending = r->timed_out || r->cancelled;
    int64_t left_ns = r->deadline_ns - ls_clock_mono_ns();
    struct pollfd fds[] = { { .fd = host_supervisor_fd(r->supervisor), .events = POLLIN },
                            { .fd = r->closed ? -1 : r->read_fd, .events = POLLIN },
                            { .fd = ending ? -1 : r->cancel_fd, .events = POLLIN } };
    int wait_ms = left_ns > 0 ? (int)(left_ns / LS_NS_PER_MS) + 1 : 0;

    (void)poll(fds, LS_ARRAY_LEN(fds), ending ? -1 : wait_ms);
    if (fds[1].revents != 0 && !take_output(r))
        r->closed = true;
    if (ending)
        return;
    r->cancelled = fds[2].revents != 0;
    r->timed_out = !r->cancelled && ls_clock_mono_ns() >= r->deadline_ns;
    if (r->cancelled || r->timed_out)
        host_supervisor_stop(r->supervisor, SIGKILL, 0);
}

static enum ls_err follow(struct run *r, const struct host_program_file *file, struct ls_diag *diag)
{
    for (;;) {
        struct host_supervisor_event event;

        if (host_supervisor_receive(r->supervisor, &event) != LS_OK) {
            wait_some(r);
            continue;
        }
        switch (event.kind) {
        case HOST_SUPERVISOR_START_FAILED:
            r->failed = true;
            host_program_explain_exec(file, event.error, r->why, sizeof(r->why));
            return LS_OK;
        case HOST_SUPERVISOR_EXITED:
            note_exit(r, event.status);
            break;
        case HOST_SUPERVISOR_CLEAN:
        case HOST_SUPERVISOR_STUCK: /* goes on trying; the target is not to wait for it */
            return LS_OK;
        case HOST_SUPERVISOR_LOST:
            return ls_fail(diag, LS_ECLOSED, "the supervisor was killed while %s ran", file->path);
        default:
            break;
        }
    }
}

/* One line: line ends and other control characters become blanks, ends are trimmed. */
static void tidy(char *text, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        if ((unsigned char)text[i] < 0x20 || text[i] == 0x7f)
            text[i] = ' ';
    }
    while (len > 0 && text[len - 1] == ' ')
        len--;
    text[len] = '\0';
}

static void conclude(struct run *r, int64_t limit_ns, char out[HOST_VERSION_BYTES])
{
    while (take_output(r))
        ;
    tidy(r->text, r->len);
    if (r->timed_out)
        (void)snprintf(out, HOST_VERSION_BYTES, "unknown: no end within %.3g s",
                       (double)limit_ns / LS_NS_PER_S);
    else if (r->failed)
        (void)snprintf(out, HOST_VERSION_BYTES, "unknown: %.150s%s%.80s", r->why,
                       r->len > 0 ? ": " : "", r->text);
    else
        (void)snprintf(out, HOST_VERSION_BYTES, "%s", r->text);
    ls_utf8_clean(out, strlen(out));
}

enum ls_err host_version_read(struct host_supervisor *supervisor, int cancel_fd,
                              const struct host_supervisor_job *job,
                              const struct host_permit *permit, int64_t limit_ns,
                              char out[HOST_VERSION_BYTES], struct ls_diag *diag)
{
    struct run run = { .supervisor = supervisor,
                       .cancel_fd = cancel_fd,
                       .deadline_ns = ls_clock_mono_ns() + limit_ns };
    struct host_supervisor_job mine = *job;
    struct host_program_file file;
    struct host_confine confine = { 0 };
    struct ls_diag why = { 0 };
    enum ls_err rc = LS_OK;
    int fds[2];

    if (host_program_find(job->argv[0], job->dir, job->envp, &file, &why) != LS_OK) {
        (void)snprintf(out, HOST_VERSION_BYTES, "unknown: %.200s", why.text);
        return LS_OK;
    }
    if (permit != NULL && permit->ask != NULL)
        rc = permit->ask(permit->ctx, &file, job->argv, true, &confine, diag);
    if (rc != LS_OK)
        return rc;
    if (pipe2(fds, O_CLOEXEC) < 0)
        return ls_fail(diag, LS_EIO, "cannot make a pipe for %s: %s", file.path, strerror(errno));
    run.read_fd = fds[0];
    if (fcntl(fds[0], F_SETFL, O_NONBLOCK) < 0)
        rc = ls_fail(diag, LS_EIO, "cannot prepare a pipe for %s: %s", file.path, strerror(errno));
    mine.path = host_program_exec_path(&file, &confine);
    mine.confine = &confine;
    mine.output_fd = fds[1];
    mine.oneshot = true;
    if (rc == LS_OK)
        rc = host_supervisor_start(supervisor, &mine, diag);
    (void)close(fds[1]);
    if (rc == LS_OK)
        rc = follow(&run, &file, diag);
    if (rc == LS_OK && run.cancelled)
        rc = ls_fail(diag, LS_ESTATE, "stopped while %s ran", file.path);
    if (rc == LS_OK)
        conclude(&run, limit_ns, out);
    (void)close(fds[0]);
    return rc;
}
