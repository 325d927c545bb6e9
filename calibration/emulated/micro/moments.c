/* When within a call it does what the world outside sees.
 *
 *     write    |---- write_leaves ---->| packet on the way ........... | returns
 *     accept   |---- accept_looks ---->| looks at the queue, EAGAIN .. | returns
 *
 * The time of a packet's departure is its arrival at the client, less the delay. When accept looks
 * is found by halving: a handshake that is complete before is seen, a later one is not. */
#include "far_end.h"

#include <stdio.h>

enum { CALL_NS_MAX = 4000, CLOSE_NS = 16, GAP_NS_LEAST = 2000 };

struct answer {
    struct pair *pair;
    long reply_bytes;
    uint64_t begun_ticks;
};

static void answer_spinning(void *context)
{
    struct answer *answer = context;
    int fd;
    while ((fd = accept_one(answer->pair->listener)) < 0)
        spend_instructions();
    while (receive_bytes(fd, REQUEST_BYTES) == 0)
        spend_instructions();
    answer->begun_ticks = ticks_now();
    reply(fd, answer->reply_bytes);
    close_fd(fd);
}

void bench_far_write_leaves(const struct options *options)
{
    struct pair pair;
    struct samples samples;
    pair_open(&pair, options, SPARE_DESCRIPTORS);
    struct answer answer = {.pair = &pair, .reply_bytes = options->reply};
    struct wire_row row = {.n_requests = 1, .request_bytes = REQUEST_BYTES,
                           .reply_bytes = (uint64_t)options->reply};
    samples_open(&samples);
    for (int i = 0; i < REPETITIONS; i++) {
        await_quiet(tick_period_ns() / 2);
        struct wire_record record = clients_play(&row, 1, answer_spinning, &answer);
        uint64_t left_ns = play_begin_ns() + (uint64_t)record.done_ns - far_end_delay_ns();
        samples_add(&samples, (double)ticks_at(left_ns) - (double)answer.begun_ticks, 1);
    }
    samples_print(&samples, options, options->bench->name, "");
    samples_close(&samples);
    pair_close(&pair);
}

/* How long after its SYN is due a connection's last packet interrupts a spinning program. */
static uint64_t completed_after_ns(struct pair *pair, struct gaps *gaps)
{
    await_quiet(tick_period_ns() / 2);
    uint64_t due_ns = monotonic_ns() + far_end_delay_ns() + SETTLE_NS;
    (void)clients_connect(1, due_ns, 0);
    gaps_record(gaps, due_ns + 2 * far_end_delay_ns() + SETTLE_NS);
    close_fd(accept_one(pair->listener));
    for (size_t i = gaps->n; i > 0; i--)
        if (gaps->length_ns[i - 1] > GAP_NS_LEAST)
            return gaps->begin_ns[i - 1] - due_ns;
    fail("no packet interrupted");
}

struct look {
    bool seen;
    double offset_ns; /* from the begin of the call until the connection was complete */
};

/* Call accept so long before a connection is complete. */
static struct look look_before(struct pair *pair, uint64_t after_ns, uint64_t offset_ns)
{
    await_quiet(tick_period_ns() / 2);
    uint64_t due_ns = monotonic_ns() + far_end_delay_ns() + SETTLE_NS;
    (void)clients_connect(1, due_ns, 0);
    uint64_t complete = ticks_at(due_ns + after_ns);
    uint64_t begin;
    while ((begin = ticks_now()) < complete - offset_ns)
        ;
    int fd = accept_one(pair->listener);
    struct look look = {fd >= 0, (double)complete - (double)begin};
    sleep_until(due_ns + 2 * far_end_delay_ns() + SETTLE_NS);
    close_fd(look.seen ? fd : accept_one(pair->listener));
    return look;
}

void bench_far_accept_looks(const struct options *options)
{
    struct pair pair;
    struct gaps gaps;
    struct samples samples;
    pair_open(&pair, options, SPARE_DESCRIPTORS);
    gaps_open(&gaps);
    samples_open(&samples);
    (void)completed_after_ns(&pair, &gaps); /* the first is cold */
    uint64_t after_ns = completed_after_ns(&pair, &gaps);
    double seen = 0.0, missed = CALL_NS_MAX;
    for (uint64_t low = 0, high = CALL_NS_MAX; high - low > CLOSE_NS;) {
        uint64_t middle = (low + high) / 2;
        struct look look = look_before(&pair, after_ns, middle);
        if (look.seen) {
            low = middle;
            seen = look.offset_ns;
        } else {
            high = middle;
            missed = look.offset_ns;
        }
    }
    samples_add(&samples, (seen + missed) / 2, 1);
    samples_print(&samples, options, options->bench->name, "");
    samples_close(&samples);
    gaps_close(&gaps);
    pair_close(&pair);
}
