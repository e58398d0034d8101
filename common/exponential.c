#include "common/exponential.h"

#include <string.h>

/* ln(m x 2^e) = e ln 2 + 2 artanh((m - 1) / (m + 1)), m near 1. IEEE 754 fixes every operation here
 * to the last bit, which no standard does for log(). */
double ls_minus_log(double x)
{
    static const double ln2_high = 0x1.62e42fefap-1; /* times an exponent: exact */
    static const double ln2_low = 0x1.cf79abc9e3b3ap-40;
    uint64_t bits;
    double m, s, s2, sum, e;

    (void)memcpy(&bits, &x, sizeof(bits));
    e = (double)((int)(bits >> 52) - 1023);
    bits = (bits & ((UINT64_C(1) << 52) - 1)) | (UINT64_C(1023) << 52);
    (void)memcpy(&m, &bits, sizeof(m));
    if (m > 0x1.6a09e667f3bcdp+0) { /* above the square root of 2 */
        m /= 2;
        e += 1;
    }
    s = (m - 1) / (m + 1); /* at most 0.172 */
    s2 = s * s;
    sum = 1.0 / 21;
    for (int n = 19; n >= 3; n -= 2)
        sum = sum * s2 + 1.0 / n;
    sum = s + s * s2 * sum;
    return -(e * ln2_high + (2 * sum + e * ln2_low));
}
