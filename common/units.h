/* common/units.h - quantities as people write them: "1m30s", "20k/s", "64KiB", "50k", "0.1%". */
#ifndef LS_COMMON_UNITS_H
#define LS_COMMON_UNITS_H

#include <stddef.h>
#include <stdint.h>

#include "common/err.h"

/* Parsing takes the whole text or fails: LS_EINVAL (not a quantity), LS_ERANGE (too large). Diag
 * says what was expected. Never negative, no white space. Decimal fractions are allowed: "1.5s". */
enum ls_err ls_parse_duration(const char *text, int64_t *out_ns, struct ls_diag *diag) LS_NODISCARD;
enum ls_err ls_parse_rate(const char *text, double *out_per_s, struct ls_diag *diag) LS_NODISCARD;
enum ls_err ls_parse_count(const char *text, uint64_t *out_n, struct ls_diag *diag) LS_NODISCARD;
/* "0.1%" is 0.001; 0% to 100%. */
enum ls_err ls_parse_share(const char *text, double *out_share, struct ls_diag *diag) LS_NODISCARD;
enum ls_err ls_parse_size(const char *text, uint64_t *out_bytes, struct ls_diag *diag) LS_NODISCARD;

/* Exact forms that read back equal: "1m30s", "250ms", "20k/s", "64KiB". out holds >= 48 bytes. */
const char *ls_format_duration(int64_t ns, char *out, size_t out_bytes);
const char *ls_format_rate(double per_s, char *out, size_t out_bytes);
const char *ls_format_count(uint64_t n, char *out, size_t out_bytes);
const char *ls_format_share(double share, char *out, size_t out_bytes);
const char *ls_format_size(uint64_t bytes, char *out, size_t out_bytes);

/* Rounded forms for reports, three significant digits: "1.23 ms", "48.1 k", "12.3 MiB". */
const char *ls_human_duration(double ns, char *out, size_t out_bytes);
const char *ls_human_count(double n, char *out, size_t out_bytes);
const char *ls_human_size(double bytes, char *out, size_t out_bytes);

#endif
