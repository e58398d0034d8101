#include "coordinator/run/progress.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/units.h"
#include "common/utf8.h"
#include "coordinator/web/live.h"

#define LIVE_NS  (250 * LS_NS_PER_MS)
#define PLAIN_NS LS_NS_PER_S

struct coord_progress {
    bool quiet;
    bool live; /* a terminal that understands cursor movement */
    bool colour;
    bool line_shown;              /* a live line stands there now */
    struct coord_live *live_page; /* NULL: none; borrowed */
    int64_t next_ns;
    char trial[200];
    char phase[40]; /* as shown last */
};

struct coord_progress *coord_progress_create(bool quiet)
{
    struct coord_progress *p = calloc(1, sizeof(*p));
    const char *term = getenv("TERM");
    const char *no_colour = getenv("NO_COLOR");
    bool dumb = term == NULL || *term == '\0' || strcmp(term, "dumb") == 0;

    if (p == NULL)
        return NULL;
    p->quiet = quiet;
    p->live = isatty(STDERR_FILENO) == 1 && !dumb && getenv("CI") == NULL;
    p->colour = p->live && (no_colour == NULL || *no_colour == '\0');
    return p;
}

static void clear_line(struct coord_progress *p)
{
    if (p->line_shown)
        (void)fputs("\r\033[K", stderr);
    p->line_shown = false;
}

void coord_progress_destroy(struct coord_progress *progress)
{
    if (progress == NULL)
        return;
    clear_line(progress);
    (void)fflush(stderr);
    free(progress);
}

/* Names and peers' words are data. */
static void make_harmless(char *text)
{
    ls_utf8_clean(text, strlen(text));
    for (char *c = text; *c != '\0'; c++) {
        if (((unsigned char)*c < 0x20 && *c != '\n') || *c == 0x7f)
            *c = '?';
    }
}

static void print(struct coord_progress *progress, const char *before, char *text)
{
    make_harmless(text);
    if (progress != NULL)
        clear_line(progress);
    (void)fprintf(stderr, "%s%s\n", before, text);
    (void)fflush(stderr);
}

void coord_progress_attach(struct coord_progress *progress, struct coord_live *live)
{
    if (progress != NULL)
        progress->live_page = live;
}

/* By its first word. */
static const char *style_of(const char *text)
{
    return strncmp(text, "invalid", 7) == 0 || strncmp(text, "lockstep:", 9) == 0 ? "bad"
           : strncmp(text, "suspect", 7) == 0                                     ? "warn"
                                                                                  : "";
}

static void tell_page(const struct coord_progress *progress, const char *trial, const char *text)
{
    char line[2300];

    if (progress == NULL || progress->live_page == NULL)
        return;
    (void)snprintf(line, sizeof(line), "%s%s%s", trial, trial[0] != '\0' ? ": " : "", text);
    coord_live_said(progress->live_page, style_of(text), line);
}

void coord_progress_say(struct coord_progress *progress, const char *fmt, ...)
{
    char text[2048];
    va_list ap;

    va_start(ap, fmt);
    (void)vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    tell_page(progress, "", text);
    print(progress, "", text);
}

void coord_progress_note(struct coord_progress *progress, const char *fmt, ...)
{
    char before[sizeof(progress->trial) + 2];
    char text[2048];
    va_list ap;

    if (progress == NULL)
        return;
    va_start(ap, fmt);
    (void)vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    tell_page(progress, progress->trial, text);
    if (progress->quiet)
        return;
    (void)snprintf(before, sizeof(before), "%s  ", progress->trial);
    print(progress, before, text);
}

void coord_progress_trial(struct coord_progress *progress, uint32_t index, uint32_t total,
                          const char *target, const char *workload, uint32_t repetition)
{
    char round[24] = "discarded";

    if (progress == NULL)
        return;
    if (repetition > 0)
        (void)snprintf(round, sizeof(round), "r%" PRIu32, repetition);
    (void)snprintf(progress->trial, sizeof(progress->trial),
                   "[%" PRIu32 "/%" PRIu32 "] %.60s %.60s %s", index, total, target, workload,
                   round);
    make_harmless(progress->trial);
    progress->phase[0] = '\0';
    if (progress->live)
        progress->next_ns = 0;
    coord_live_trial(progress->live_page, index, total, target, workload, repetition);
}

static void compose(char *out, size_t bytes, int64_t now_ns, const char *phase, int64_t end_ns,
                    const struct coord_merge_progress *latest)
{
    char rate[48];
    char p50[48];
    char p99[48];
    size_t used = (size_t)snprintf(out, bytes, "%s", phase);

    if (end_ns > now_ns)
        used += (size_t)snprintf(out + used, bytes - used, " %.0f s left",
                                 (double)(end_ns - now_ns) / 1e9);
    if (latest == NULL || latest->length_ns <= 0)
        return;
    used +=
        (size_t)snprintf(out + used, bytes - used, "  %s/s",
                         ls_human_count((double)latest->completed * 1e9 / (double)latest->length_ns,
                                        rate, sizeof(rate)));
    if (latest->p50_ns > 0)
        used += (size_t)snprintf(out + used, bytes - used, "  p50 %s  p99 %s",
                                 ls_human_duration((double)latest->p50_ns, p50, sizeof(p50)),
                                 ls_human_duration((double)latest->p99_ns, p99, sizeof(p99)));
    (void)snprintf(out + used, bytes - used, "  errors %" PRIu64, latest->errors);
}

static unsigned columns(void)
{
    struct winsize size;

    if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col < 20)
        return 80;
    return size.ws_col;
}

void coord_progress_update(struct coord_progress *progress, int64_t now_ns, const char *phase,
                           int64_t end_ns, const struct coord_merge_progress *latest)
{
    char what[256];
    char line[512];
    bool changed;

    if (progress == NULL || progress->quiet)
        return;
    changed = strcmp(progress->phase, phase) != 0;
    if (now_ns < progress->next_ns && !(progress->live && changed))
        return;
    (void)snprintf(progress->phase, sizeof(progress->phase), "%s", phase);
    progress->next_ns = now_ns + (progress->live ? LIVE_NS : PLAIN_NS);
    compose(what, sizeof(what), now_ns, phase, end_ns, latest);
    (void)snprintf(line, sizeof(line), "%s  %s", progress->trial, what);
    if (!progress->live) {
        (void)fprintf(stderr, "%s\n", line);
        return;
    }
    line[columns() - 1 < sizeof(line) - 1 ? columns() - 1 : sizeof(line) - 1] = '\0';
    (void)fprintf(stderr, "\r\033[K%s%s%s", progress->colour ? "\033[2m" : "", line,
                  progress->colour ? "\033[0m" : "");
    (void)fflush(stderr);
    progress->line_shown = true;
}

int64_t coord_progress_next_ns(const struct coord_progress *progress)
{
    return progress == NULL || progress->quiet ? INT64_MAX : progress->next_ns;
}
