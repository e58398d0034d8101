/* lockstep metrics DIR: a result for Prometheus, once on stdout or again and again over HTTP. */
#include <dirent.h>
#include <limits.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "common/clock.h"
#include "common/options.h"
#include "coordinator/cli.h"
#include "coordinator/result/store.h"
#include "coordinator/result/store_paths.h"
#include "coordinator/web/metrics.h"

#define LOOK_AGAIN_NS LS_NS_PER_S

struct arguments {
    const char *listen;
    bool help;
};

static const struct ls_option rows[] = {
    { "listen", 0, LS_OPTION_TEXT, offsetof(struct arguments, listen), "ADDRESS", NULL, 1, 0,
      "serve them at http://ADDRESS/metrics until INT or TERM: a port, or ADDRESS:PORT" },
    { "help", 'h', LS_OPTION_FLAG, offsetof(struct arguments, help), NULL, NULL, 1, 0,
      "this text" },
};

static bool written_at(const char *dir, struct timespec *out)
{
    char path[PATH_MAX];
    struct stat st;

    if (coord_path(dir, COORD_RESULT_FILE, path, NULL) != LS_OK || stat(path, &st) != 0)
        return false;
    *out = st.st_mtim;
    return true;
}

static bool is_newer(const struct timespec *a, const struct timespec *b)
{
    return a->tv_sec > b->tv_sec || (a->tv_sec == b->tv_sec && a->tv_nsec > b->tv_nsec);
}

/* The folder itself if it is a result, else the newest one in it. False: there is none. */
static bool find_result(const char *dir, char *out, struct timespec *out_when)
{
    struct timespec when;
    char path[PATH_MAX];
    bool found = false;
    DIR *handle;

    if (written_at(dir, out_when))
        return snprintf(out, PATH_MAX, "%s", dir) < PATH_MAX;
    handle = opendir(dir);
    if (handle == NULL)
        return false;
    for (struct dirent *entry = readdir(handle); entry != NULL; entry = readdir(handle)) {
        if (entry->d_name[0] == '.' || coord_path(dir, entry->d_name, path, NULL) != LS_OK ||
            !written_at(path, &when) || (found && !is_newer(&when, out_when)))
            continue;
        found = true;
        *out_when = when;
        (void)memcpy(out, path, sizeof(path));
    }
    (void)closedir(handle);
    return found;
}

/* The text of the result that is there now. LS_EINVAL: there is none. */
static enum ls_err read_text(const char *dir, struct timespec *out_when, struct ls_buf *out,
                             struct ls_diag *diag)
{
    Ls__Result *result = NULL;
    char path[PATH_MAX];
    enum ls_err rc = LS_OK;

    ls_buf_reset(out);
    if (!find_result(dir, path, out_when))
        rc = ls_fail(diag, LS_EINVAL, "%.200s is no result, and has none in it", dir);
    if (rc == LS_OK)
        rc = coord_store_load(path, &result, diag);
    if (rc == LS_OK)
        rc = coord_metrics_text(result, NULL, out, diag);
    if (result != NULL)
        ls__result__free_unpacked(result, NULL);
    return rc;
}

static int print(const char *dir)
{
    struct ls_diag diag = { 0 };
    struct timespec unused;
    struct ls_buf text;
    int status;

    ls_buf_init(&text, COORD_METRICS_MAX);
    status = read_text(dir, &unused, &text, &diag) == LS_OK
                 ? coord_cli_put(&text, COORD_EXIT_OK)
                 : coord_cli_fail(false, COORD_EXIT_USAGE, diag.text);
    ls_buf_fini(&text);
    return status;
}

/* What is on the disk is looked at once a second, and read again when it is another one. A result
 * that cannot be read is told, and the one before it stays. */
static void serve_until_told(const char *dir, struct coord_metrics *metrics, const sigset_t *ends)
{
    const struct timespec pause = { .tv_sec = LOOK_AGAIN_NS / LS_NS_PER_S };
    struct timespec shown = { 0 }, when;
    char path[PATH_MAX];
    struct ls_buf text;

    ls_buf_init(&text, COORD_METRICS_MAX);
    do {
        struct ls_diag diag = { 0 };

        if (!find_result(dir, path, &when) || !is_newer(&when, &shown))
            continue;
        shown = when;
        if (read_text(dir, &when, &text, &diag) == LS_OK)
            coord_metrics_publish(metrics, (struct ls_bytes){ text.data, text.len });
        else
            (void)fprintf(stderr, "lockstep: %s\n", diag.text);
    } while (sigtimedwait(ends, NULL, &pause) < 0);
    ls_buf_fini(&text);
}

static int serve(const char *dir, const char *address)
{
    struct coord_metrics *metrics = NULL;
    struct ls_diag diag = { 0 };
    sigset_t ends;

    (void)sigemptyset(&ends);
    (void)sigaddset(&ends, SIGINT);
    (void)sigaddset(&ends, SIGTERM);
    (void)sigprocmask(SIG_BLOCK, &ends, NULL); /* for the server's thread, too */
    if (coord_metrics_start(address, &metrics, &diag) != LS_OK)
        return coord_cli_fail(false, COORD_EXIT_USAGE, diag.text);
    (void)printf("%s\n", coord_metrics_url(metrics));
    (void)fflush(stdout);
    serve_until_told(dir, metrics, &ends);
    coord_metrics_stop(metrics);
    return COORD_EXIT_OK;
}

int coord_cmd_metrics(int argc, char **argv)
{
    struct arguments args = { 0 };
    struct ls_diag diag = { 0 };
    const char *dir = NULL;
    size_t plain = 0;

    if (ls_options_parse(rows, LS_ARRAY_LEN(rows), argc, argv, &args, &dir, 1, &plain, &diag) !=
        LS_OK)
        return coord_cli_fail(false, COORD_EXIT_USAGE, diag.text);
    if (args.help) {
        (void)printf("usage: lockstep metrics DIR [--listen ADDRESS]\n\n"
                     "Figures of a result, or of the newest one in DIR, as Prometheus reads "
                     "them.\n\n");
        ls_options_help(rows, LS_ARRAY_LEN(rows), stdout);
        return COORD_EXIT_OK;
    }
    if (plain == 0)
        return coord_cli_fail(false, COORD_EXIT_USAGE,
                              "metrics: DIR is missing: which result folder?");
    return args.listen != NULL ? serve(dir, args.listen) : print(dir);
}
