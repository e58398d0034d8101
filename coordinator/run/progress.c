#include "coordinator/run/progress.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "common/buf.h"
#include "common/clock.h"
#include "common/units.h"
#include "common/utf8.h"
#include "coordinator/result/report_parts.h"
#include "coordinator/result/requests.h"
#include "coordinator/result/stats.h"
#include "coordinator/result/summary.h"
#include "coordinator/run/verdict.h"
#include "coordinator/web/live.h"

#define LIVE_NS        (250 * LS_NS_PER_MS)
#define PLAIN_NS       LS_NS_PER_S
#define AGENTS_SHOWN   4u
#define SAID_MAX       256u /* kinds of warnings that are remembered */
#define LINE_MAX_BYTES 512u

enum { LINE_TRIAL, LINE_PHASES, LINE_FIGURES, LINE_AGENTS, LINE_STRIP };

#define LINE_COUNT (LINE_STRIP + AGENTS_SHOWN)

struct coord_progress {
    bool quiet;
    bool live; /* a terminal that understands cursor movement */
    bool colour;
    unsigned shown;               /* lines that stand at the bottom now */
    unsigned widths[LINE_COUNT];  /* theirs: a narrower terminal breaks them */
    struct coord_live *live_page; /* NULL: none; borrowed */
    int64_t next_ns;
    char trial[200];
    char target[64];
    char phase[40]; /* as shown last */
    char agents[LINE_MAX_BYTES];
    char strip[AGENTS_SHOWN][LINE_MAX_BYTES]; /* what the agents are like; "": not known */
    bool agents_missing;
    uint64_t said[SAID_MAX]; /* warnings, by kind and target */
    unsigned said_count;
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

static unsigned columns(void)
{
    struct winsize size;

    if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col < 20)
        return 80;
    return size.ws_col;
}

/* Takes away what stands at the bottom, also where a resize has broken its lines anew. */
static void clear_lines(struct coord_progress *p)
{
    unsigned width = columns(), rows = 0;

    if (p->shown == 0)
        return;
    for (unsigned i = 0; i < p->shown; i++)
        rows += p->widths[i] > 0 ? (p->widths[i] - 1) / width + 1 : 1;
    (void)fputs("\r", stderr);
    for (unsigned i = 1; i < rows; i++)
        (void)fputs("\033[A", stderr);
    (void)fputs("\033[J", stderr);
    p->shown = 0;
}

void coord_progress_destroy(struct coord_progress *progress)
{
    if (progress == NULL)
        return;
    clear_lines(progress);
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
        clear_lines(progress);
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
    (void)snprintf(progress->target, sizeof(progress->target), "%s", target);
    progress->phase[0] = '\0';
    if (progress->live)
        progress->next_ns = 0;
    coord_live_trial(progress->live_page, index, total, target, workload, repetition);
}

/* ---- warnings, and what a trial has come to */

static uint64_t kind_of(const struct coord_progress *progress, const Ls__Reason *reason)
{
    return coord_stats_stream(progress->target, reason->code, coord_verdict_name(reason->verdict));
}

/* Of each kind the first of a target: what is the matter with it comes again in trial after trial.
 */
static bool is_news(struct coord_progress *progress, const Ls__Reason *reason)
{
    uint64_t kind = kind_of(progress, reason);

    for (unsigned i = 0; i < progress->said_count; i++) {
        if (progress->said[i] == kind)
            return false;
    }
    if (progress->said_count < SAID_MAX)
        progress->said[progress->said_count++] = kind;
    return true;
}

static void say_reason(struct coord_progress *progress, const Ls__Reason *reason)
{
    char text[800];

    (void)snprintf(text, sizeof(text), "%s: %.600s (%.60s)", coord_verdict_name(reason->verdict),
                   reason->text, reason->code);
    if (is_news(progress, reason))
        coord_progress_note(progress, "%s", text);
    else
        tell_page(progress, progress->trial, text);
}

