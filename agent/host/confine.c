#include "agent/host/confine.h"

#include <errno.h>
#include <grp.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

/* Both limits, so that the program cannot raise it again. One that is above what this process may
 * have stays where it is: it is the lower one that was meant. */
static int set_limit(int resource, uint64_t value)
{
    struct rlimit limit;

    if (getrlimit((__rlimit_resource_t)resource, &limit) != 0)
        return errno;
    if (limit.rlim_max != RLIM_INFINITY && value > limit.rlim_max)
        value = limit.rlim_max;
    limit.rlim_cur = limit.rlim_max = (rlim_t)value;
    return setrlimit((__rlimit_resource_t)resource, &limit) == 0 ? 0 : errno;
}

static int set_limits(const struct host_confine *confine)
{
    const struct {
        int resource;
        uint64_t value;
    } limits[] = {
        { RLIMIT_DATA, confine->memory_bytes },  { RLIMIT_AS, confine->address_space_bytes },
        { RLIMIT_FSIZE, confine->file_bytes },   { RLIMIT_NPROC, confine->processes },
        { RLIMIT_NOFILE, confine->descriptors },
    };
    int error = set_limit(RLIMIT_CORE, 0);

    for (size_t i = 0; i < sizeof(limits) / sizeof(limits[0]) && error == 0; i++) {
        if (limits[i].value > 0)
            error = set_limit(limits[i].resource, limits[i].value);
    }
    return error;
}

/* What an agent was given, by a unit's AmbientCapabilities= say, would stay with a program that is
 * nobody's special file. */
static int drop_ambient(void)
{
    if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) == 0)
        return 0;
    return errno == EINVAL ? 0 : errno; /* a kernel before 4.3 has none */
}

/* Groups first: afterwards there is no right to change them. */
static int become(uid_t uid, gid_t gid)
{
    uid_t real, effective, saved;

    if (setgroups(0, NULL) != 0 || setresgid(gid, gid, gid) != 0 || setresuid(uid, uid, uid) != 0)
        return errno;
    if (getresuid(&real, &effective, &saved) != 0)
        return errno;
    if (real != uid || effective != uid || saved != uid || getgid() != gid || getegid() != gid)
        return EPERM;
    /* A kernel or a container that would let us back has not changed it for good. */
    return uid == 0 || setuid(0) != 0 ? 0 : EPERM;
}

int host_confine_apply(const struct host_confine *confine, enum host_confine_step *out_step)
{
    int error;

    (void)umask(022);
    *out_step = HOST_CONFINE_LIMITS;
    error = set_limits(confine);
    if (error == 0 && confine->change_user) {
        *out_step = HOST_CONFINE_USER;
        error = become(confine->uid, confine->gid);
    }
    if (error == 0) {
        *out_step = HOST_CONFINE_PRIVILEGES;
        error = drop_ambient();
    }
    if (error == 0)
        error = prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 ? 0 : errno;
    return error;
}
