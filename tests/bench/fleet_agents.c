#include "tests/bench/fleet_agents.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/buf.h"
#include "common/clock.h"
#include "common/hist_codec.h"
#include "common/pb.h"
#include "common/phase.h"
#include "common/rng.h"
#include "common/series.h"
#include "common/transport_impl.h"
#include "coordinator/pki/authority.h"
#include "coordinator/pki/keys_folder.h"
#include "coordinator/result/message.h"
#include "proto/wire.pb-c.h"

#define DAY_S        INT64_C(86400)
#define SHAKING_MAX  32u /* connections that are being made at a time */
#define VARIANTS     16u /* different intervals, handed out in turn */
#define REPORT_BYTES 8192u
#define READ_BYTES   16384u
#define EVENTS_MAX   256
#define HEARTBEAT_NS LS_NS_PER_S
#define SIMULATED    3u /* series of an interval */
#define MEDIAN_NS    1e6
#define SIGMA        0.35

struct agent {
    struct fleet *fleet;
    SSL *ssl;          /* owned */
    X509 *certificate; /* owned, as the key */
    EVP_PKEY *key;
    int fd;
    uint32_t index;
    char name[24];
    bool shaking;
    bool welcome; /* has a session */
    bool left;
    bool gone;
    bool writing;  /* epoll looks for room */
    uint64_t said; /* number of the last report */
    uint64_t acked;
    uint64_t taken; /* number of the last command */
    uint64_t armed; /* the report that says so; 0: it is not */
    uint32_t trial;
    uint32_t attempt;
    int64_t start_ns;
    int64_t spoke_ns;
    struct ls_buf in;
    struct ls_buf out;
    size_t out_done;
};

struct fleet {
    struct agent *agents; /* owned */
    uint32_t count;
    uint32_t seconds;
    struct coord_authority *authority; /* owned */
    SSL_CTX *ctx;                      /* owned */
    int epoll_fd;
    uint16_t port; /* 0: nobody dials yet */
    uint32_t dialled;
    uint32_t shaking;
    bool ending;
    bool ended;
    int64_t pinged_ns;
    char run_id[LS_NAME_MAX_BYTES + 1];
    Ls__Series series[VARIANTS][SIMULATED]; /* histograms owned */
    struct fleet_state state;
};

static int64_t seconds_ns(uint32_t seconds)
{
    return seconds * LS_NS_PER_S;
}

static void trouble(struct fleet *f, const struct agent *a, const char *what)
{
    if (f->state.trouble[0] == '\0')
        (void)snprintf(f->state.trouble, sizeof(f->state.trouble), "%s, %s: %.140s", a->name,
                       a->ssl == NULL || !SSL_is_init_finished(a->ssl) ? "in its handshake"
                       : a->welcome                                    ? "in its session"
                                                                       : "after its handshake",
                       what);
}

/* ---- bytes */

static void drop(struct agent *a, const char *why)
{
    struct fleet *f = a->fleet;

    if (a->gone)
        return;
    a->gone = true;
    if (a->shaking)
        f->shaking--;
    a->shaking = false;
    if (!a->left) {
        f->state.lost++;
        trouble(f, a, why);
    }
    (void)epoll_ctl(f->epoll_fd, EPOLL_CTL_DEL, a->fd, NULL);
    (void)close(a->fd);
    a->fd = -1;
}

static void want(struct agent *a, bool write)
{
    struct epoll_event event = { .events = EPOLLIN | (write ? (uint32_t)EPOLLOUT : 0),
                                 .data.ptr = a };

    if (a->writing == write || a->gone)
        return;
    a->writing = write;
    (void)epoll_ctl(a->fleet->epoll_fd, EPOLL_CTL_MOD, a->fd, &event);
}

/* True: it is to be tried again when the socket allows it. */
static bool would_block(struct agent *a, int result)
{
    int error = SSL_get_error(a->ssl, result);

    if (error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE)
        return true;
    drop(a, error == SSL_ERROR_ZERO_RETURN ? "the coordinator closed the connection"
                                           : "the connection is broken");
    return false;
}