/* "suspect (shared_cores foreign_cpu)  12.8 k/s  p50 3.52 ms  p99 20.3 ms  errors 0" */
void coord_progress_done(struct coord_progress *progress, const Ls__Trial *trial)
{
    const Ls__Latency *latency = coord_trial_latency(trial);
    struct ls_buf text;
    char rate[48], p50[48], p99[48];

    ls_buf_init(&text, 4096);
    ls_buf_adds(&text, coord_trial_label(trial));
    for (size_t i = 0; i < trial->n_reasons; i++)
        ls_buf_addf(&text, "%s%s", i == 0 ? " (" : " ", trial->reasons[i]->code);
    ls_buf_adds(&text, trial->n_reasons > 0 ? ")" : "");
    if (trial->requests != NULL && trial->requests->sent > 0)
        ls_buf_addf(&text, "  %s/s", ls_human_count(trial->throughput_per_s, rate, sizeof(rate)));
    if (latency != NULL && latency->count > 0)
        ls_buf_addf(&text, "  p50 %s  p99 %s",
                    ls_human_duration((double)latency->p50_ns, p50, sizeof(p50)),
                    ls_human_duration((double)latency->p99_ns, p99, sizeof(p99)));
    if (trial->requests != NULL && trial->requests->sent > 0)
        ls_buf_addf(&text, "  errors %" PRIu64, coord_requests_errors(trial->requests));
    if (text.ok && text.data != NULL)
        coord_progress_note(progress, "%s", (const char *)text.data);
    ls_buf_fini(&text);
}

void coord_progress_reasons(struct coord_progress *progress, const Ls__Trial *trial)
{
    for (size_t i = 0; progress != NULL && i < trial->n_reasons; i++)
        say_reason(progress, trial->reasons[i]);
}

/* ---- what moves */

static size_t add(char *out, size_t bytes, size_t used, const char *text)
{
    return used < bytes ? used + (size_t)snprintf(out + used, bytes - used, "%s", text) : used;
}

static size_t add_named(char *out, size_t bytes, size_t used, const char *before, const char *text,
                        const char *after)
{
    used = add(out, bytes, used, before);
    used = add(out, bytes, used, text);
    return add(out, bytes, used, after);
}

static bool is_measured(const struct coord_live_agent *agent)
{
    return agent->share >= 0 || agent->cores >= 0 || agent->busiest >= 0 ||
           agent->send_lag_p99_ns >= 0 || agent->rss_bytes >= 0;
}

static size_t add_percent(char *out, size_t bytes, size_t used, const char *before, double share,
                          int decimals)
{
    char text[32];

    (void)snprintf(text, sizeof(text), "%.*f %%", decimals, share * 100);
    return add_named(out, bytes, used, before, text, "");
}

/* "  client-1  share 50.0 %  lag 25.0 us  CPU 31 %  +- 42.0 us": a client's CPU is its busiest
 * worker's; "  server-1  0.98 cores  20.1 MiB  +- 30.0 us". The longest fits into 60 columns. */
static void compose_agent(char *out, size_t bytes, const struct coord_live_agent *agent,
                          unsigned width)
{
    char text[48];
    size_t used = (size_t)snprintf(out, bytes, "  %-*.16s", (int)width, agent->name);

    if (agent->share >= 0)
        used = add_percent(out, bytes, used, "  share ", agent->share, 1);
    if (agent->send_lag_p99_ns >= 0)
        used = add_named(out, bytes, used, "  lag ",
                         ls_human_duration((double)agent->send_lag_p99_ns, text, sizeof(text)), "");
    if (agent->busiest >= 0) {
        used = add_percent(out, bytes, used, "  CPU ", agent->busiest, 0);
    } else if (agent->cores >= 0) {
        (void)snprintf(text, sizeof(text), "%.2f", agent->cores);
        used = add_named(out, bytes, used, "  ", text, " cores");
    }
    if (agent->rss_bytes > 0)
        used = add_named(out, bytes, used, "  ",
                         ls_human_size((double)agent->rss_bytes, text, sizeof(text)), "");
    if (agent->clock_error_ns >= 0)
        (void)add_named(out, bytes, used, "  +- ",
                        ls_human_duration((double)agent->clock_error_ns, text, sizeof(text)), "");
    make_harmless(out);
}

