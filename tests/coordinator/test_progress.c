/* What a run shows on a terminal, as the terminal has it: a pseudo-terminal and a small model of
 * its screen; and what goes into a file. */
#include "tests/support/test.h"

#include <fcntl.h>
#include <pty.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/clock.h"
#include "coordinator/run/progress.h"
#include "coordinator/web/live.h"
#include "tests/coordinator/sample_result.h"

enum { ROWS = 60, COLUMNS = 200 };

/* ---- a terminal: printable characters, \r, \n, cursor up, erase, colours; lines break at the edge
 */

struct screen {
    char cells[ROWS][COLUMNS + 1];
    unsigned row, column, width;
    bool pending; /* the last column is written; the next character goes to the next line */
    unsigned colours;
};

static void screen_init(struct screen *s, unsigned width)
{
    *s = (struct screen){ .width = width };
    for (unsigned r = 0; r < ROWS; r++)
        (void)memset(s->cells[r], ' ', COLUMNS);
}

static void erase_from(struct screen *s, bool below)
{
    for (unsigned c = s->column; c < s->width; c++)
        s->cells[s->row][c] = ' ';
    for (unsigned r = s->row + 1; below && r < ROWS; r++)
        (void)memset(s->cells[r], ' ', s->width);
}

static const char *escape(struct screen *s, const char *at)
{
    assert_int_equal(*at, '[');
    at += 1 + strspn(at + 1, "0123456789;");
    s->pending = false;
    switch (*at) {
    case 'A':
        assert_true(s->row > 0); /* never above what is ours */
        s->row--;
        break;
    case 'J':
        erase_from(s, true);
        break;
    case 'K':
        erase_from(s, false);
        break;
    case 'm':
        s->colours++;
        break;
    default:
        fail_msg("an escape that no terminal of this test knows: %c", *at);
    }
    return at + 1;
}

static void screen_feed(struct screen *s, const char *bytes)
{
    for (const char *at = bytes; *at != '\0';) {
        char c = *at++;

        if (c == '\033') {
            at = escape(s, at);
        } else if (c == '\r') {
            s->column = 0;
            s->pending = false;
        } else if (c == '\n') {
            s->row++;
            s->pending = false;
        } else {
            if (s->pending) {
                s->row++;
                s->column = 0;
                s->pending = false;
            }
            assert_true(s->row < ROWS && (unsigned char)c >= 0x20);
            s->cells[s->row][s->column] = c;
            if (s->column + 1 == s->width)
                s->pending = true;
            else
                s->column++;
        }
    }
}

/* The terminal gets narrower: what does not fit into a line goes on in the next. */
static void screen_narrow(struct screen *s, unsigned width)
{
    struct screen old = *s;

    screen_init(s, width);
    s->colours = old.colours;
    for (unsigned r = 0; r <= old.row; r++) {
        unsigned len = old.width;

        while (len > 0 && old.cells[r][len - 1] == ' ')
            len--;
        for (unsigned c = 0; c < len; c++) {
            if (c > 0 && c % width == 0)
                s->row++;
            s->cells[s->row][c % width] = old.cells[r][c];
            s->column = c % width + 1;
        }
        if (r < old.row)
            s->row++;
    }
    s->pending = s->column == width;
    s->column = s->column == width ? width - 1 : s->column;
}

static unsigned count_rows(const struct screen *s, const char *text)
{
    unsigned n = 0;

    for (unsigned r = 0; r < ROWS; r++)
        n += strstr(s->cells[r], text) != NULL;
    return n;
}

/* ---- a run that stands still, with its stderr in our hands */

struct rig {
    int master, slave, saved;
    struct screen screen;
    char all[1 << 16];
    size_t len;
};

static void set_width(struct rig *rig, unsigned width)
{
    struct winsize size = { .ws_row = 40, .ws_col = (unsigned short)width };

    assert_int_equal(ioctl(rig->master, TIOCSWINSZ, &size), 0);
}

static struct rig *open_rig(unsigned width)
{
    struct rig *rig = calloc(1, sizeof(*rig));

