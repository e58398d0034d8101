/* What the runs of a series print, read as it comes, and what they hold in memory at the marker. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <unistd.h>

#include "agent/host/proc.h"
#include "agent/host/series_state.h"

#define LOUD_BYTES      65536u /* in one look: more than a look now and then would keep up with */
#define CHUNK_BYTES     65536u
#define LOOK_CHUNKS     256u
#define DRAIN_MOST      65536u /* chunks, of a run that has ended */
#define GIVE_BACK_BYTES (1 << 20)

/* ---- memory at the marker */

/* Exact, unlike the counters of /proc/PID/stat, which each thread adds to in pieces. */
static uint64_t resident_bytes(const struct host_proc *proc)
{
    char path[64], text[1024];
    const char *at;

    (void)snprintf(path, sizeof(path), "/proc/%d/smaps_rollup", (int)proc->pid);
    if (host_proc_slurp(path, text, sizeof(text)) < 0)
        return proc->rss_bytes;
    at = strstr(text, "\nRss:");
    return at != NULL ? strtoull(at + 5, NULL, 10) << 10 : proc->rss_bytes;
}

void host_series_note_marker(struct host_slot *slot)
{
    struct host_proc top, *below = NULL;
    size_t count = 0;

    if (slot->marker_rss_bytes > 0 || slot->pid == 0 || !host_output_is_marked(slot->output) ||
        !host_proc_read(slot->pid, &top))
        return;
    slot->marker_rss_bytes = resident_bytes(&top);
    if (host_proc_descendants(slot->pid, &below, &count, NULL) != LS_OK)
        return;
    for (size_t i = 0; i < count; i++)
        slot->marker_rss_bytes += resident_bytes(&below[i]);
    free(below);
}

/* ---- output */

static ssize_t read_chunk(const struct host_series *s, struct host_slot *slot, unsigned char *chunk)
{
    ssize_t n;

    if (slot->read_fd < 0)
        return 0;
    if (s->process->marker != NULL)
        return read(slot->read_fd, chunk, CHUNK_BYTES);
    n = pread(slot->read_fd, chunk, CHUNK_BYTES, slot->at);
    slot->at += n > 0 ? n : 0;
    return n;
}

/* What has been read of a file need not be kept. */
static void give_back(const struct host_series *s, struct host_slot *slot)
{
    if (s->process->marker != NULL || slot->at - slot->emptied < GIVE_BACK_BYTES)
        return;
    (void)fallocate(slot->read_fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, slot->emptied,
                    slot->at - slot->emptied);
    slot->emptied = slot->at;
}

/* Returns the bytes that were there, at most a few chunks. */
static size_t read_some(const struct host_series *s, struct host_slot *slot, unsigned most)
{
    unsigned char chunk[CHUNK_BYTES];
    size_t total = 0;

    for (unsigned i = 0; i < most; i++) {
        ssize_t n = read_chunk(s, slot, chunk);

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            break;
        host_output_feed(slot->output, (struct ls_bytes){ chunk, (size_t)n });
        total += (size_t)n;
        host_series_note_marker(slot);
        give_back(s, slot);
    }
    return total;
}

void host_series_drain(const struct host_series *s, struct host_slot *slot)
{
    (void)read_some(s, slot, DRAIN_MOST);
}

void host_series_look(struct host_series *s)
{
    s->loud = false;
    for (uint32_t i = 0; i < s->process->concurrency; i++) {
        if (s->slots[i].index != 0 && read_some(s, &s->slots[i], LOOK_CHUNKS) >= LOUD_BYTES)
            s->loud = true;
    }
}

/* Measured runs of which something is expected, or whose warm-ups have printed figures of their
 * own; without a warm-up there is no knowing. */
static bool is_heard(const struct host_series *s)
{
    return s->process->warmup_runs == 0 || s->has_figures ||
           host_expectation_listens(s->expectation);
}

/* A file is read when there is time. What is not looked at goes to /dev/null, where it makes the
 * least work: Node needs a twentieth more for a file, and as much for a pipe. */
bool host_series_open_output(const struct host_series *s, struct host_target *t, bool warmup,
                             int fds[2])
{
    struct epoll_event event = { .events = EPOLLIN };

    if (s->process->marker != NULL)
        return pipe2(fds, O_CLOEXEC) == 0 && fcntl(fds[0], F_SETFL, O_NONBLOCK) == 0 &&
               epoll_ctl(t->epoll_fd, EPOLL_CTL_ADD, fds[0], &event) == 0;
    if (!warmup && !is_heard(s)) {
        fds[1] = open("/dev/null", O_WRONLY | O_CLOEXEC);
        return fds[1] >= 0;
    }
    fds[0] = memfd_create("ls-stdout", MFD_CLOEXEC);
    fds[1] = fds[0] >= 0 ? fcntl(fds[0], F_DUPFD_CLOEXEC, 3) : -1;
    return fds[1] >= 0;
}

void host_series_free_slot(struct host_slot *slot)
{
    if (slot->index == 0)
        return;
    if (slot->read_fd >= 0)
        (void)close(slot->read_fd);
    host_output_destroy(slot->output);
    *slot = (struct host_slot){ 0 };
}