/* Of more than there is room for: how far apart they are, and which one is the busiest. */
static void compose_extremes(char *out, size_t bytes, const struct coord_live_agent *agents,
                             size_t n)
{
    double least = 1, most = -1;
    const struct coord_live_agent *busiest = NULL;
    int64_t lag_ns = -1;
    char text[48];
    size_t used = 0;

    out[0] = '\0';
    for (size_t i = 0; i < n; i++) {
        if (agents[i].share >= 0 && agents[i].share < least)
            least = agents[i].share;
        most = agents[i].share > most ? agents[i].share : most;
        lag_ns = agents[i].send_lag_p99_ns > lag_ns ? agents[i].send_lag_p99_ns : lag_ns;
        if (agents[i].busiest >= 0 && (busiest == NULL || agents[i].busiest > busiest->busiest))
            busiest = &agents[i];
    }
    if (most >= 0) {
        used = add_percent(out, bytes, used, "  share ", least, 1);
        used = add_percent(out, bytes, used, " to ", most, 1);
    }
    if (lag_ns >= 0)
        used = add_named(out, bytes, used, "  lag to ",
                         ls_human_duration((double)lag_ns, text, sizeof(text)), "");
    if (busiest != NULL) {
        used = add_percent(out, bytes, used, "  CPU to ", busiest->busiest, 0);
        (void)add_named(out, bytes, used, " (", busiest->name, ")");
    }
    make_harmless(out);
}

static void compose_strip(struct coord_progress *p, const struct coord_live_agent *agents, size_t n)
{
    unsigned width = 0;

    for (unsigned i = 0; i < AGENTS_SHOWN; i++)
        p->strip[i][0] = '\0';
    if (n > AGENTS_SHOWN) {
        compose_extremes(p->strip[0], LINE_MAX_BYTES, agents, n);
        return;
    }
    for (size_t i = 0; i < n; i++) {
        size_t len = strlen(agents[i].name);

        width = len > width ? (unsigned)(len < 16 ? len : 16) : width;
    }
    for (size_t i = 0; i < n; i++) {
        if (is_measured(&agents[i]))
            compose_agent(p->strip[i], LINE_MAX_BYTES, &agents[i], width);
    }
}

void coord_progress_agents(struct coord_progress *progress, const struct coord_live_agent *agents,
                           size_t n)
{
    size_t here = 0, used;
    bool strip = false;

    if (progress == NULL)
        return;
    for (size_t i = 0; i < n; i++) {
        here += strcmp(agents[i].state, "here") == 0;
        strip = strip || is_measured(&agents[i]);
    }
    used = (size_t)snprintf(progress->agents, sizeof(progress->agents), "agents: %zu of %zu here",
                            here, n);
    progress->agents_missing = here < n;
    for (size_t i = 0; i < n && used < sizeof(progress->agents); i++) {
        char error[48] = "";

        /* All of a few that have no line of their own; of many those that are not here. */
        if (strcmp(agents[i].state, "here") == 0 && (strip || n > AGENTS_SHOWN || here < n))
            continue;
        if (agents[i].clock_error_ns >= 0)
            (void)ls_human_duration((double)agents[i].clock_error_ns, error, sizeof(error));
        used += (size_t)snprintf(progress->agents + used, sizeof(progress->agents) - used,
                                 "%s %.40s%s%s", used > 0 && i == 0 ? ":" : ",", agents[i].name,
                                 strcmp(agents[i].state, "here") == 0 ? " +- " : " ",
                                 strcmp(agents[i].state, "here") == 0 ? error : agents[i].state);
    }
    make_harmless(progress->agents);
    compose_strip(progress, agents, n);
}

/* "start preflight clocks arm warmup [measure] drain collect" */
static void compose_phases(char *out, size_t bytes, const char *phase)
{
    static const struct {
        const char *shown;
        const char *names[2];
    } steps[] = { { "start", { "start target", NULL } }, { "preflight", { "preflight", NULL } },
                  { "clocks", { "clocks", NULL } },      { "arm", { "arm", "armed" } },
                  { "warmup", { "warmup", NULL } },      { "measure", { "measure", NULL } },
                  { "drain", { "drain", NULL } },        { "collect", { "collect", "done" } } };
    size_t used = 0;

    for (size_t i = 0; i < LS_ARRAY_LEN(steps); i++) {
        bool now = strcmp(phase, steps[i].names[0]) == 0 ||
                   (steps[i].names[1] != NULL && strcmp(phase, steps[i].names[1]) == 0);

        used = add(out, bytes, used, i > 0 ? " " : "");
        used = add(out, bytes, used, now ? "[" : "");
        used = add(out, bytes, used, steps[i].shown);
        used = add(out, bytes, used, now ? "]" : "");
    }
}

