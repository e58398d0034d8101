/* tests/support/driver_suite.h - what every protocol driver has to do, whatever its protocol. */
#ifndef LS_TESTS_SUPPORT_DRIVER_SUITE_H
#define LS_TESTS_SUPPORT_DRIVER_SUITE_H

#include "agent/load/driver.h"

struct driver_suite {
    const char *driver;
    const struct load_workload *workload; /* that all answers satisfy */
    /* What a flawless peer sends in answer to a request of the rotation, which was the nth (from 0)
     * on its connection; empty if the driver completes on its own. Valid until the next call. */
    struct ls_bytes (*answer)(uint32_t request, uint32_t nth);
    /* Of a driver that greets: what a flawless peer answers to sent; returns its length. */
    size_t (*greet)(struct ls_bytes sent, uint8_t *out);
};

/* Fails the running test (cmocka) if the driver does not. */
void driver_suite_run(const struct driver_suite *suite);

#endif
