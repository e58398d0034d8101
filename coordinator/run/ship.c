#include "coordinator/run/ship.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/digest.h"
#include "common/fs.h"
#include "common/pb.h"

struct cargo {
    const void *owner; /* target or workload, into whose trials' folders it goes; NULL: none, the
                          plan names it */
    Ls__FileRef ref;   /* name and digest point into this struct and the plan */
    char sha256[LS_SHA256_HEX];
    char *data; /* owned */
    size_t len;
};

struct coord_ship {
    struct cargo *items;  /* owned */
    Ls__FileRef **refs;   /* owned; in the order of items */
    Ls__FileRef **picked; /* owned; as many, for coord_ship_files() */
    size_t count;
    size_t owned_count;  /* of them; what the plan names follows */
    size_t room;         /* bytes that may still come */
    char (*sent_to)[40]; /* owned: boot id of the process that has them, per agent */
    uint32_t agents;
};

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash != NULL ? slash + 1 : path;
}

/* What an agent would refuse is refused before anything is started. */
static enum ls_err check_name(const struct coord_ship *ship, const void *owner, const char *whose,
                              const char *name, struct ls_diag *diag)
{
    enum ls_err rc = ls_fs_name_check(name, diag);

    for (size_t i = 0; i < ship->count && rc == LS_OK; i++) {
        if (ship->items[i].owner == owner && ls_fs_names_clash(ship->items[i].ref.name, name))
            rc = ls_fail(diag, LS_EINVAL, "'%.100s' and '%.100s' would be the same file somewhere",
                         ship->items[i].ref.name, name);
    }
    return rc == LS_OK ? rc : ls_fail_in(diag, rc, "%.60s", whose);
}

/* owner NULL: the plan names it, and so is it named. */
static enum ls_err load(struct coord_ship *ship, const void *owner, const char *whose,
                        const char *base_dir, const char *file, struct ls_diag *diag)
{
    struct cargo *cargo = &ship->items[ship->count];
    char path[4096];
    struct stat st;
    const char *name = owner != NULL ? base_name(file) : file;
    enum ls_err rc = LS_OK;
    int n = snprintf(path, sizeof(path), "%s%s%s", file[0] == '/' ? "" : base_dir,
                     file[0] == '/' ? "" : "/", file);

    if (n < 0 || (size_t)n >= sizeof(path))
        return ls_fail(diag, LS_ERANGE,
                       "the path of the file %.60s... is too long: %zu bytes are the "
                       "most",
                       file, sizeof(path) - 1);
    if (owner != NULL)
        rc = check_name(ship, owner, whose, name, diag);
    if (rc == LS_OK)
        rc = ls_fs_read(path, ship->room, &cargo->data, &cargo->len, diag);
    if (rc != LS_OK)
        return rc;
    ls_sha256_hex((struct ls_bytes){ (unsigned char *)cargo->data, cargo->len }, cargo->sha256);
    cargo->owner = owner;
    ls__file_ref__init(&cargo->ref);
    cargo->ref.name = ls_pb_text(name);
    cargo->ref.sha256 = cargo->sha256;
    cargo->ref.bytes = cargo->len;
    cargo->ref.executable = stat(path, &st) == 0 && (st.st_mode & S_IXUSR) != 0;
    ship->room -= cargo->len;
    ship->refs[ship->count++] = &cargo->ref;
    return LS_OK;
}

static enum ls_err load_owned(struct coord_ship *ship, const void *owner, const char *whose,
                              const char *base_dir, char *const *files, size_t count,
                              struct ls_diag *diag)
{
    enum ls_err rc = LS_OK;

    for (size_t i = 0; i < count && rc == LS_OK; i++)
        rc = load(ship, owner, whose, base_dir, files[i], diag);
    return rc;
}

static enum ls_err load_named(struct coord_ship *ship, const char *base_dir, const char *file,
                              struct ls_diag *diag)
{
    if (file == NULL)
        return LS_OK;
    for (size_t i = ship->owned_count; i < ship->count; i++) {
        if (strcmp(ship->items[i].ref.name, file) == 0)
            return LS_OK;
    }
    return load(ship, NULL, "", base_dir, file, diag);
}