/* "20.0 k/s  p50 1.20 ms  p99 4.50 ms  errors 0" */
static void compose_figures(char *out, size_t bytes, const struct coord_merge_progress *latest)
{
    char rate[48], p50[48], p99[48];
    size_t used = 0;

    out[0] = '\0';
    if (latest == NULL || latest->length_ns <= 0)
        return;
    used +=
        (size_t)snprintf(out, bytes, "%s/s",
                         ls_human_count((double)latest->completed * 1e9 / (double)latest->length_ns,
                                        rate, sizeof(rate)));
    if (latest->p50_ns > 0)
        used += (size_t)snprintf(out + used, bytes - used, "  p50 %s  p99 %s",
                                 ls_human_duration((double)latest->p50_ns, p50, sizeof(p50)),
                                 ls_human_duration((double)latest->p99_ns, p99, sizeof(p99)));
    (void)snprintf(out + used, bytes - used, "  errors %" PRIu64, latest->errors);
}

/* Cut to the terminal; returns its width. */
static unsigned cut(char *line, unsigned most)
{
    unsigned width = 0;

    for (char *c = line; *c != '\0'; c++) {
        if (((unsigned char)*c & 0xc0) == 0x80)
            continue;
        if (width == most) {
            *c = '\0';
            break;
        }
        width++;
    }
    return width;
}

static void draw(struct coord_progress *p, char lines[LINE_COUNT][LINE_MAX_BYTES])
{
    unsigned most = columns() - 1;

    clear_lines(p);
    for (unsigned i = 0; i < LINE_COUNT; i++) {
        const char *begin = i == LINE_AGENTS && p->agents_missing ? "\033[33m" : "\033[2m";

        if (lines[i][0] == '\0')
            continue;
        p->widths[p->shown] = cut(lines[i], most);
        (void)fprintf(stderr, "%s%s%s%s", p->shown > 0 ? "\n" : "", p->colour ? begin : "",
                      lines[i], p->colour ? "\033[0m" : "");
        p->shown++;
    }
    (void)fflush(stderr);
}

void coord_progress_update(struct coord_progress *progress, int64_t now_ns, const char *phase,
                           int64_t end_ns, const struct coord_merge_progress *latest)
{
    char lines[LINE_COUNT][LINE_MAX_BYTES] = { "" };
    char left[40] = "";
    bool changed;

    if (progress == NULL || progress->quiet)
        return;
    changed = strcmp(progress->phase, phase) != 0;
    if (now_ns < progress->next_ns && !(progress->live && changed))
        return;
    (void)snprintf(progress->phase, sizeof(progress->phase), "%s", phase);
    progress->next_ns = now_ns + (progress->live ? LIVE_NS : PLAIN_NS);
    if (end_ns > now_ns)
        (void)snprintf(left, sizeof(left), " %.0f s left", (double)(end_ns - now_ns) / 1e9);
    compose_figures(lines[LINE_FIGURES], sizeof(lines[LINE_FIGURES]), latest);
    if (!progress->live) {
        (void)fprintf(stderr, "%s  %s%s%s%s\n", progress->trial, phase, left,
                      lines[LINE_FIGURES][0] != '\0' ? "  " : "", lines[LINE_FIGURES]);
        return;
    }
    (void)snprintf(lines[LINE_TRIAL], sizeof(lines[LINE_TRIAL]), "%s %s", progress->trial, left);
    compose_phases(lines[LINE_PHASES], sizeof(lines[LINE_PHASES]), phase);
    (void)snprintf(lines[LINE_AGENTS], sizeof(lines[LINE_AGENTS]), "%s", progress->agents);
    (void)memcpy(lines[LINE_STRIP], progress->strip, sizeof(progress->strip));
    draw(progress, lines);
}

int64_t coord_progress_next_ns(const struct coord_progress *progress)
{
    return progress == NULL || progress->quiet ? INT64_MAX : progress->next_ns;
}
