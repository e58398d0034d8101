/* tests/coordinator/sample_result.h - results made up of plain figures, for tests of what is done
 * with a result. */
#ifndef LS_TESTS_COORDINATOR_SAMPLE_RESULT_H
#define LS_TESTS_COORDINATOR_SAMPLE_RESULT_H

#include "proto/result.pb-c.h"

/* One repetition as a user would tell it. */
struct sample_trial {
    const char *target;
    const char *workload;
    uint32_t repetition;
    double throughput_per_s;
    double p50_ms;
    double cpu_us; /* per request; 0: no server was watched */
    double offered_per_s;
    Ls__Verdict verdict;
};

/* A consistent trial of 5 s by two clients with 64 connections: books balance, Little's law holds,
 * nothing to complain of. Owned by the caller. */
Ls__Trial *sample_trial(const struct sample_trial *from);
/* Everything around count trials, numbered from 1; summary and standings are built. */
Ls__Result *sample_result(const struct sample_trial *from, size_t count);
void sample_reason(Ls__Trial *trial, Ls__Verdict verdict, const char *code, const char *text);

/* Says that the trial went over TLS, to a server whose certificate nobody looked at. */
void sample_tls(Ls__Trial *trial, uint64_t full, uint64_t resumed);

#endif