    assert_non_null(rig);
    assert_int_equal(openpty(&rig->master, &rig->slave, NULL, NULL, NULL), 0);
    set_width(rig, width);
    assert_int_equal(fcntl(rig->master, F_SETFL, O_NONBLOCK), 0);
    screen_init(&rig->screen, width);
    (void)setenv("TERM", "xterm", 1);
    (void)unsetenv("CI");
    (void)unsetenv("NO_COLOR");
    rig->saved = dup(STDERR_FILENO);
    (void)fflush(stderr);
    assert_true(dup2(rig->slave, STDERR_FILENO) >= 0);
    return rig;
}

/* What was written since, to the screen. The line discipline has made "\r\n" of "\n". */
static void look(struct rig *rig)
{
    char piece[4096];
    ssize_t n;

    (void)fflush(stderr);
    while ((n = read(rig->master, piece, sizeof(piece) - 1)) > 0) {
        piece[n] = '\0';
        assert_true(rig->len + (size_t)n < sizeof(rig->all));
        (void)memcpy(rig->all + rig->len, piece, (size_t)n);
        rig->len += (size_t)n;
        screen_feed(&rig->screen, piece);
    }
}

static void close_rig(struct rig *rig)
{
    (void)fflush(stderr);
    assert_true(dup2(rig->saved, STDERR_FILENO) >= 0);
    (void)close(rig->saved);
    (void)close(rig->slave);
    (void)close(rig->master);
    free(rig);
}

#define AGENT(name, role, state, error_ns)              \
    {                                                   \
        name, role, state, error_ns, -1, -1, -1, -1, -1 \
    }

static const struct coord_live_agent both[] = { AGENT("server", "server", "here", 30000),
                                                AGENT("client-1", "client", "here", 42000) };
static const struct coord_live_agent one_lost[] = { AGENT("server", "server", "here", 30000),
                                                    AGENT("client-1", "client", "lost", -1) };
static const struct coord_live_agent at_work[] = {
    { "server", "server", "here", 30000, -1, 0.98, -1, -1, 20 << 20 },
    { "client-1", "client", "here", 42000, 0.5, 0.4, 0.311, 25000, -1 },
    { "client-2", "client", "here", 43000, 0.5, 0.4, 0.299, 26000, -1 },
};
static const struct coord_merge_progress figures = {
    .length_ns = LS_NS_PER_S, .completed = 20000, .errors = 3, .p50_ns = 1200000, .p99_ns = 4500000
};

static void go_on(struct coord_progress *progress, int64_t now_ns, const char *phase)
{
    coord_progress_update(progress, now_ns, phase, now_ns + 12 * LS_NS_PER_S, &figures);
}

static void it_shows_trial_phases_figures_and_agents(void **state)
{
    struct rig *rig = open_rig(80);
    struct coord_progress *progress = coord_progress_create(false);

    (void)state;
    coord_progress_trial(progress, 3, 6, "node", "hello", 2);
    coord_progress_agents(progress, both, 2);
    for (int64_t i = 1; i <= 20; i++) {
        go_on(progress, i * LS_NS_PER_S, i < 5 ? "warmup" : "measure");
        look(rig); /* a frame at a time: no escape is cut in two */
    }
    assert_int_equal(rig->screen.row, 3); /* however often: four lines */
    assert_non_null(strstr(rig->screen.cells[0], "[3/6] node hello r2  12 s left"));
    assert_non_null(
        strstr(rig->screen.cells[1], "start preflight clocks arm warmup [measure] drain collect"));
    assert_non_null(strstr(rig->screen.cells[2], "20.0 k/s  p50 1.20 ms  p99 4.50 ms  errors 3"));
    assert_non_null(strstr(rig->screen.cells[3],
                           "agents: 2 of 2 here: server +- 30.0 us, client-1 +- 42.0 us"));
    assert_true(rig->screen.colours > 0);
    coord_progress_agents(progress, one_lost, 2);
    go_on(progress, 30 * LS_NS_PER_S, "measure");
    look(rig);
    assert_non_null(strstr(rig->screen.cells[3], "agents: 1 of 2 here, client-1 lost"));
    coord_progress_destroy(progress);
    look(rig);
    for (unsigned r = 0; r < ROWS; r++) /* and leaves nothing behind */
        assert_int_equal(strspn(rig->screen.cells[r], " "), COLUMNS);
    close_rig(rig);
}

