#include "coordinator/run/ceiling.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/digest.h"
#include "common/fs.h"
#include "common/msg_json.h"
#include "coordinator/result/message.h"

#define FILE_MAX (16u << 20)

enum ls_err coord_ceiling_path(char *out, size_t out_bytes, struct ls_diag *diag)
{
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    int n;

    if (cache != NULL && cache[0] == '/')
        n = snprintf(out, out_bytes, "%s/lockstep/calibration.json", cache);
    else if (home != NULL && home[0] == '/')
        n = snprintf(out, out_bytes, "%s/.cache/lockstep/calibration.json", home);
    else
        return ls_fail(diag, LS_ESTATE,
                       "neither XDG_CACHE_HOME nor HOME says where calibrations are kept");
    if (n < 0 || (size_t)n >= out_bytes)
        return ls_fail(diag, LS_ERANGE, "the path of the calibration's file is too long");
    return LS_OK;
}

static Ls__Calibration *make(struct ls_diag *diag)
{
    Ls__Calibration *made = coord_message_new(&ls__calibration__descriptor);

    if (made != NULL)
        made->version = COORD_CEILING_VERSION;
    else
        (void)ls_fail(diag, LS_ENOMEM, "out of memory for a calibration");
    return made;
}

enum ls_err coord_ceiling_load(const char *path, Ls__Calibration **out, struct ls_diag *diag)
{
    ProtobufCMessage *message = NULL;
    char *text = NULL;
    size_t len = 0;
    enum ls_err rc = LS_OK;

    if (access(path, F_OK) == 0) {
        rc = ls_fs_read(path, FILE_MAX, &text, &len, diag);
        if (rc == LS_OK)
            rc = ls_msg_from_json(&ls__calibration__descriptor,
                                  (struct ls_bytes){ (const unsigned char *)text, len }, &message,
                                  diag);
        free(text);
        if (rc != LS_OK)
            return ls_fail_in(diag, rc, "%s", path);
        *out = (Ls__Calibration *)(void *)message;
        if ((*out)->version == COORD_CEILING_VERSION)
            return LS_OK;
        coord_message_free(*out);
    }
    *out = make(diag);
    return *out != NULL ? LS_OK : LS_ENOMEM;
}

enum ls_err coord_ceiling_save(const char *path, const Ls__Calibration *calibration,
                               struct ls_diag *diag)
{
    char *text = ls_msg_to_json(&calibration->base, 2), *folder = strdup(path);
    char *slash = folder != NULL ? strrchr(folder, '/') : NULL;
    enum ls_err rc = LS_OK;

    if (text == NULL || folder == NULL) {
        rc = ls_fail(diag, LS_ENOMEM, "out of memory for the calibration");
    } else if (slash != NULL && slash != folder) { /* here, and the root, are there already */
        *slash = '\0';
        rc = ls_fs_mkdirs(folder, 0700, diag);
    }
    if (rc == LS_OK)
        rc = ls_fs_write(path, (struct ls_bytes){ (const unsigned char *)text, strlen(text) }, 0600,
                         diag);
    free(folder);
    free(text);
    return rc;
}

/* What has to be the same for a ceiling to hold: not the CPUs that are allowed or the governor,
 * which differ from run to run and are judged by themselves. */
static void hash_host(const Ls__Facts *facts, char out[LS_SHA256_HEX])
{
    char text[1024];

    (void)snprintf(text, sizeof(text), "%.100s|%.100s|%.100s|%.40s|%u|%u|%.80s|%" PRIu64,
                   facts->hostname, facts->kernel, facts->cpu_model, facts->architecture,
                   facts->cpu_cores, facts->cpu_threads, facts->virtualisation,
                   facts->memory_bytes >> 28);
    ls_sha256_hex((struct ls_bytes){ (const unsigned char *)text, strlen(text) }, out);
}

struct shape {
    char host[LS_SHA256_HEX];
    const char *io;
    bool tls;
    uint32_t workers;
    uint32_t connections;
    uint32_t pipeline;
    double request_bytes;
    double response_bytes;
};

/* False: too little was measured to tell. */
static bool shape_of(const Ls__Facts *facts, const Ls__Trial *trial, const Ls__Client *client,
                     struct shape *out)
{
    if (facts == NULL || client->requests == NULL || client->requests->ok == 0 ||
        client->requests->sent == 0 || client->connections == NULL || client->http2 != NULL ||
        client->messages != NULL)
        return false; /* neither HTTP/2 nor WebSocket is calibrated */
    hash_host(facts, out->host);
    out->io = client->io;
    out->tls = client->tls != NULL;
    out->workers = client->workers;
    out->connections = (uint32_t)client->connections->asked;
    out->pipeline = trial->pipeline > 0 ? trial->pipeline : 1;
    out->request_bytes = (double)client->bytes_out / (double)client->requests->sent;
    out->response_bytes = (double)client->bytes_in / (double)client->requests->ok;
    return true;
}

static double ratio(double a, double b)
{
    return a > 0 && b > 0 ? fabs(log(a / b)) : a > 0 || b > 0 ? INFINITY : 0;
}

static bool bytes_near(double a, double b)
{
    return ratio(a, b) <= log(COORD_CEILING_FACTOR) || fabs(a - b) <= COORD_CEILING_BYTES;
}