static void flush(struct agent *a)
{
    while (!a->gone && !a->shaking && a->out_done < a->out.len) {
        size_t n = 0;
        int result = SSL_write_ex(a->ssl, a->out.data + a->out_done, a->out.len - a->out_done, &n);

        if (result != 1) {
            if (would_block(a, result))
                want(a, true);
            return;
        }
        a->out_done += n;
    }
    if (a->gone)
        return;
    a->out.len = 0;
    a->out_done = 0;
    want(a, false);
}

static void put(struct agent *a, Ls__Envelope *envelope)
{
    size_t size;
    unsigned char head[LS_FRAME_HEAD];
    unsigned char *packed;

    envelope->version = LS_WIRE_VERSION;
    size = ls__envelope__get_packed_size(envelope);
    packed = malloc(size + 1);
    if (packed == NULL) {
        drop(a, "out of memory");
        return;
    }
    for (unsigned i = 0; i < LS_FRAME_HEAD; i++)
        head[i] = (unsigned char)(size >> (8 * i));
    (void)ls__envelope__pack(envelope, packed);
    ls_buf_add(&a->out, head, sizeof(head));
    ls_buf_add(&a->out, packed, size);
    free(packed);
    a->spoke_ns = ls_clock_mono_ns();
    if (!a->out.ok)
        drop(a, "out of memory");
}

static Ls__Envelope envelope_of(struct agent *a, Ls__Envelope__BodyCase body)
{
    Ls__Envelope envelope = LS__ENVELOPE__INIT;

    envelope.run_id = a->fleet->run_id;
    envelope.body_case = body;
    if (ls_body_kind(body) == LS_BODY_REPORT)
        envelope.seq = ++a->said;
    return envelope;
}

/* ---- what an agent says */

static void say_hello(struct agent *a)
{
    Ls__Envelope envelope = LS__ENVELOPE__INIT;
    Ls__Hello hello = LS__HELLO__INIT;
    Ls__Facts facts = LS__FACTS__INIT;
    char *cores[] = { ls_pb_text("0") };

    facts.cpus_allowed = cores[0];
    facts.hostname = a->name;
    hello.agent = a->name;
    hello.role = LS__ROLE__ROLE_CLIENT;
    hello.boot_id = a->name;
    hello.next_seq = 1;
    hello.software = ls_pb_text("lockstep " LS_VERSION);
    hello.pid = (uint32_t)getpid();
    hello.facts = &facts;
    hello.cores = cores;
    hello.n_cores = 1;
    envelope.body_case = LS__ENVELOPE__BODY_HELLO;
    envelope.hello = &hello;
    put(a, &envelope);
}

static void say_phase(struct agent *a, Ls__AgentPhase phase)
{
    Ls__Envelope envelope = envelope_of(a, LS__ENVELOPE__BODY_PHASE);
    Ls__PhaseReport report = LS__PHASE_REPORT__INIT;
    Ls__Requests preflight = LS__REQUESTS__INIT;

    report.trial = a->trial;
    report.phase = phase;
    report.at_ns = ls_clock_mono_ns();
    report.attempt = a->attempt;
    if (phase == LS__AGENT_PHASE__AGENT_PHASE_READY) {
        report.preflight = &preflight;
        report.cpus = ls_pb_text("0");
        report.io = ls_pb_text("libev");
    }
    envelope.phase = &report;
    put(a, &envelope);
}

static void count(Ls__Requests *out, uint64_t requests)
{
    ls__requests__init(out);
    out->scheduled = out->sent = out->ok = requests;
}

static void say_interval(struct agent *a, uint32_t index)
{
    Ls__Series *const all = a->fleet->series[(a->index + index) % VARIANTS];
    Ls__Series *series[SIMULATED];
    Ls__Envelope envelope = envelope_of(a, LS__ENVELOPE__BODY_INTERVAL);
    Ls__IntervalReport report = LS__INTERVAL_REPORT__INIT;
    Ls__WorkerHealth health = LS__WORKER_HEALTH__INIT;
    Ls__WorkerHealth *workers[] = { &health };
    Ls__Requests measure;

    for (unsigned i = 0; i < SIMULATED; i++)
        series[i] = &all[i];
    count(&measure, FLEET_REQUESTS);
    health.cpu_ns = LS_NS_PER_S / 2;
    health.window_ns = LS_NS_PER_S;
    report.trial = a->trial;
    report.index = index;
    report.start_ns = a->start_ns + seconds_ns(index);
    report.length_ns = LS_NS_PER_S;
    report.measure = &measure;
    report.ok_in_window = FLEET_REQUESTS;
    report.bytes_in = report.bytes_out = 100 * FLEET_REQUESTS;
    report.in_flight_ns = LS_NS_PER_S / 2;
    report.workers = workers;
    report.n_workers = 1;
    report.series = series;
    report.n_series = SIMULATED;
    envelope.interval = &report;
    a->fleet->state.report_bytes = (uint32_t)ls__envelope__get_packed_size(&envelope);
    put(a, &envelope);
}

