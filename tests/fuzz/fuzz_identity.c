/* A certificate's bytes: who it says its holder is. What is accepted can be trusted to be short,
 * safe in a log and as a file's name, and the same when it is read again. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/identity.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The libFuzzer way to report: a crash. */
static void require(int truth)
{
    if (!truth)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct ls_identity identity = { .name = "untouched" };
    struct ls_identity again;
    struct ls_diag diag = { 0 };
    char uri[LS_IDENTITY_URI_MAX];

    if (ls_identity_read((struct ls_bytes){ data, size }, &identity, &diag) != LS_OK) {
        require(strcmp(identity.name, "untouched") == 0 && diag.text[0] != '\0');
        return 0;
    }
    require(!identity.proven);
    require(identity.role == LS_IDENTITY_AGENT || identity.role == LS_IDENTITY_COORDINATOR);
    require(ls_identity_name_is_fine(identity.name));
    (void)snprintf(uri, sizeof(uri), "lockstep:%s/%s", ls_identity_role_name(identity.role),
                   identity.name);
    require(strcmp(uri, identity.uri) == 0);
    require(strlen(identity.fingerprint) == LS_SHA256_HEX - 1);
    require(ls_identity_read((struct ls_bytes){ data, size }, &again, NULL) == LS_OK);
    require(again.role == identity.role && strcmp(again.uri, identity.uri) == 0 &&
            strcmp(again.fingerprint, identity.fingerprint) == 0);
    return 0;
}
