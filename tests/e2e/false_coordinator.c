/* A coordinator that sends what no coordinator of ours would: for the cases about policies.
 *
 *   false_coordinator [--file NAME=PATH ...] [--victim PORT] [--arm NS] PREPARE.yaml
 *
 * Listens on a loopback port ("listening tcp://..."), takes the first agent that comes, sends it
 * the files and then PREPARE as the file says it, unchecked; a files[].sha256 of "@NAME" becomes
 * that file's digest. If the agent gets ready, it is armed for a load of NS. What the agent says is
 * printed; with its first failure, or its end, the trial is over. PORT is listened on: "victim: N"
 * says in the end how many connections came. Exit status 0, or 1 if nothing happens for 20 s. */
#include <arpa/inet.h>
#include <errno.h>
#include <ev.h>
#include <fcntl.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/digest.h"
#include "common/fs.h"
#include "common/msg_yaml.h"
#include "common/pb.h"
#include "common/transport.h"

#define FILES_MAX   8
#define PIECE_BYTES (256u << 10)
#define PATIENCE_S  20.
#define LEAD_NS     (500 * LS_NS_PER_MS)

struct shipped {
    char *name; /* points into argv */
    char *data; /* owned */
    size_t len;
    char sha256[LS_SHA256_HEX];
};

static struct {
    struct ev_loop *loop;
    struct ls_listener *listener;
    struct ls_peer *peer;
    Ls__Prepare *prepare;
    struct shipped files[FILES_MAX];
    unsigned file_count;
    int64_t arm_ns;
    int victim_fd;
    unsigned victims;
    bool over;
    bool said_bye;
    bool done;
} job = { .arm_ns = 200 * LS_NS_PER_MS, .victim_fd = -1 };

static _Noreturn void die(const char *what, const char *why)
{
    (void)fprintf(stderr, "false_coordinator: %s: %s\n", what, why);
    exit(2);
}

/* ---- commands */

static void command(Ls__Envelope__BodyCase kind, void *body)
{
    Ls__Envelope envelope = LS__ENVELOPE__INIT;
    struct ls_diag diag = { 0 };

    envelope.body_case = kind;
    envelope.prepare = body; /* every member of the union is a pointer */
    if (ls_peer_command(job.peer, &envelope, &diag) != LS_OK)
        die("command", diag.text);
}

static void send_file(const struct shipped *file)
{
    size_t at = 0;

    do {
        Ls__PutFile piece = LS__PUT_FILE__INIT;
        size_t n = file->len - at < PIECE_BYTES ? file->len - at : PIECE_BYTES;

        piece.sha256 = ls_pb_text(file->sha256);
        piece.offset = at;
        piece.data.data = (unsigned char *)file->data + at;
        piece.data.len = n;
        at += n;
        piece.last = at == file->len;
        command(LS__ENVELOPE__BODY_PUT_FILE, &piece);
    } while (at < file->len);
}

static void arm(void)
{
    Ls__Arm body = LS__ARM__INIT;

    body.trial = job.prepare->trial;
    body.attempt = 1;
    body.start_ns = ls_clock_mono_ns() + LEAD_NS; /* the same clock: it is the same host */
    body.measure_ns = job.arm_ns;
    body.drain_ns = LS_NS_PER_S;
    body.interval_ns = LS_NS_PER_S;
    command(LS__ENVELOPE__BODY_ARM, &body);
}

static void collect(void)
{
    Ls__Collect body = LS__COLLECT__INIT;

    if (job.over)
        return;
    job.over = true;
    body.trial = job.prepare->trial;
    command(LS__ENVELOPE__BODY_COLLECT, &body);
}

/* ---- what the agent says */

static enum ls_err on_enrol(void *ctx, struct ls_peer *peer, const Ls__Hello *hello, void **out_ctx,
                            struct ls_diag *diag)
{
    (void)ctx;
    if (job.peer != NULL)
        return ls_fail(diag, LS_ESTATE, "one agent is enough");
    job.peer = peer;
    *out_ctx = peer;
    (void)printf("agent %s, %zu programs\n", hello->agent,
                 hello->limits != NULL ? hello->limits->n_programs : 0);
    return LS_OK;
}