static void say_totals(struct agent *a)
{
    uint32_t n = a->fleet->seconds;
    Ls__Envelope envelope = envelope_of(a, LS__ENVELOPE__BODY_CLIENT);
    Ls__ClientReport report = LS__CLIENT_REPORT__INIT;
    Ls__Connections connections = LS__CONNECTIONS__INIT;
    Ls__Requests preflight = LS__REQUESTS__INIT, warmup = LS__REQUESTS__INIT, measure;

    count(&measure, (uint64_t)n * FLEET_REQUESTS);
    connections.asked = connections.opened = connections.peak = 1;
    report.trial = a->trial;
    report.preflight = &preflight;
    report.warmup = &warmup;
    report.measure = &measure;
    report.ok_in_window = measure.ok;
    report.connections = &connections;
    report.started_ns = report.started_first_ns = a->start_ns;
    report.ended_ns = a->start_ns + seconds_ns(n);
    report.intervals = n;
    report.in_flight_ns = seconds_ns(n) / 2;
    report.bytes_in = report.bytes_out = 100 * measure.ok;
    envelope.client = &report;
    put(a, &envelope);
}

static void say_ack(struct agent *a)
{
    Ls__Envelope envelope = envelope_of(a, LS__ENVELOPE__BODY_ACK);
    Ls__Ack ack = LS__ACK__INIT;

    ack.seq = a->taken;
    envelope.ack = &ack;
    put(a, &envelope);
}

/* ---- what it hears */

static void answer_clock(struct agent *a, const Ls__ClockProbe *probe)
{
    Ls__Envelope envelope = envelope_of(a, LS__ENVELOPE__BODY_CLOCK_REPLY);
    Ls__ClockReply reply = LS__CLOCK_REPLY__INIT;

    reply.id = probe->id;
    reply.probe_sent_ns = probe->sent_ns;
    reply.received_ns = reply.replied_ns = ls_clock_mono_ns();
    envelope.clock_reply = &reply;
    a->fleet->state.probes++;
    put(a, &envelope);
}

static void on_arm(struct agent *a, const Ls__Arm *arm)
{
    struct fleet_state *state = &a->fleet->state;

    a->attempt = arm->attempt;
    a->start_ns = arm->start_ns;
    if (arm->attempt > state->attempts)
        state->attempts = arm->attempt;
    say_phase(a, LS__AGENT_PHASE__AGENT_PHASE_ARM);
    say_phase(a, LS__AGENT_PHASE__AGENT_PHASE_ARMED);
    a->armed = a->said;
}

static void on_command(struct agent *a, const Ls__Envelope *command)
{
    struct fleet_state *state = &a->fleet->state;

    switch (command->body_case) {
    case LS__ENVELOPE__BODY_PREPARE:
        if (state->asked_ns == 0)
            state->asked_ns = ls_clock_mono_ns();
        a->trial = command->prepare->trial;
        say_phase(a, LS__AGENT_PHASE__AGENT_PHASE_PREPARE);
        say_phase(a, LS__AGENT_PHASE__AGENT_PHASE_READY);
        break;
    case LS__ENVELOPE__BODY_ARM:
        on_arm(a, command->arm);
        break;
    case LS__ENVELOPE__BODY_DISARM:
        a->armed = 0;
        say_phase(a, LS__AGENT_PHASE__AGENT_PHASE_READY);
        break;
    case LS__ENVELOPE__BODY_ABORT:
        trouble(a->fleet, a, command->abort->why);
        say_phase(a, LS__AGENT_PHASE__AGENT_PHASE_COLLECT);
        say_phase(a, LS__AGENT_PHASE__AGENT_PHASE_IDLE);
        break;
    case LS__ENVELOPE__BODY_BYE:
        a->left = true;
        state->left++;
        break;
    default:
        break; /* files, and where to knock: not of interest here */
    }
}

