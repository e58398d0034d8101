#include "agent/load/ws_room.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "agent/load/ws_handshake.h"

#define NUMBER_MASK 0xffffffu /* of a message, as it travels; a sender's numbers go round */
#define SENDER_MAX  0x7fffffu
#define LAST_WORD   0x800000u /* beside the sender: there are no more */
#define TIME_DIGITS 7u
#define TIME_SHIFT  6 /* instants travel in units of 64 ns */
#define LATE_BITS   32u
#define NOT_HERE    UINT32_MAX

static const unsigned char digits[64] =
    "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz-_";

/* What a member has heard of a sender. */
struct pair {
    uint32_t next; /* number of the sender's next message */
    uint32_t late; /* bit i: number next - 1 - i is missing */
};

/* A message that not all members of this worker have yet. */
struct said {
    uint64_t stamp; /* messages of this worker are numbered in the order of their sending */
    uint32_t op;
    uint32_t number;
    uint32_t left; /* members that have to get it; 0: unused */
    bool lost;     /* for one of them */
};

/* A connection of this worker. */
struct member {
    uint64_t joined_at; /* the stamp of the next message then */
    uint32_t next;      /* number of its next message */
    uint32_t ends;      /* senders whose last word it has heard */
    bool joined;
    struct said *said; /* said_mask + 1 of them */
};

/* A connection of the whole room. */
struct sender {
    uint32_t member;  /* of this worker; NOT_HERE */
    bool same_host;   /* and so the same clock */
    uint8_t head_len; /* of what stands before its messages */
};

struct ws_room {
    const struct agent_driver_env *env;
    const struct load_room *rules;
    const unsigned char *payload; /* of every message, but for its first bytes */
    size_t payload_len;
    uint32_t count; /* of the whole room */
    uint32_t here;  /* of this worker */
    uint32_t joined;
    uint32_t said_mask;
    uint64_t stamp;
    struct pair *pairs;     /* owned: here x count */
    struct member *members; /* owned */
    struct said *said;      /* owned: of all members */
    struct sender *senders; /* owned */
    unsigned char *heads;   /* owned: of each sender, head_max bytes */
    size_t head_max;
    uint8_t value_of[256]; /* of a digit; 0xff: it is none */
};

/* ---- life ------------------------------------------------------------------------------------ */

static size_t head_longest(const struct load_room *rules)
{
    return rules->before.len + (rules->named ? WS_NAME_MAX : 0) + rules->between.len;
}

size_t ws_room_longest(const struct load_workload *workload)
{
    const struct load_room *rules = workload->websocket->room;
    size_t delivery = head_longest(rules) + workload->requests[0].bytes.len + rules->after.len;

    return delivery > rules->ready.len ? delivery : rules->ready.len;
}

static unsigned char *append(unsigned char *at, struct ls_bytes text)
{
    if (text.len > 0)
        memcpy(at, text.data, text.len);
    return at + text.len;
}

static void init_sender(struct ws_room *room, uint32_t number)
{
    const struct load_workload *w = room->env->workload;
    struct sender *sender = &room->senders[number];
    uint32_t worker = number % w->workers_total;
    unsigned char *head = room->heads + number * room->head_max;
    unsigned char *end = append(head, room->rules->before);

    if (room->rules->named) {
        char name[WS_NAME_MAX];

        end = append(end, (struct ls_bytes){ (unsigned char *)name, ws_name_write(name, number) });
    }
    end = append(end, room->rules->between);
    sender->head_len = (uint8_t)(end - head);
    sender->same_host = worker >= w->worker_base && worker - w->worker_base < w->workers;
    sender->member =
        worker == room->env->number % w->workers_total ? number / w->workers_total : NOT_HERE;
}

enum ls_err ws_room_create(const struct agent_driver_env *env, uint32_t connections,
                           struct ws_room **out_room, struct ls_diag *diag)
{
    const struct load_workload *w = env->workload;
    struct ws_room *room = calloc(1, sizeof(*room));
    uint32_t depth = 1;

