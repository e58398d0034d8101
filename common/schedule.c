#include "common/schedule.h"

#include <assert.h>
#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "common/clock.h"
#include "common/exponential.h"

#define RATE_MAX_PER_S 1e9

/* ---- constant -------------------------------------------------------------------------------- */

/* A rate is odd x 2^exponent exactly, so instants and counts are whole-number arithmetic: the same
 * on every machine, and one is the exact inverse of the other. */
struct ratio {
    uint64_t odd;
    int exponent;
};

/* From the bits of the double (IEEE 754), as this is done for each arrival. */
static struct ratio ratio_of(double rate_per_s)
{
    uint64_t bits;
    uint64_t mantissa;
    int biased;
    unsigned low;

    static_assert(sizeof(bits) == sizeof(rate_per_s) && DBL_MANT_DIG == 53, "IEEE 754 binary64");
    (void)memcpy(&bits, &rate_per_s, sizeof(bits));
    biased = (int)(bits >> 52);
    mantissa = bits & ((UINT64_C(1) << 52) - 1);
    if (biased == 0)
        biased = 1; /* subnormal: no leading one */
    else
        mantissa |= UINT64_C(1) << 52;
    low = LS_LOW_BIT(mantissa);
    return (struct ratio){ .odd = mantissa >> low, .exponent = biased - 1075 + (int)low };
}

static uint64_t divide(ls_u128 x, uint64_t by)
{
    /* The plain case, in a fraction of the time. */
    return x <= UINT64_MAX ? (uint64_t)x / by : (uint64_t)(x / by);
}

/* floor(k / rate) in nanoseconds since the start; INT64_MAX if it never comes. */
static int64_t instant_of(double rate_per_s, uint64_t k)
{
    struct ratio rate;
    ls_u128 scaled = (ls_u128)k * (ls_u128)LS_NS_PER_S;

    /* Below this the shifted product is under 2^(63 + 53) and cannot overflow. */
    if ((double)k * 1e9 / rate_per_s >= 0x1p62)
        return INT64_MAX;
    rate = ratio_of(rate_per_s);
    if (rate.exponent >= 0)
        return (int64_t)divide(scaled >> rate.exponent, rate.odd);
    return k == 0 ? 0 : (int64_t)divide(scaled << -rate.exponent, rate.odd);
}

/* at - start, or the end of time. */
static int64_t since(int64_t at_ns, int64_t start_ns)
{
    ls_i128 ns = (ls_i128)at_ns - start_ns;

    return ns > INT64_MAX ? INT64_MAX : (int64_t)ns;
}

/* Smallest k whose instant is at or after since_ns. */
static uint64_t first_at(double rate_per_s, int64_t since_ns)
{
    struct ratio rate;
    ls_u128 scaled;
    ls_u128 unit = (ls_u128)LS_NS_PER_S;

    if (since_ns <= 0)
        return 0;
    rate = ratio_of(rate_per_s);
    scaled = (ls_u128)(uint64_t)since_ns * rate.odd; /* below 2^(63 + 53) */
    if (rate.exponent >= 0)
        scaled <<= rate.exponent; /* rate is below 2^30 */
    else if (rate.exponent > -97)
        unit <<= -rate.exponent;
    else
        return 1; /* the unit is beyond any scaled value */
    return (uint64_t)((scaled + unit - 1) / unit);
}

/* ---- pieces ---------------------------------------------------------------------------------- */

#define PIECES_MAX_NS (INT64_C(10) * 366 * 86400 * LS_NS_PER_S)
#define RATE_UNIT     0x1p30                       /* per 1/s */
#define ARRIVAL       ((ls_u128)LS_NS_PER_S << 31) /* one, as struct ls_rate_piece counts them */

static bool piece_is_fine(const struct ls_rate_piece *piece, int64_t after_ns)
{
    return piece->at_ns > after_ns && piece->at_ns <= PIECES_MAX_NS && piece->from_per_s >= 0 &&
           piece->from_per_s <= RATE_MAX_PER_S && piece->to_per_s >= 0 &&
           piece->to_per_s <= RATE_MAX_PER_S;
}

enum ls_err ls_rate_pieces_init(struct ls_rate_piece *pieces, size_t count, struct ls_diag *diag)
{
    ls_u128 before = 0;