static void on_envelope(struct agent *a, const Ls__Envelope *envelope)
{
    struct fleet *f = a->fleet;

    switch (envelope->body_case) {
    case LS__ENVELOPE__BODY_WELCOME:
        (void)snprintf(f->run_id, sizeof(f->run_id), "%s", envelope->run_id);
        a->welcome = true;
        f->state.welcomed++;
        break;
    case LS__ENVELOPE__BODY_REFUSE:
        drop(a, envelope->refuse->text);
        break;
    case LS__ENVELOPE__BODY_ACK:
        a->acked = envelope->ack->seq;
        break;
    case LS__ENVELOPE__BODY_CLOCK_PROBE:
        answer_clock(a, envelope->clock_probe);
        break;
    default:
        break;
    }
    if (ls_body_kind(envelope->body_case) != LS_BODY_COMMAND || envelope->seq <= a->taken)
        return;
    a->taken = envelope->seq;
    on_command(a, envelope);
    say_ack(a);
}

static void split(struct agent *a)
{
    size_t done = 0;

    while (!a->gone) {
        struct ls_bytes left = { a->in.data + done, a->in.len - done };
        struct ls_bytes bytes;
        Ls__Envelope *envelope;
        size_t need = 0;
        enum ls_err rc = ls_frame_next(left, LS_FRAME_MAX_FROM_COORD, &bytes, &need, NULL);

        if (rc == LS_EAGAIN)
            break;
        envelope = rc == LS_OK ? ls__envelope__unpack(NULL, bytes.len, bytes.data) : NULL;
        if (envelope == NULL) {
            drop(a, "a frame that makes no sense");
            return;
        }
        on_envelope(a, envelope);
        ls__envelope__free_unpacked(envelope, NULL);
        done += need;
    }
    a->in.len -= done;
    if (done > 0 && a->in.len > 0)
        memmove(a->in.data, a->in.data + done, a->in.len);
}

static void receive(struct agent *a)
{
    unsigned char bytes[READ_BYTES];
    size_t n;

    while (!a->gone) {
        int result = SSL_read_ex(a->ssl, bytes, sizeof(bytes), &n);

        if (result != 1) {
            (void)would_block(a, result);
            return;
        }
        ls_buf_add(&a->in, bytes, n);
        split(a);
    }
}

/* ---- connections */

static void shake(struct agent *a)
{
    int result = SSL_do_handshake(a->ssl);

    if (result != 1) {
        (void)would_block(a, result);
        return;
    }
    a->shaking = false;
    a->fleet->shaking--;
    say_hello(a);
}

static void on_event(struct agent *a)
{
    if (a->gone)
        return;
    if (a->shaking)
        shake(a);
    if (!a->shaking && !a->gone)
        receive(a);
    flush(a);
}

static bool begin_tls(struct agent *a)
{
    a->ssl = SSL_new(a->fleet->ctx);
    if (a->ssl == NULL || SSL_use_certificate(a->ssl, a->certificate) != 1 ||
        SSL_use_PrivateKey(a->ssl, a->key) != 1 || SSL_set_fd(a->ssl, a->fd) != 1)
        return false;
    SSL_set_connect_state(a->ssl);
    return true;
}

static void dial(struct agent *a)
{
    struct fleet *f = a->fleet;
    const struct sockaddr_in address = { .sin_family = AF_INET,
                                         .sin_port = htons(f->port),
                                         .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    struct epoll_event event = { .events = EPOLLIN, .data.ptr = a };
    int on = 1;

    a->shaking = true;
    f->shaking++;
    a->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (a->fd < 0 || connect(a->fd, (const struct sockaddr *)&address, sizeof(address)) != 0 ||
        fcntl(a->fd, F_SETFL, O_NONBLOCK) != 0 ||
        setsockopt(a->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)) != 0 ||
        epoll_ctl(f->epoll_fd, EPOLL_CTL_ADD, a->fd, &event) != 0 || !begin_tls(a)) {
        drop(a, strerror(errno));
        return;
    }
    on_event(a);
}

