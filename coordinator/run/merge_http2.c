#include "coordinator/run/merge_http2.h"

#include <string.h>

#include "coordinator/result/message.h"

/* Adds a count to those of its name. */
static bool add_code(Ls__CodeCount ***codes, size_t *n, const Ls__CodeCount *src)
{
    Ls__CodeCount *code = NULL;

    for (size_t i = 0; i < *n && code == NULL; i++) {
        if (strcmp((*codes)[i]->name, src->name) == 0)
            code = (*codes)[i];
    }
    if (code == NULL) {
        code = coord_message_append(n, codes, &ls__code_count__descriptor);
        if (code == NULL || !coord_message_string(&code->name, src->name))
            return false;
    }
    code->count += src->count;
    return true;
}

bool coord_merge_http2(Ls__Http2Use **field, const Ls__Http2Use *src)
{
    Ls__Http2Use *use;
    bool ok = true;

    if (src == NULL)
        return true;
    if (*field == NULL)
        *field = coord_message_new(&ls__http2_use__descriptor);
    use = *field;
    if (use == NULL)
        return false;
    use->streams_asked = src->streams_asked;
    if (src->streams_granted > 0 &&
        (use->streams_granted == 0 || src->streams_granted < use->streams_granted))
        use->streams_granted = src->streams_granted;
    if (src->streams_granted_most > use->streams_granted_most)
        use->streams_granted_most = src->streams_granted_most;
    use->retried += src->retried;
    use->pushes_refused += src->pushes_refused;
    use->pings += src->pings;
    for (size_t i = 0; ok && i < src->n_resets; i++)
        ok = add_code(&use->resets, &use->n_resets, src->resets[i]);
    for (size_t i = 0; ok && i < src->n_goaways; i++)
        ok = add_code(&use->goaways, &use->n_goaways, src->goaways[i]);
    return ok;
}