/* Each of a few in 60 columns; of many, how far apart they are. */
static void agents_at_work_have_lines_of_their_own(void **state)
{
    struct coord_live_agent many[9];
    struct rig *rig = open_rig(60);
    struct coord_progress *progress = coord_progress_create(false);

    (void)state;
    coord_progress_trial(progress, 1, 2, "nginx", "hello", 1);
    coord_progress_agents(progress, at_work, 3);
    go_on(progress, LS_NS_PER_S, "measure");
    look(rig);
    assert_int_equal(rig->screen.row, 6);
    assert_non_null(strstr(rig->screen.cells[3], "agents: 3 of 3 here "));
    assert_non_null(strstr(rig->screen.cells[4], "  server    0.98 cores  20.0 MiB  +- 30.0 us "));
    assert_non_null(strstr(rig->screen.cells[5],
                           "  client-1  share 50.0 %  lag 25.0 us  CPU 31 %  +- 42.0 us"));
    coord_progress_agents(progress, both, 2); /* between trials */
    go_on(progress, 2 * LS_NS_PER_S, "arm");
    look(rig);
    assert_int_equal(rig->screen.row, 3);
    for (unsigned i = 0; i < LS_ARRAY_LEN(many); i++) {
        many[i] = at_work[1];
        many[i].share = 0.1 + i * 0.01;
    }
    many[4].name = "client-5";
    many[4].busiest = 0.93;
    coord_progress_agents(progress, many, LS_ARRAY_LEN(many));
    go_on(progress, 3 * LS_NS_PER_S, "measure");
    look(rig);
    assert_int_equal(rig->screen.row, 4);
    assert_non_null(
        strstr(rig->screen.cells[4], "  share 10.0 % to 18.0 %  lag to 25.0 us  CPU to 93 % (cli"));
    coord_progress_destroy(progress);
    close_rig(rig);
}

static void lines_that_stay_are_above_and_whole(void **state)
{
    struct rig *rig = open_rig(60);
    struct coord_progress *progress = coord_progress_create(false);

    (void)state;
    coord_progress_trial(progress, 1, 2, "nginx", "hello", 1);
    coord_progress_agents(progress, both, 2);
    for (int64_t i = 1; i <= 5; i++) {
        go_on(progress, i * LS_NS_PER_S, "measure");
        coord_progress_say(progress, "said %d", (int)i);
        look(rig);
    }
    go_on(progress, 9 * LS_NS_PER_S, "measure");
    look(rig);
    for (unsigned i = 0; i < 5; i++)
        assert_memory_equal(rig->screen.cells[i], "said ", 5);
    assert_int_equal(count_rows(&rig->screen, "[1/2]"), 1);
    assert_int_equal(count_rows(&rig->screen, "agents:"), 1);
    assert_int_equal(rig->screen.row, 8);
    coord_progress_destroy(progress);
    close_rig(rig);
}

static void a_resize_leaves_no_debris(void **state)
{
    static const unsigned widths[] = { 60, 40, 25, 100, 60 };
    struct rig *rig = open_rig(120);
    struct coord_progress *progress = coord_progress_create(false);

    (void)state;
    coord_progress_trial(progress, 1, 2, "a-target-with-a-long-name", "a-workload-with-one", 1);
    coord_progress_agents(progress, both, 2);
    go_on(progress, LS_NS_PER_S, "measure");
    look(rig);
    for (unsigned i = 0; i < LS_ARRAY_LEN(widths); i++) {
        set_width(rig, widths[i]);
        if (widths[i] < rig->screen.width)
            screen_narrow(&rig->screen, widths[i]);
        rig->screen.width = widths[i];
        go_on(progress, (int64_t)(i + 2) * LS_NS_PER_S, "measure");
        look(rig);
        assert_int_equal(rig->screen.row, 3);
        assert_int_equal(count_rows(&rig->screen, "[1/2]"), 1);
        assert_int_equal(count_rows(&rig->screen, "agents:"), 1);
    }
    coord_progress_destroy(progress);
    close_rig(rig);
}