/* How far off; negative: it does not fit. */
static double distance(const struct shape *shape, const Ls__Ceiling *c)
{
    double connections = ratio(shape->connections, c->connections);

    if (strcmp(c->host, shape->host) != 0 || strcmp(c->software, LS_VERSION) != 0 ||
        strcmp(c->io, shape->io) != 0 || (c->tls != 0) != shape->tls ||
        c->workers != shape->workers || c->pipeline != shape->pipeline || !(c->per_s > 0) ||
        connections > log(COORD_CEILING_FACTOR) + 1e-9 ||
        !bytes_near(shape->request_bytes, c->request_bytes) ||
        !bytes_near(shape->response_bytes, c->response_bytes))
        return -1;
    return connections + ratio(shape->request_bytes, c->request_bytes) +
           ratio(shape->response_bytes, c->response_bytes);
}

const Ls__Ceiling *coord_ceiling_find(const Ls__Calibration *calibration, const Ls__Facts *facts,
                                      const Ls__Trial *trial, const Ls__Client *client)
{
    const Ls__Ceiling *nearest = NULL;
    double least = INFINITY;
    struct shape shape;

    if (!shape_of(facts, trial, client, &shape))
        return NULL;
    for (size_t i = 0; i < calibration->n_ceilings; i++) {
        double far = distance(&shape, calibration->ceilings[i]);

        if (far >= 0 && far < least) {
            nearest = calibration->ceilings[i];
            least = far;
        }
    }
    return nearest;
}

static bool is_same(const struct shape *shape, const Ls__Ceiling *c)
{
    return distance(shape, c) >= 0 && shape->connections == c->connections &&
           fabs(shape->request_bytes - c->request_bytes) < 1 &&
           fabs(shape->response_bytes - c->response_bytes) < 1;
}

static void drop(Ls__Calibration *calibration, size_t i)
{
    coord_message_free(calibration->ceilings[i]);
    calibration->n_ceilings--;
    (void)memmove(&calibration->ceilings[i], &calibration->ceilings[i + 1],
                  (calibration->n_ceilings - i) * sizeof(Ls__Ceiling *));
}

enum ls_err coord_ceiling_keep(Ls__Calibration *calibration, const Ls__Facts *facts,
                               const Ls__Trial *trial, const char *limited_by, struct ls_diag *diag)
{
    const Ls__Client *client = trial->n_clients > 0 ? trial->clients[0] : NULL;
    struct shape shape;
    Ls__Ceiling *c;
    char now[32];

    if (client == NULL || !shape_of(facts, trial, client, &shape))
        return ls_fail(diag, LS_ESTATE, "the calibration measured nothing");
    for (size_t i = calibration->n_ceilings; i-- > 0;) {
        if (is_same(&shape, calibration->ceilings[i]))
            drop(calibration, i);
    }
    while (calibration->n_ceilings >= COORD_CEILING_MAX)
        drop(calibration, 0);
    c = coord_message_append(&calibration->n_ceilings, &calibration->ceilings,
                             &ls__ceiling__descriptor);
    if (c == NULL)
        return ls_fail(diag, LS_ENOMEM, "out of memory for the calibration");
    ls_clock_format_wall(ls_clock_wall_ns(), now, sizeof(now));
    c->tls = shape.tls;
    c->workers = shape.workers;
    c->connections = shape.connections;
    c->pipeline = shape.pipeline;
    c->request_bytes = shape.request_bytes;
    c->response_bytes = shape.response_bytes;
    c->per_s = client->throughput_per_s;
    if (!coord_message_string(&c->host, shape.host) ||
        !coord_message_string(&c->software, LS_VERSION) ||
        !coord_message_string(&c->io, shape.io) || !coord_message_string(&c->measured_at, now) ||
        !coord_message_string(&c->limited_by, limited_by))
        return ls_fail(diag, LS_ENOMEM, "out of memory for the calibration");
    return LS_OK;
}

static bool fill(Ls__Headroom **field, double ceiling_per_s, double per_s, const char *measured_at,
                 const char *limited_by)
{
    Ls__Headroom *headroom = coord_message_new(&ls__headroom__descriptor);

    if (headroom == NULL)
        return false;
    *field = headroom;
    headroom->ceiling_per_s = ceiling_per_s;
    headroom->used = per_s / ceiling_per_s;
    return coord_message_string(&headroom->measured_at, measured_at) &&
           coord_message_string(&headroom->limited_by, limited_by);
}

enum ls_err coord_ceiling_apply(const Ls__Calibration *calibration, Ls__Trial *trial,
                                const Ls__Facts *const *facts)
{
    const Ls__Ceiling *last = NULL;
    double sum = 0;
    size_t found = 0;

    for (size_t i = 0; i < trial->n_clients; i++) {
        Ls__Client *client = trial->clients[i];
        const Ls__Ceiling *c = coord_ceiling_find(calibration, facts[i], trial, client);

        if (c == NULL)
            continue;
        if (!fill(&client->headroom, c->per_s, client->throughput_per_s, c->measured_at,
                  c->limited_by))
            return LS_ENOMEM;
        sum += c->per_s;
        last = c;
        found++;
    }
    if (last == NULL || found < trial->n_clients)
        return LS_OK;
    return fill(&trial->headroom, sum, trial->throughput_per_s, last->measured_at, last->limited_by)
               ? LS_OK
               : LS_ENOMEM;
}