    if (count == 0 || pieces[0].at_ns != 0 ||
        pieces[count - 1].from_per_s != pieces[count - 1].to_per_s)
        return ls_fail(diag, LS_ERANGE, "rates begin at 0 and end with one that stays");
    for (size_t i = 0; i < count; i++) {
        struct ls_rate_piece *piece = &pieces[i];

        if (!piece_is_fine(piece, i > 0 ? piece[-1].at_ns : -1))
            return ls_fail(diag, LS_ERANGE,
                           "rate %zu, from %g/s to %g/s, is not from 0 to 1G/s, or out of order", i,
                           piece->from_per_s, piece->to_per_s);
        piece->from = (uint64_t)(piece->from_per_s * RATE_UNIT + 0.5);
        piece->to = (uint64_t)(piece->to_per_s * RATE_UNIT + 0.5);
        if (i > 0) /* below 2^61 x 2^59 for ten years of them */
            before += ((ls_u128)piece[-1].from + piece[-1].to) *
                      (uint64_t)(piece->at_ns - piece[-1].at_ns);
        piece->before = before;
    }
    return LS_OK;
}

/* When c arrivals have come since the piece began: c = r t + s t^2 / 2, solved without taking a
 * difference of nearly equal numbers. */
static int64_t solve_change(const struct ls_rate_piece *piece, double c)
{
    int64_t length_ns = piece[1].at_ns - piece->at_ns;
    double rate = (double)piece->from / RATE_UNIT;
    double slope = ((double)piece->to / RATE_UNIT - rate) / ((double)length_ns / 1e9);
    double inner = rate * rate + 2 * slope * c;
    double ns;

    if (c <= 0)
        return 0;
    ns = 2 * c / (rate + sqrt(inner > 0 ? inner : 0)) * 1e9;
    return ns < (double)length_ns ? (int64_t)ns : length_ns;
}

static int64_t piece_instant(const struct ls_rate_piece *piece, bool is_last, ls_u128 arrivals)
{
    ls_u128 left = arrivals - piece->before;
    ls_u128 ns;

    if (!is_last && piece->from != piece->to)
        return piece->at_ns + solve_change(piece, (double)left / (double)ARRIVAL);
    if (piece->from == 0)
        return INT64_MAX;
    ns = left <= UINT64_MAX ? (uint64_t)left / (2 * piece->from) : left / (2 * piece->from);
    return ns > (ls_u128)(INT64_MAX - piece->at_ns) ? INT64_MAX : piece->at_ns + (int64_t)ns;
}

/* Time of arrival k since the start. Moves the schedule to its piece, which never goes back. */
static int64_t pieces_instant(struct ls_schedule *schedule, uint64_t k)
{
    const struct ls_arrivals *arrivals = schedule->arrivals;
    ls_u128 wanted = k * ARRIVAL; /* below 2^64 x 2^61 */

    /* The last of those that begin when so many have come: what is due at an edge is the new
     * rate's, and a rate of 0 is passed over. */
    while (schedule->piece + 1 < arrivals->piece_count &&
           arrivals->pieces[schedule->piece + 1].before <= wanted)
        schedule->piece++;
    return piece_instant(&arrivals->pieces[schedule->piece],
                         schedule->piece + 1 == arrivals->piece_count, wanted);
}