    if (connections < 2 && !w->websocket->room->to_sender) {
        free(room);
        return ls_fail(diag, LS_EINVAL,
                       "in a room whose senders do not hear themselves each thread needs two "
                       "connections: %" PRIu32 " for %" PRIu32 " threads are too few",
                       w->connections, w->workers_total);
    }
    if (room == NULL)
        return ls_fail(diag, LS_ENOMEM, "no memory for a room");
    while (depth < w->pipeline)
        depth *= 2;
    room->env = env;
    room->rules = w->websocket->room;
    room->payload = w->requests[0].bytes.data;
    room->payload_len = w->requests[0].bytes.len;
    room->count = w->connections;
    room->here = connections;
    room->said_mask = depth - 1;
    room->head_max = head_longest(room->rules) + 1;
    room->pairs = calloc((size_t)connections * room->count, sizeof(*room->pairs));
    room->members = calloc(connections, sizeof(*room->members));
    room->said = calloc((size_t)connections * depth, sizeof(*room->said));
    room->senders = calloc(room->count, sizeof(*room->senders));
    room->heads = calloc(room->count, room->head_max);
    if (room->pairs == NULL || room->members == NULL || room->said == NULL ||
        room->senders == NULL || room->heads == NULL) {
        ws_room_destroy(room);
        return ls_fail(diag, LS_ENOMEM, "no memory for a room of %u", w->connections);
    }
    for (uint32_t i = 0; i < connections; i++)
        room->members[i].said = room->said + (size_t)i * depth;
    for (uint32_t i = 0; i < room->count; i++)
        init_sender(room, i);
    memset(room->value_of, 0xff, sizeof(room->value_of));
    for (unsigned i = 0; i < sizeof(digits); i++)
        room->value_of[digits[i]] = (uint8_t)i;
    *out_room = room;
    return LS_OK;
}

void ws_room_destroy(struct ws_room *room)
{
    if (room == NULL)
        return;
    free(room->pairs);
    free(room->members);
    free(room->said);
    free(room->senders);
    free(room->heads);
    free(room);
}

/* ---- who is in ------------------------------------------------------------------------------- */

static struct pair *pair_of(const struct ws_room *room, uint32_t me, uint32_t sender)
{
    return &room->pairs[(size_t)me * room->count + sender];
}

static uint32_t number_of(const struct ws_room *room, uint32_t member)
{
    const struct load_workload *w = room->env->workload;

    return member * w->workers_total + (uint32_t)(room->env->number % w->workers_total);
}

void ws_room_join(struct ws_room *room, uint32_t me)
{
    room->members[me].joined = true;
    room->members[me].joined_at = room->stamp;
    room->joined++;
}

static void end_said(struct ws_room *room, struct said *said, const struct agent_reply *reply)
{
    said->left = 0;
    room->env->done(room->env->ctx, said->op, reply);
}

/* One member less has to get it. */
static void settle(struct ws_room *room, struct said *said)
{
    static const struct agent_reply fine = { .outcome = LOAD_OK, .why = "" };
    static const struct agent_reply lost = { .outcome = LOAD_BAD_BODY,
                                             .why = "a member of the room never got the message" };

    if (--said->left == 0)
        end_said(room, said, said->lost ? &lost : &fine);
}

void ws_room_part(struct ws_room *room, uint32_t me)
{
    struct member *m = &room->members[me];

    if (!m->joined)
        return;
    m->joined = false;
    room->joined--;
    for (uint32_t i = 0; i < room->here; i++) {
        const struct pair *pair = pair_of(room, me, number_of(room, i));

        for (uint32_t k = 0; k <= room->said_mask; k++) {
            struct said *said = &room->members[i].said[k];

            if (said->left == 0 || said->stamp < m->joined_at ||
                (i == me && !room->rules->to_sender) || (int32_t)(said->number - pair->next) < 0)
                continue;
            said->lost = true;
            settle(room, said);
        }
    }
}

void ws_room_forget(struct ws_room *room, uint32_t me, const struct agent_reply *reply)
{
    for (uint32_t k = 0; k <= room->said_mask; k++) {
        struct said *said = &room->members[me].said[k];

        if (said->left > 0)
            end_said(room, said, reply);
    }
}

