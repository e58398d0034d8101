#include "agent/load/links/source.h"

#include <errno.h>
#include <netinet/in.h>

#include "common/sources.h"

int source_bind(int fd, const struct agent_link_env *env, uint32_t *turn)
{
    const struct sockaddr_storage *source;
    int yes = 1;

    if (env->source_count == 0)
        return 0;
    source = &env->sources[(env->source_first + (*turn)++) % env->source_count];
    /* Without it, bind() takes a port that then is taken for all destinations. */
    (void)setsockopt(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &yes, sizeof(yes));
    return bind(fd, (const struct sockaddr *)source, ls_source_len(source)) == 0 ? 0 : errno;
}