static enum ls_err load_tls(struct coord_ship *ship, const char *base_dir, const Ls__Tls *tls,
                            struct ls_diag *diag)
{
    enum ls_err rc;

    if (tls == NULL)
        return LS_OK;
    rc = load_named(ship, base_dir, tls->ca_file, diag);
    if (rc == LS_OK)
        rc = load_named(ship, base_dir, tls->certificate_file, diag);
    return rc == LS_OK ? load_named(ship, base_dir, tls->key_file, diag) : rc;
}

static enum ls_err load_request(struct coord_ship *ship, const char *base_dir,
                                const Ls__Request *request, struct ls_diag *diag)
{
    enum ls_err rc = load_named(ship, base_dir, request->body_file, diag);

    if (rc == LS_OK && request->expect != NULL)
        rc = load_named(ship, base_dir, request->expect->body_file, diag);
    return rc;
}

static enum ls_err load_http(struct coord_ship *ship, const char *base_dir, const Ls__Http *http,
                             struct ls_diag *diag)
{
    enum ls_err rc = LS_OK;

    if (http->data != NULL)
        rc = load_named(ship, base_dir, http->data->file, diag);
    for (size_t i = 0; i < http->n_requests && rc == LS_OK; i++)
        rc = load_request(ship, base_dir, http->requests[i], diag);
    return rc;
}

static enum ls_err load_process(struct coord_ship *ship, const char *base_dir,
                                const Ls__Process *process, struct ls_diag *diag)
{
    enum ls_err rc = load_named(ship, base_dir, process->stdin_file, diag);

    return rc == LS_OK ? load_named(ship, base_dir, process->expect->output_file, diag) : rc;
}

/* Everything but the targets' and workloads' own files. */
static enum ls_err load_named_files(struct coord_ship *ship, const char *base_dir,
                                    const Ls__Plan *plan, struct ls_diag *diag)
{
    enum ls_err rc = LS_OK;

    for (size_t i = 0; i < plan->n_targets && rc == LS_OK; i++) {
        const Ls__Ready *ready = plan->targets[i]->ready;

        rc = load_tls(ship, base_dir, plan->targets[i]->tls, diag);
        if (rc == LS_OK && ready != NULL && ready->request != NULL)
            rc = load_request(ship, base_dir, ready->request, diag);
    }
    for (size_t i = 0; i < plan->n_workloads && rc == LS_OK; i++) {
        if (plan->workloads[i]->protocol_case == LS__WORKLOAD__PROTOCOL_HTTP)
            rc = load_http(ship, base_dir, plan->workloads[i]->http, diag);
        else if (plan->workloads[i]->protocol_case == LS__WORKLOAD__PROTOCOL_PROCESS)
            rc = load_process(ship, base_dir, plan->workloads[i]->process, diag);
    }
    return rc;
}

/* How many files the plan can name at the most. */
static size_t count_files(const Ls__Plan *plan)
{
    size_t total = 0;

    for (size_t i = 0; i < plan->n_targets; i++)
        total += plan->targets[i]->n_files + 2 + (plan->targets[i]->tls != NULL ? 3 : 0);
    for (size_t i = 0; i < plan->n_workloads; i++) {
        if (plan->workloads[i]->protocol_case == LS__WORKLOAD__PROTOCOL_HTTP)
            total += plan->workloads[i]->http->n_requests * 2 + 1;
        else if (plan->workloads[i]->protocol_case == LS__WORKLOAD__PROTOCOL_PROCESS)
            total += plan->workloads[i]->process->n_files + 2;
    }
    return total;
}

enum ls_err coord_ship_create(const Ls__Plan *plan, const char *base_dir,
                              struct coord_ship **out_ship, struct ls_diag *diag)
{
    struct coord_ship *ship = calloc(1, sizeof(*ship));
    enum ls_err rc = LS_OK;
    size_t total = count_files(plan);