/* ---- what is said ---------------------------------------------------------------------------- */

static void put_digits(unsigned char *out, uint64_t value, unsigned count)
{
    for (unsigned i = count; i-- > 0; value >>= 6)
        out[i] = digits[value & 63];
}

/* Of the 15 digits before it: an odd weight each, so that it tells any change of one of them. */
static uint8_t check_of(const struct ws_room *room, const unsigned char *head)
{
    unsigned sum = 0;

    for (unsigned i = 0; i < LOAD_WS_NUMBER_BYTES - 1; i++)
        sum += (2 * i + 1) * room->value_of[head[i]];
    return sum & 63;
}

static void put_head(const struct ws_room *room, uint32_t me, uint32_t flag, int64_t due_ns,
                     unsigned char out[LOAD_WS_NUMBER_BYTES])
{
    put_digits(out, number_of(room, me) | flag, 4);
    put_digits(out + 4, room->members[me].next & NUMBER_MASK, 4);
    put_digits(out + 8, (uint64_t)due_ns >> TIME_SHIFT, TIME_DIGITS);
    out[15] = digits[check_of(room, out)];
}

void ws_room_say(struct ws_room *room, uint32_t me, uint32_t op,
                 unsigned char out[LOAD_WS_NUMBER_BYTES])
{
    struct member *m = &room->members[me];
    struct said *said = &m->said[m->next & room->said_mask];
    uint32_t others = room->joined - !room->rules->to_sender;

    put_head(room, me, 0, room->env->due(room->env->ctx, op), out);
    /* If there is nobody to hear it, it ends with its time or its connection. */
    *said = (struct said){
        .stamp = room->stamp++, .op = op, .number = m->next++, .left = others > 0 ? others : 1
    };
    room->env->messages->sent++;
    room->env->messages->expected += room->count - !room->rules->to_sender;
}

void ws_room_say_last(struct ws_room *room, uint32_t me, unsigned char out[LOAD_WS_NUMBER_BYTES])
{
    put_head(room, me, LAST_WORD, 0, out);
}

/* ---- what is heard --------------------------------------------------------------------------- */

struct heard {
    uint32_t sender;
    uint32_t number; /* as it travels */
    bool last;
    uint64_t due; /* the low 48 bits of the instant */
};

static bool get_digits(const struct ws_room *room, const unsigned char *in, unsigned count,
                       uint64_t *out)
{
    uint64_t value = 0;
    unsigned bad = 0;

    for (unsigned i = 0; i < count; i++) {
        uint8_t digit = room->value_of[in[i]];

        bad |= digit;
        value = value << 6 | digit;
    }
    *out = value;
    return bad < 64;
}

static bool equal(const unsigned char *a, const unsigned char *b, size_t len)
{
    return len == 0 || memcmp(a, b, len) == 0;
}

static bool parse(const struct ws_room *room, struct ls_bytes text, struct heard *out)
{
    size_t behind = room->payload_len + room->rules->after.len;
    const unsigned char *payload;
    uint64_t sender, number;
    size_t head;

    if (text.len < behind)
        return false;
    head = text.len - behind;
    payload = text.data + head;
    if (!get_digits(room, payload, 4, &sender) || !get_digits(room, payload + 4, 4, &number) ||
        !get_digits(room, payload + 8, TIME_DIGITS, &out->due) ||
        payload[15] != digits[check_of(room, payload)])
        return false;
    out->due <<= TIME_SHIFT;
    out->last = (sender & LAST_WORD) != 0;
    out->sender = (uint32_t)sender & SENDER_MAX;
    out->number = (uint32_t)number;
    return out->sender < room->count && head == room->senders[out->sender].head_len &&
           equal(text.data, room->heads + out->sender * room->head_max, head) &&
           equal(payload + LOAD_WS_NUMBER_BYTES, room->payload + LOAD_WS_NUMBER_BYTES,
                 room->payload_len - LOAD_WS_NUMBER_BYTES) &&
           equal(payload + room->payload_len, room->rules->after.data, room->rules->after.len);
}

