/* A certificate is good for as long as it says, for a session that began before as well. The wall
 * clock of this program can be put forward: ls_clock_wall_ns is wrapped at link time. */
#include "tests/support/test.h"

#include <string.h>

#include "common/clock.h"
#include "tests/common/tls_rig.h"

#define DAY_NS (86400 * LS_NS_PER_S)

static int64_t ahead_ns;

int64_t __real_ls_clock_wall_ns(void);
int64_t __wrap_ls_clock_wall_ns(void);

int64_t __wrap_ls_clock_wall_ns(void)
{
    return __real_ls_clock_wall_ns() + ahead_ns;
}

/* Either end may be the first to look. */
static bool was_ended_for_that(struct rig *rig)
{
    return strstr(rig->last_why, "its certificate has expired") != NULL ||
           strstr(ls_dialer_trouble(rig->dialer), "its certificate has expired") != NULL;
}

static void a_session_ends_with_the_certificate_that_it_began_with(void **state)
{
    struct tls_rig t;

    (void)state;
    ahead_ns = 0;
    tls_rig_init(&t);
    tls_rig_keys(&t);
    tls_rig_listen(&t);
    tls_rig_dial(&t, "127.0.0.1", "client-1", "boot-a");
    rig_until(&t.rig, rig_both_up);
    ahead_ns = 19 * DAY_NS; /* of the twenty that certificates here last */
    rig_run_ms(&t.rig, 300);
    assert_true(rig_both_up(&t.rig));
    assert_int_equal(t.rig.peer_downs, 0);
    ahead_ns = 21 * DAY_NS;
    rig_until(&t.rig, was_ended_for_that);
    ahead_ns = 0;
    tls_rig_fini(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_session_ends_with_the_certificate_that_it_began_with),
    };
    return cmocka_run_group_tests_name("common.transport_expiry", tests, NULL, NULL);
}