static void on_up(void *ctx, void *peer_ctx)
{
    static bool sent;

    (void)ctx;
    (void)peer_ctx;
    if (sent)
        return;
    sent = true;
    for (unsigned i = 0; i < job.file_count; i++)
        send_file(&job.files[i]);
    command(LS__ENVELOPE__BODY_PREPARE, job.prepare);
}

static void on_down(void *ctx, void *peer_ctx, const char *why)
{
    (void)ctx;
    (void)peer_ctx;
    (void)printf("down %s\n", why);
    job.done = true;
}

static void on_phase(const Ls__PhaseReport *phase)
{
    (void)printf("phase %s\n", protobuf_c_enum_descriptor_get_value(&ls__agent_phase__descriptor,
                                                                    (int)phase->phase)
                                       ->name +
                                   strlen("AGENT_PHASE_"));
    if (phase->failure != NULL) {
        (void)printf("failure %s: %s\n", phase->failure->code, phase->failure->text);
        collect();
    } else if (phase->phase == LS__AGENT_PHASE__AGENT_PHASE_READY) {
        arm();
    } else if (phase->phase == LS__AGENT_PHASE__AGENT_PHASE_DRAIN) {
        collect();
    } else if (phase->phase == LS__AGENT_PHASE__AGENT_PHASE_IDLE && !job.said_bye) {
        Ls__Bye bye = LS__BYE__INIT;

        job.said_bye = true;
        command(LS__ENVELOPE__BODY_BYE, &bye);
    }
}

static void on_taken(void *ctx, void *peer_ctx)
{
    (void)ctx;
    (void)peer_ctx;
    job.done |= job.said_bye;
}

static enum ls_err on_report(void *ctx, void *peer_ctx, const Ls__Envelope *report)
{
    (void)ctx;
    (void)peer_ctx;
    if (report->body_case == LS__ENVELOPE__BODY_PHASE)
        on_phase(report->phase);
    else if (report->body_case == LS__ENVELOPE__BODY_TARGET_LOG)
        (void)printf("log %.*s\n", (int)report->target_log->data.len,
                     (const char *)report->target_log->data.data);
    else if (report->body_case == LS__ENVELOPE__BODY_CLIENT)
        (void)printf("sent %" PRIu64 "\n", report->client->measure->sent);
    return LS_OK;
}

static void on_clock(void *ctx, void *peer_ctx, int64_t sent_ns, int64_t peer_received_ns,
                     int64_t peer_replied_ns, int64_t received_ns)
{
    (void)ctx;
    (void)peer_ctx;
    (void)sent_ns;
    (void)peer_received_ns;
    (void)peer_replied_ns;
    (void)received_ns;
}

/* ---- the job */

static void on_victim(struct ev_loop *loop, ev_io *w, int events)
{
    int fd = accept4(w->fd, NULL, NULL, SOCK_CLOEXEC);

    (void)loop;
    (void)events;
    if (fd < 0)
        return;
    job.victims++;
    (void)close(fd);
}

static void listen_as_victim(const char *port)
{
    struct sockaddr_in in = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };

    in.sin_port = htons((uint16_t)strtoul(port, NULL, 10));
    job.victim_fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (job.victim_fd < 0 || bind(job.victim_fd, (struct sockaddr *)&in, sizeof(in)) < 0 ||
        listen(job.victim_fd, 100) < 0)
        die("victim", strerror(errno));
}

static void add_file(char *word)
{
    struct shipped *file = &job.files[job.file_count];
    char *equals = strchr(word, '=');
    struct ls_diag diag;

    if (equals == NULL || job.file_count == FILES_MAX)
        die("--file", word);
    *equals = '\0';
    file->name = word;
    if (ls_fs_read(equals + 1, 256u << 20, &file->data, &file->len, &diag) != LS_OK)
        die("--file", diag.text);
    ls_sha256_hex((struct ls_bytes){ (unsigned char *)file->data, file->len }, file->sha256);
    job.file_count++;
}