/* ---- what is due */

static void for_all(struct fleet *f, void (*say)(struct agent *a, uint32_t arg), uint32_t arg)
{
    for (uint32_t i = 0; i < f->count; i++) {
        struct agent *a = &f->agents[i];

        if (a->gone || !a->welcome || a->left)
            continue;
        say(a, arg);
        flush(a);
    }
}

static void begin_load(struct agent *a, uint32_t unused)
{
    (void)unused;
    say_phase(a, LS__AGENT_PHASE__AGENT_PHASE_WARMUP);
    say_phase(a, LS__AGENT_PHASE__AGENT_PHASE_MEASURE);
}

static void end_load(struct agent *a, uint32_t unused)
{
    (void)unused;
    say_phase(a, LS__AGENT_PHASE__AGENT_PHASE_DRAIN);
    say_phase(a, LS__AGENT_PHASE__AGENT_PHASE_COLLECT);
    say_totals(a);
    say_phase(a, LS__AGENT_PHASE__AGENT_PHASE_IDLE);
}

static void ping(struct agent *a, uint32_t unused)
{
    Ls__Envelope envelope = envelope_of(a, LS__ENVELOPE__BODY_PING);
    Ls__Ping message = LS__PING__INIT;

    (void)unused;
    if (ls_clock_mono_ns() - a->spoke_ns < HEARTBEAT_NS)
        return;
    envelope.ping = &message;
    put(a, &envelope);
}

/* Who has said everything that it is stored, and has everybody agreed to one start? */
static void look_around(struct fleet *f)
{
    struct fleet_state *state = &f->state;
    uint32_t acked = 0, armed = 0;
    int64_t start_ns = 0;

    for (uint32_t i = 0; i < f->count; i++) {
        const struct agent *a = &f->agents[i];

        acked += a->acked == a->said;
        armed += a->armed != 0 && a->acked >= a->armed && a->attempt == state->attempts;
        start_ns = a->start_ns > start_ns ? a->start_ns : start_ns;
    }
    state->acked = acked;
    if (state->start_ns != INT64_MAX || armed < f->count)
        return;
    state->armed_ns = ls_clock_mono_ns();
    state->start_ns = start_ns;
}

static void do_due(struct fleet *f)
{
    struct fleet_state *state = &f->state;
    int64_t now_ns = ls_clock_mono_ns();

    while (f->port != 0 && f->dialled < f->count && f->shaking < SHAKING_MAX)
        dial(&f->agents[f->dialled++]);
    if (now_ns - f->pinged_ns >= HEARTBEAT_NS / 4) {
        f->pinged_ns = now_ns;
        for_all(f, ping, 0);
    }
    look_around(f);
    if (state->start_ns != INT64_MAX && state->reported < f->seconds &&
        now_ns >= state->start_ns + seconds_ns(state->reported + 1)) {
        if (state->reported == 0)
            for_all(f, begin_load, 0);
        for_all(f, say_interval, state->reported);
        state->reported++;
        state->acked = 0;
    }
    if (f->ending && !f->ended) {
        f->ended = true;
        for_all(f, end_load, 0);
    }
}

void fleet_turn(struct fleet *f)
{
    struct epoll_event events[EVENTS_MAX];
    int n;

    do_due(f);
    n = epoll_wait(f->epoll_fd, events, EVENTS_MAX, 10);
    for (int i = 0; i < n; i++)
        on_event(events[i].data.ptr);
}

void fleet_dial(struct fleet *f, uint16_t port)
{
    f->port = port;
}

void fleet_end(struct fleet *f)
{
    f->ending = true;
}

const struct fleet_state *fleet_look(const struct fleet *f)
{
    return &f->state;
}

/* ---- life */

static X509 *read_certificate(const char *pem)
{
    BIO *bio = BIO_new_mem_buf(pem, -1);
    X509 *certificate = bio != NULL ? PEM_read_bio_X509(bio, NULL, NULL, NULL) : NULL;

    (void)BIO_free(bio);
    return certificate;
}