static unsigned count(const char *text, const char *what)
{
    unsigned n = 0;

    for (const char *at = strstr(text, what); at != NULL; at = strstr(at + 1, what))
        n++;
    return n;
}

static void a_warning_is_said_once_and_each_trial_says_what_it_came_to(void **state)
{
    struct rig *rig = open_rig(200);
    struct coord_progress *progress = coord_progress_create(false);

    (void)state;
    for (uint32_t i = 1; i <= 6; i++) {
        Ls__Trial *trial =
            sample_trial(&(struct sample_trial){ i % 2 == 0 ? "node" : "nginx", "hello", i, 50000,
                                                 1.2, 9, 0, LS__VERDICT__VERDICT_SUSPECT });
        char text[80];

        (void)snprintf(text, sizeof(text), "other processes used %u %% of a CPU", 10 + i);
        sample_reason(trial, LS__VERDICT__VERDICT_SUSPECT, "foreign_cpu", text);
        coord_progress_trial(progress, i, 6, trial->target, trial->workload, i);
        coord_progress_reasons(progress, trial);
        coord_progress_done(progress, trial);
        ls__trial__free_unpacked(trial, NULL);
    }
    look(rig);
    assert_int_equal(count(rig->all, "other processes used"), 2); /* one of each target */
    assert_int_equal(count(rig->all, "suspect (foreign_cpu)  50.0 k/s  p50 1.20 ms"), 6);
    coord_progress_destroy(progress);
    close_rig(rig);
}

static void names_do_not_steer_the_terminal(void **state)
{
    struct rig *rig = open_rig(80);
    struct coord_progress *progress = coord_progress_create(false);
    const struct coord_live_agent odd[] = { { "\033[2J\x9b\nx", "client", "lost", -1, 1, 1, 1, 1,
                                              1 } };

    (void)state;
    coord_progress_trial(progress, 1, 2, "\033[31mred\a", "\xe2\x80\xae\r\nx", 1);
    coord_progress_agents(progress, odd, 1);
    go_on(progress, LS_NS_PER_S, "measure");
    coord_progress_say(progress, "%s", "\033]0;title\a");
    (void)fflush(stderr);
    look(rig); /* an escape that is not ours fails there */
    assert_null(strstr(rig->all, "\033[31mred"));
    assert_null(strchr(rig->all, '\a'));
    coord_progress_destroy(progress);
    close_rig(rig);
}

static void dumb_terminals_and_files_get_plain_lines(void **state)
{
    struct rig *rig = open_rig(80);
    struct coord_progress *progress;

    (void)state;
    (void)setenv("TERM", "dumb", 1);
    progress = coord_progress_create(false);
    coord_progress_trial(progress, 1, 2, "nginx", "hello", 1);
    coord_progress_agents(progress, both, 2);
    for (int64_t i = 0; i < 40; i++)
        go_on(progress, i * LS_NS_PER_S / 10, "measure");
    look(rig);
    assert_null(strchr(rig->all, '\033'));
    assert_int_equal(count(rig->all, "\n"), 4); /* a line a second */
    assert_int_equal(count(rig->all, "[1/2] nginx hello r1  measure 12 s left  20.0 k/s"), 4);
    coord_progress_destroy(progress);
    progress = coord_progress_create(true);
    rig->len = 0;
    (void)memset(rig->all, 0, sizeof(rig->all));
    coord_progress_trial(progress, 1, 2, "nginx", "hello", 1);
    go_on(progress, 100 * LS_NS_PER_S, "measure");
    coord_progress_note(progress, "not when quiet");
    look(rig);
    assert_int_equal(rig->len, 0);
    coord_progress_destroy(progress);
    close_rig(rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_shows_trial_phases_figures_and_agents),
        cmocka_unit_test(agents_at_work_have_lines_of_their_own),
        cmocka_unit_test(lines_that_stay_are_above_and_whole),
        cmocka_unit_test(a_resize_leaves_no_debris),
        cmocka_unit_test(a_warning_is_said_once_and_each_trial_says_what_it_came_to),
        cmocka_unit_test(names_do_not_steer_the_terminal),
        cmocka_unit_test(dumb_terminals_and_files_get_plain_lines),
    };

    return cmocka_run_group_tests_name("coordinator.progress", tests, NULL, NULL);
}