/* The sender's message of that number needs me no longer. */
static void settle_for(struct ws_room *room, uint32_t me, uint32_t sender, uint32_t number,
                       bool lost)
{
    uint32_t member = room->senders[sender].member;
    struct said *said;

    if (member == NOT_HERE)
        return;
    said = &room->members[member].said[number & room->said_mask];
    if (said->left == 0 || said->number != number || said->stamp < room->members[me].joined_at)
        return;
    said->lost = said->lost || lost;
    settle(room, said);
}

/* Messages up to before that number are missing. */
static void skip(struct ws_room *room, uint32_t me, uint32_t sender, struct pair *pair,
                 uint32_t count)
{
    /* Those that are not in flight any more need nobody: the ring is the longest that matters. */
    uint32_t far = count > room->said_mask + 1 ? count - room->said_mask - 1 : 0;

    for (uint32_t i = far; i < count; i++)
        settle_for(room, me, sender, pair->next + i, true);
    room->env->messages->lost += count;
    pair->late =
        count < LATE_BITS ? pair->late << count | ((UINT32_C(1) << count) - 1) : UINT32_MAX;
    pair->next += count;
}

static void take(struct ws_room *room, uint32_t me, const struct heard *heard)
{
    struct load_messages *messages = room->env->messages;
    struct pair *pair = pair_of(room, me, heard->sender);
    uint32_t ahead = (heard->number - pair->next) & NUMBER_MASK;
    uint32_t behind = (pair->next - heard->number) & NUMBER_MASK; /* 1: the one before next */

    if (ahead > NUMBER_MASK / 2) {
        uint32_t bit = behind <= LATE_BITS ? UINT32_C(1) << (behind - 1) : 0;

        if ((pair->late & bit) == 0) {
            messages->duplicated++;
            return;
        }
        pair->late &= ~bit;
        messages->lost--; /* sums are modulo 2^64, and come out right */
        messages->out_of_order++;
        messages->received++;
        return;
    }
    if (LS_UNLIKELY(ahead > 0))
        skip(room, me, heard->sender, pair, ahead);
    messages->received++;
    pair->late <<= 1;
    settle_for(room, me, heard->sender, pair->next++, false);
    if (room->senders[heard->sender].same_host)
        room->env->delivered(room->env->ctx, heard->due);
}

/* Of this worker's own, we know what they have said. */
static bool was_said(const struct ws_room *room, const struct heard *heard)
{
    uint32_t member = room->senders[heard->sender].member;
    uint32_t ago;

    if (member == NOT_HERE)
        return true;
    ago = (room->members[member].next - heard->number) & NUMBER_MASK;
    return heard->last ? ago == 0 : ago > 0 && ago <= NUMBER_MASK / 2;
}

bool ws_room_hear(struct ws_room *room, uint32_t me, struct ls_bytes text)
{
    struct heard heard;

    if (!parse(room, text, &heard) || !was_said(room, &heard))
        return false;
    if (LS_UNLIKELY(heard.last)) {
        struct pair *pair = pair_of(room, me, heard.sender);
        uint32_t ahead = (heard.number - pair->next) & NUMBER_MASK;

        if (ahead > 0 && ahead <= NUMBER_MASK / 2)
            skip(room, me, heard.sender, pair, ahead);
        room->members[me].ends++;
        return true;
    }
    take(room, me, &heard);
    return true;
}

bool ws_room_is_complete(const struct ws_room *room, uint32_t me)
{
    return room->members[me].ends >= room->count - !room->rules->to_sender;
}

void ws_room_balance(struct ws_room *room)
{
    for (uint32_t me = 0; me < room->here; me++) {
        for (uint32_t i = 0; i < room->here; i++) {
            struct pair *pair = pair_of(room, me, number_of(room, i));

            if (i == me && !room->rules->to_sender)
                continue;
            room->env->messages->lost += room->members[i].next - pair->next;
            pair->next = room->members[i].next;
        }
    }
}