static EVP_PKEY *read_key(const char *pem)
{
    BIO *bio = BIO_new_mem_buf(pem, -1);
    EVP_PKEY *key = bio != NULL ? PEM_read_bio_PrivateKey(bio, NULL, NULL, NULL) : NULL;

    (void)BIO_free(bio);
    return key;
}

static enum ls_err issue(const struct coord_authority *authority, enum ls_identity_role role,
                         const char *name, char **out_certificate, char **out_key,
                         struct ls_diag *diag)
{
    static const char *const hosts[] = { "127.0.0.1" };
    int64_t now_s = ls_clock_wall_ns() / LS_NS_PER_S;
    Ls__IssuedCertificate *record = NULL;
    const struct coord_pki_want wanted = { .role = role,
                                           .name = name,
                                           .hosts = hosts,
                                           .host_count = role == LS_IDENTITY_COORDINATOR,
                                           .now_s = now_s,
                                           .end_s = now_s + DAY_S };
    enum ls_err rc =
        coord_authority_issue(authority, &wanted, out_certificate, out_key, &record, diag);

    if (rc == LS_OK)
        coord_message_free(record);
    return rc;
}

static enum ls_err init_agent(struct fleet *f, uint32_t index, struct ls_diag *diag)
{
    struct agent *a = &f->agents[index];
    char *certificate = NULL, *key = NULL;
    enum ls_err rc;

    a->fleet = f;
    a->index = index;
    a->fd = -1;
    ls_buf_init(&a->in, LS_FRAME_MAX_FROM_COORD + READ_BYTES);
    ls_buf_init(&a->out, 64u << 20);
    (void)snprintf(a->name, sizeof(a->name), "sim-%05" PRIu32, index);
    rc = issue(f->authority, LS_IDENTITY_AGENT, a->name, &certificate, &key, diag);
    if (rc == LS_OK) {
        a->certificate = read_certificate(certificate);
        a->key = read_key(key);
        if (a->certificate == NULL || a->key == NULL)
            rc = ls_fail(diag, LS_ENOMEM, "the keys of %s cannot be read", a->name);
    }
    free(certificate);
    coord_pki_free_key(key);
    return rc;
}

static enum ls_err init_tls(struct fleet *f, struct ls_diag *diag)
{
    char *pem = coord_authority_certificate(f->authority);
    X509 *ca = pem != NULL ? read_certificate(pem) : NULL;

    free(pem);
    f->ctx = SSL_CTX_new(TLS_client_method());
    if (ca == NULL || f->ctx == NULL ||
        SSL_CTX_set_min_proto_version(f->ctx, TLS1_3_VERSION) != 1 ||
        X509_STORE_add_cert(SSL_CTX_get_cert_store(f->ctx), ca) != 1) {
        X509_free(ca);
        return ls_fail(diag, LS_ENOMEM, "no TLS for the agents");
    }
    X509_free(ca);
    (void)SSL_CTX_set_mode(f->ctx, SSL_MODE_ENABLE_PARTIAL_WRITE |
                                       SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
                                       SSL_MODE_RELEASE_BUFFERS);
    SSL_CTX_set_verify(f->ctx, SSL_VERIFY_PEER, NULL);
    return LS_OK;
}

/* Latencies of a second as a server of about 1 ms has them: log-normal, by Box and Muller. */
static enum ls_err simulate(struct ls_rng *rng, uint32_t samples, Ls__Series *out)
{
    struct ls_hist *hist = NULL;
    enum ls_err rc = ls_hist_create(&hist);

    for (uint32_t i = 0; i < samples && rc == LS_OK; i++) {
        double normal = sqrt(-2 * log(1 - ls_rng_unit(rng))) * cos(2 * M_PI * ls_rng_unit(rng));

        ls_hist_record(hist, (int64_t)(MEDIAN_NS * exp(SIGMA * normal)));
    }
    if (rc == LS_OK)
        rc = ls_hist_encode(hist, &out->histogram.data, &out->histogram.len);
    ls_hist_destroy(hist);
    return rc;
}