static void read_prepare(const char *path)
{
    ProtobufCMessage *message = NULL;
    struct ls_marks *marks = NULL;
    struct ls_issues issues;
    struct ls_diag diag;
    char *text;
    size_t len;

    if (ls_fs_read(path, 1u << 20, &text, &len, &diag) != LS_OK)
        die(path, diag.text);
    ls_issues_init(&issues, path);
    if (ls_msg_from_yaml(&ls__prepare__descriptor,
                         (struct ls_bytes){ (const unsigned char *)text, len }, &issues, &message,
                         &marks) != LS_OK)
        die(path, ls_issues_format(&issues));
    ls_issues_fini(&issues);
    ls_marks_destroy(marks);
    free(text);
    job.prepare = (Ls__Prepare *)message;
    for (size_t i = 0; i < job.prepare->n_files; i++) {
        Ls__FileRef *ref = job.prepare->files[i];

        for (unsigned k = 0; ref->sha256[0] == '@' && k < job.file_count; k++) {
            if (strcmp(ref->sha256 + 1, job.files[k].name) != 0)
                continue;
            free(ref->sha256);
            ref->sha256 = strdup(job.files[k].sha256);
            if (ref->bytes == 0)
                ref->bytes = job.files[k].len;
        }
    }
}

static void on_patience(struct ev_loop *loop, ev_timer *w, int events)
{
    (void)w;
    (void)events;
    (void)printf("nothing happens\n");
    ev_break(loop, EVBREAK_ALL);
}

static void serve(void)
{
    static const struct ls_listener_env env = { .enrol = on_enrol,
                                                .up = on_up,
                                                .down = on_down,
                                                .report = on_report,
                                                .taken = on_taken,
                                                .clock = on_clock };
    const struct ls_listener_options options = { .url = "tcp://127.0.0.1:0", .run_id = "false" };
    struct ls_diag diag;
    ev_timer patience;
    ev_io victim;

    if (ls_listener_create(job.loop, &options, &env, &job.listener, &diag) != LS_OK)
        die("listen", diag.text);
    (void)printf("listening %s\n", ls_listener_url(job.listener));
    ev_timer_init(&patience, on_patience, PATIENCE_S, 0.);
    ev_timer_start(job.loop, &patience);
    if (job.victim_fd >= 0) {
        ev_io_init(&victim, on_victim, job.victim_fd, EV_READ);
        ev_io_start(job.loop, &victim);
    }
    while (!job.done && ev_is_active(&patience))
        ev_run(job.loop, EVRUN_ONCE);
}

int main(int argc, char **argv)
{
    int i = 1;

    (void)signal(SIGPIPE, SIG_IGN);
    (void)setvbuf(stdout, NULL, _IOLBF, 0);
    for (; i + 1 < argc && strncmp(argv[i], "--", 2) == 0; i += 2) {
        if (strcmp(argv[i], "--file") == 0)
            add_file(argv[i + 1]);
        else if (strcmp(argv[i], "--victim") == 0)
            listen_as_victim(argv[i + 1]);
        else if (strcmp(argv[i], "--arm") == 0)
            job.arm_ns = strtoll(argv[i + 1], NULL, 10);
        else
            die("option", argv[i]);
    }
    if (i + 1 != argc)
        die("usage",
            "false_coordinator [--file NAME=PATH] [--victim PORT] [--arm NS] PREPARE.yaml");
    read_prepare(argv[i]);
    job.loop = ev_loop_new(EVFLAG_AUTO);
    serve();
    if (job.victim_fd >= 0)
        (void)printf("victim: %u\n", job.victims);
    ls_listener_destroy(job.listener);
    ls_transport_fini();
    ls__prepare__free_unpacked(job.prepare, NULL);
    for (unsigned k = 0; k < job.file_count; k++)
        free(job.files[k].data);
    ev_loop_destroy(job.loop);
    return job.done ? 0 : 1;
}