/* Smallest k whose instant is at or after since_ns. */
static uint64_t pieces_first_at(const struct ls_arrivals *arrivals, int64_t since_ns)
{
    uint64_t low = 0, high = UINT64_C(1) << 63; /* more than 1G/s make in 292 years */

    while (low < high) {
        struct ls_schedule schedule = { .arrivals = arrivals };
        uint64_t middle = low + (high - low) / 2;

        if (pieces_instant(&schedule, middle) >= since_ns)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

/* ---- Poisson --------------------------------------------------------------------------------- */

#define POISSON_GROUP 16u    /* numbers in (0, 1] whose product is far from underflow */
#define FRACTION      0x1p16 /* of a nanosecond */
#define LONGEST_NS    0x1p46 /* 19 hours; nobody waits that long for the next 16 */

/* The time that a product of uniform numbers stands for, in 2^-16 ns. */
static int64_t poisson_span(const struct ls_arrivals *arrivals, double product)
{
    double ns = ls_minus_log(product) * (1e9 / arrivals->rate_per_s);

    return (int64_t)((ns < LONGEST_NS ? ns : LONGEST_NS) * FRACTION + 0.5);
}

static int64_t poisson_add(int64_t a, int64_t b)
{
    return a > INT64_MAX - b ? INT64_MAX : a + b;
}

static void poisson_walk(struct ls_schedule *schedule, uint64_t to)
{
    uint64_t stream = schedule->poisson.stream;
    uint64_t k = schedule->poisson.k;
    double product = schedule->poisson.product;

    while (k < to) {
        if (++k % POISSON_GROUP == 0) {
            schedule->poisson.group =
                poisson_add(schedule->poisson.group, poisson_span(schedule->arrivals, product));
            product = 1;
        }
        product *= ls_uniform_at(stream, k);
    }
    schedule->poisson.k = k;
    schedule->poisson.product = product;
}

static int64_t poisson_instant(struct ls_schedule *schedule)
{
    int64_t at;

    poisson_walk(schedule, schedule->k);
    at = poisson_add(schedule->poisson.group,
                     poisson_span(schedule->arrivals, schedule->poisson.product));
    return at == INT64_MAX ? at : at >> 16;
}

/* ---- all of them ----------------------------------------------------------------------------- */

static bool rate_is_fine(double rate_per_s)
{
    return rate_per_s > 0 && rate_per_s <= RATE_MAX_PER_S; /* false for NaN */
}

enum ls_err ls_schedule_init(struct ls_schedule *schedule, const struct ls_arrivals *arrivals,
                             int64_t start_ns, uint64_t first, uint64_t stride,
                             struct ls_diag *diag)
{
    if ((unsigned)arrivals->law >= LS_LAW_COUNT)
        return ls_fail(diag, LS_ERANGE, "arrival law %d is not known", (int)arrivals->law);
    if (arrivals->law == LS_LAW_PIECES ? arrivals->piece_count == 0
                                       : !rate_is_fine(arrivals->rate_per_s))
        return ls_fail(diag, LS_ERANGE, "rate %g/s is not above 0 and at most 1G/s",
                       arrivals->rate_per_s);
    if (first >= stride)
        return ls_fail(diag, LS_ERANGE,
                       "arrival %" PRIu64 " is not the first of every %" PRIu64 "th", first,
                       stride);
    *schedule = (struct ls_schedule){
        .arrivals = arrivals, .start_ns = start_ns, .k = first, .stride = stride
    };
    schedule->poisson.stream = ls_uniform_stream(arrivals->seed);
    schedule->poisson.product = ls_uniform_at(schedule->poisson.stream, 0);
    return LS_OK;
}

int64_t ls_schedule_peek(struct ls_schedule *schedule)
{
    const struct ls_arrivals *arrivals = schedule->arrivals;
    int64_t since_ns;

    if (arrivals->law == LS_LAW_CONSTANT)
        since_ns = instant_of(arrivals->rate_per_s, schedule->k);
    else if (arrivals->law == LS_LAW_POISSON)
        since_ns = poisson_instant(schedule);
    else
        since_ns = pieces_instant(schedule, schedule->k);
    if (since_ns > INT64_MAX - (schedule->start_ns > 0 ? schedule->start_ns : 0))
        return INT64_MAX;
    return since_ns == INT64_MAX ? INT64_MAX : schedule->start_ns + since_ns;
}

void ls_schedule_advance(struct ls_schedule *schedule)
{
    schedule->k += schedule->stride;
}

static uint64_t poisson_count(const struct ls_arrivals *arrivals, int64_t from_ns, int64_t to_ns)
{
    struct ls_schedule schedule;
    uint64_t count = 0;
    int64_t at_ns;

    if (ls_schedule_init(&schedule, arrivals, 0, 0, 1, NULL) != LS_OK)
        return 0; /* such a schedule has none */
    for (; (at_ns = ls_schedule_peek(&schedule)) < to_ns; ls_schedule_advance(&schedule))
        count += at_ns >= from_ns;
    return count;
}

uint64_t ls_schedule_count(const struct ls_arrivals *arrivals, int64_t start_ns, int64_t from_ns,
                           int64_t to_ns)
{
    if (to_ns <= from_ns || to_ns <= start_ns)
        return 0;
    from_ns = from_ns < start_ns ? 0 : since(from_ns, start_ns);
    to_ns = since(to_ns, start_ns);
    switch (arrivals->law) {
    case LS_LAW_CONSTANT:
        assert(rate_is_fine(arrivals->rate_per_s));
        return first_at(arrivals->rate_per_s, to_ns) - first_at(arrivals->rate_per_s, from_ns);
    case LS_LAW_POISSON:
        return poisson_count(arrivals, from_ns, to_ns);
    default:
        return pieces_first_at(arrivals, to_ns) - pieces_first_at(arrivals, from_ns);
    }
}
