/* What a schema cannot say about TLS. */
#include <arpa/inet.h>
#include <string.h>

#include "common/msg_model.h"
#include "coordinator/plan/plan_check_parts.h"

#define FILE_MAX (1u << 20) /* of certificates and keys */

static const char *const versions[] = { "1.2", "1.3" };

/* Its place in versions; -1: none, which has been said. */
static int check_version(struct coord_plan_checker *c, const Ls__Tls *tls, const char *field,
                         const char *version)
{
    for (size_t i = 0; i < LS_ARRAY_LEN(versions); i++) {
        if (strcmp(version, versions[i]) == 0)
            return (int)i;
    }
    coord_plan_check_say(c, &tls->base, field, -1, "'%.32s' is no version of TLS here: 1.2 or 1.3",
                         version);
    return -1;
}

static void check_versions(struct coord_plan_checker *c, const Ls__Tls *tls)
{
    int min = check_version(c, tls, "min_version", tls->min_version);
    int max = check_version(c, tls, "max_version", tls->max_version);

    if (min >= 0 && max >= 0 && min > max)
        coord_plan_check_say(c, &tls->base, "max_version", -1, "%s is below min_version, %s",
                             tls->max_version, tls->min_version);
}

static void check_server_name(struct coord_plan_checker *c, const Ls__Tls *tls)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                  "0123456789.-_";
    unsigned char address[sizeof(struct in6_addr)];
    const char *name = tls->server_name;

    if (name == NULL || inet_pton(AF_INET6, name, address) == 1)
        return;
    if (*name == '\0' || strlen(name) > 253 || name[strspn(name, letters)] != '\0')
        coord_plan_check_say(c, &tls->base, "server_name", -1,
                             "'%.64s' is no name of a host and no address; a port does not belong "
                             "here",
                             name);
}

static void check_alpn(struct coord_plan_checker *c, const Ls__Tls *tls)
{
    size_t sum = 0;

    for (size_t i = 0; i < tls->n_alpn; i++) {
        size_t len = strlen(tls->alpn[i]);

        sum += len + 1;
        if (len == 0 || sum > 255)
            coord_plan_check_say(c, &tls->base, "alpn", (int)i,
                                 "is empty, or too long with those before it");
        else if (strcmp(tls->alpn[i], "h2") == 0)
            coord_plan_check_say(c, &tls->base, "alpn", (int)i,
                                 "h2 is what workloads with http: {version: http2} offer, and "
                                 "nothing else: leave it out");
        else if (strcmp(tls->alpn[i], "h3") == 0)
            coord_plan_check_say(c, &tls->base, "alpn", (int)i,
                                 "h3 is not spoken here: offer http/1.1");
    }
}

static void check_path(struct coord_plan_checker *c, const Ls__Tls *tls, const char *field,
                       const char *path)
{
    if (path != NULL)
        coord_plan_check_file(c, &tls->base, field, -1, path, FILE_MAX);
}

void coord_plan_check_tls(struct coord_plan_checker *c, const Ls__Tls *tls)
{
    check_versions(c, tls);
    check_server_name(c, tls);
    check_alpn(c, tls);
    check_path(c, tls, "ca_file", tls->ca_file);
    check_path(c, tls, "certificate_file", tls->certificate_file);
    check_path(c, tls, "key_file", tls->key_file);
    if (tls->certificate_file != NULL && tls->key_file == NULL)
        coord_plan_check_say(c, &tls->base, "key_file", -1,
                             "is missing: the private key to certificate_file");
    if (tls->certificate_file == NULL && tls->key_file != NULL)
        coord_plan_check_say(c, &tls->base, "certificate_file", -1,
                             "is missing: the certificate that key_file belongs to");
    if (tls->ciphers != NULL && tls->ciphers[0] == '\0')
        coord_plan_check_say(c, &tls->base, "ciphers", -1,
                             "is empty: leave it out, or name ciphers as OpenSSL does");
}
