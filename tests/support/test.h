/* tests/support/test.h - cmocka and what it needs, in the right order. */
#ifndef LS_TESTS_SUPPORT_TEST_H
#define LS_TESTS_SUPPORT_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#endif