static enum ls_err init_series(struct fleet *f, struct ls_diag *diag)
{
    static const Ls__SeriesKind kinds[SIMULATED] = { LS__SERIES_KIND__SERIES_KIND_RESPONSE_TIME,
                                                     LS__SERIES_KIND__SERIES_KIND_SERVICE_TIME,
                                                     LS__SERIES_KIND__SERIES_KIND_FIRST_BYTE };
    struct ls_rng rng;
    enum ls_err rc = LS_OK;

    ls_rng_init(&rng, 1, 1);
    for (unsigned v = 0; v < VARIANTS; v++) {
        for (unsigned s = 0; s < SIMULATED && rc == LS_OK; s++) {
            ls__series__init(&f->series[v][s]);
            f->series[v][s].kind = kinds[s];
            rc = simulate(&rng, FLEET_REQUESTS, &f->series[v][s]);
        }
    }
    return rc == LS_OK ? rc : ls_fail(diag, rc, "no histograms for the agents");
}

enum ls_err fleet_create(uint32_t agents, uint32_t seconds, struct fleet **out,
                         struct ls_diag *diag)
{
    struct fleet *f = calloc(1, sizeof(*f));
    int64_t now_s = ls_clock_wall_ns() / LS_NS_PER_S;
    enum ls_err rc;

    if (f == NULL || (f->agents = calloc(agents, sizeof(*f->agents))) == NULL) {
        free(f);
        return ls_fail(diag, LS_ENOMEM, "no memory for %" PRIu32 " agents", agents);
    }
    f->seconds = seconds;
    f->state.start_ns = INT64_MAX;
    f->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    rc = coord_authority_create("fleet", now_s, now_s + 2 * DAY_S, &f->authority, diag);
    if (rc == LS_OK)
        rc = init_tls(f, diag);
    if (rc == LS_OK)
        rc = init_series(f, diag);
    for (; rc == LS_OK && f->count < agents; f->count++)
        rc = init_agent(f, f->count, diag);
    if (rc == LS_OK && f->epoll_fd < 0)
        rc = ls_fail(diag, LS_EIO, "epoll: %s", strerror(errno));
    if (rc != LS_OK) {
        fleet_destroy(f);
        return rc;
    }
    *out = f;
    return LS_OK;
}

void fleet_destroy(struct fleet *f)
{
    if (f == NULL)
        return;
    for (uint32_t i = 0; i < f->count; i++) {
        struct agent *a = &f->agents[i];

        SSL_free(a->ssl);
        if (a->fd >= 0)
            (void)close(a->fd);
        X509_free(a->certificate);
        EVP_PKEY_free(a->key);
        ls_buf_fini(&a->in);
        ls_buf_fini(&a->out);
    }
    for (unsigned v = 0; v < VARIANTS; v++) {
        for (unsigned s = 0; s < SIMULATED; s++)
            free(f->series[v][s].histogram.data);
    }
    if (f->epoll_fd >= 0)
        (void)close(f->epoll_fd);
    SSL_CTX_free(f->ctx);
    coord_authority_destroy(f->authority);
    free(f->agents);
    free(f);
}

enum ls_err fleet_write_keys(const struct fleet *f, const char *dir, struct ls_diag *diag)
{
    int64_t now_s = ls_clock_wall_ns() / LS_NS_PER_S;
    Ls__Pki nobody = LS__PKI__INIT;
    char *ca = coord_authority_certificate(f->authority);
    char *certificate = NULL, *key = NULL, *crl = NULL;
    enum ls_err rc =
        issue(f->authority, LS_IDENTITY_COORDINATOR, "bench", &certificate, &key, diag);

    if (rc == LS_OK)
        rc = coord_authority_crl(f->authority, &nobody, now_s, now_s + DAY_S, &crl, diag);
    if (rc == LS_OK && ca == NULL)
        rc = ls_fail(diag, LS_ENOMEM, "out of memory for the keys");
    if (rc == LS_OK)
        rc = coord_keys_folder_write(
            dir,
            &(struct coord_keys_folder){
                .ca = ca, .certificate = certificate, .key = key, .crl = crl },
            false, diag);
    free(ca);
    free(certificate);
    coord_pki_free_key(key);
    free(crl);
    return rc;
}