    if (ship != NULL) {
        ship->room = COORD_SHIP_MAX_BYTES;
        ship->items = calloc(total + 1, sizeof(*ship->items));
        ship->refs = calloc(total + 1, sizeof(Ls__FileRef *));
        ship->picked = calloc(total + 1, sizeof(Ls__FileRef *));
    }
    if (ship == NULL || ship->items == NULL || ship->refs == NULL || ship->picked == NULL)
        rc = ls_fail(diag, LS_ENOMEM, "out of memory for the plan's files");
    for (size_t i = 0; i < plan->n_targets && rc == LS_OK; i++) {
        const Ls__Target *t = plan->targets[i];

        rc = load_owned(ship, t, t->name, base_dir, t->files, t->n_files, diag);
    }
    for (size_t i = 0; i < plan->n_workloads && rc == LS_OK; i++) {
        const Ls__Workload *w = plan->workloads[i];

        if (w->protocol_case == LS__WORKLOAD__PROTOCOL_PROCESS)
            rc = load_owned(ship, w, w->name, base_dir, w->process->files, w->process->n_files,
                            diag);
    }
    if (rc == LS_OK)
        ship->owned_count = ship->count;
    if (rc == LS_OK)
        rc = load_named_files(ship, base_dir, plan, diag);
    if (rc != LS_OK) {
        coord_ship_destroy(ship);
        return rc;
    }
    *out_ship = ship;
    return LS_OK;
}

void coord_ship_destroy(struct coord_ship *ship)
{
    if (ship == NULL)
        return;
    for (size_t i = 0; ship->items != NULL && i < ship->count; i++)
        free(ship->items[i].data);
    free(ship->items);
    free(ship->refs);
    free(ship->picked);
    free(ship->sent_to);
    free(ship);
}

static enum ls_err send_file(const struct cargo *cargo, struct coord_fleet *fleet, uint32_t agent,
                             struct ls_diag *diag)
{
    size_t at = 0;
    enum ls_err rc;

    do {
        Ls__Envelope envelope = LS__ENVELOPE__INIT;
        Ls__PutFile piece = LS__PUT_FILE__INIT;
        size_t n = cargo->len - at;

        if (n > COORD_SHIP_PIECE_BYTES)
            n = COORD_SHIP_PIECE_BYTES;
        piece.sha256 = ls_pb_text(cargo->sha256);
        piece.offset = at;
        piece.data.data = (unsigned char *)cargo->data + at;
        piece.data.len = n;
        at += n;
        piece.last = at == cargo->len;
        envelope.body_case = LS__ENVELOPE__BODY_PUT_FILE;
        envelope.put_file = &piece;
        rc = coord_fleet_command(fleet, agent, &envelope, diag);
    } while (rc == LS_OK && at < cargo->len);
    return rc;
}

enum ls_err coord_ship_send(struct coord_ship *ship, struct coord_fleet *fleet,
                            struct ls_diag *diag)
{
    if (ship->sent_to == NULL) {
        ship->agents = coord_fleet_size(fleet);
        ship->sent_to = calloc(ship->agents, sizeof(*ship->sent_to));
        if (ship->sent_to == NULL)
            return ls_fail(diag, LS_ENOMEM, "out of memory for the plan's files");
    }
    for (uint32_t i = 0; i < ship->agents; i++) {
        const struct coord_agent *a = coord_fleet_agent(fleet, i);

        if (strcmp(ship->sent_to[i], a->boot_id) == 0)
            continue;
        for (size_t k = a->role == LS__ROLE__ROLE_SERVER ? 0 : ship->owned_count; k < ship->count;
             k++) {
            enum ls_err rc = send_file(&ship->items[k], fleet, i, diag);

            if (rc != LS_OK)
                return rc;
        }
        (void)snprintf(ship->sent_to[i], sizeof(ship->sent_to[i]), "%s", a->boot_id);
    }
    return LS_OK;
}

void coord_ship_files(struct coord_ship *ship, const Ls__Target *target,
                      const Ls__Workload *workload, Ls__FileRef ***out_files, size_t *out_count)
{
    size_t n = 0;

    for (size_t i = 0; i < ship->owned_count; i++) {
        if (ship->items[i].owner == target || ship->items[i].owner == workload)
            ship->picked[n++] = ship->refs[i];
    }
    *out_files = ship->picked;
    *out_count = n;
}

void coord_ship_plan_files(const struct coord_ship *ship, Ls__FileRef ***out_files,
                           size_t *out_count)
{
    *out_files = ship->refs + ship->owned_count;
    *out_count = ship->count - ship->owned_count;
}
