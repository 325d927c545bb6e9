/* When within a call it does what the world outside sees.
 *
 *     write    |---- write_leaves ---->| packet on the way ........... | returns
 *     accept   |---- accept_looks ---->| looks at the queue, EAGAIN .. | returns
 *     wait     |---- wait_looks ------>| looks at the first descriptor  | returns
 *
 * The time of a packet's departure is its arrival at the client, less the delay. When a call looks
 * is found by halving: what has come before is seen, what comes later is not. */
#include "far_end.h"

#include <stdio.h>

enum { CALL_NS_MAX = 4000, LOOK_NS_MAX = 50, CLOSE_NS = 16, GAP_NS_LEAST = 2000 };

struct answer {
    struct pair *pair;
    long reply_bytes;
    uint64_t begun_ticks;
};

static void answer_spinning(void *context)
{
    struct answer *answer = context;
    int fd;
    while ((fd = accept_one(answer->pair->listener)) < 0) {
        spend_instructions();
    }
    while (receive_bytes(fd, REQUEST_BYTES) == 0) {
        spend_instructions();
    }
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
    struct wire_row row = {
        .n_requests = 1, .request_bytes = REQUEST_BYTES, .reply_bytes = (uint64_t)options->reply};
    samples_open(&samples);
    for (int i = 0; i < REPETITIONS; i++) {
        await_quiet(tick_period_ns() / 2);
        struct wire_record record = clients_play(&row, 1, answer_spinning, &answer);
        uint64_t left_ns = play_begin_ns() + (uint64_t)record.done_ns - far_end_delay_ns();
        add_warm(&samples, i, (double)ticks_at(left_ns) - (double)answer.begun_ticks, 1);
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
    for (size_t i = gaps->n; i > 0; i--) {
        if (gaps->length_ns[i - 1] > GAP_NS_LEAST) {
            return gaps->begin_ns[i - 1] - due_ns;
        }
    }
    fail("no packet interrupted");
}

/* Halve the span of offsets until the last that is seen and the first that is not meet. */
static double last_seen_ns(bool (*is_seen)(void *context, uint64_t offset_ns, double *exact_ns),
                           void *context, uint64_t most_ns)
{
    double seen_ns = 0.0, missed_ns = (double)most_ns;
    for (uint64_t low = 0, high = most_ns; high - low > CLOSE_NS;) {
        uint64_t middle = (low + high) / 2;
        double exact_ns;
        if (is_seen(context, middle, &exact_ns)) {
            low = middle;
            seen_ns = exact_ns;
        } else {
            high = middle;
            missed_ns = exact_ns;
        }
    }
    return (seen_ns + missed_ns) / 2;
}

struct knock {
    struct pair *pair;
    uint64_t after_ns; /* from when a SYN is due until the connection is complete */
};

static bool accept_sees(void *context, uint64_t offset_ns, double *exact_ns)
{
    const struct knock *knock = context;
    await_quiet(tick_period_ns() / 2);
    uint64_t due_ns = monotonic_ns() + far_end_delay_ns() + SETTLE_NS;
    (void)clients_connect(1, due_ns, 0);
    uint64_t complete = ticks_at(due_ns + knock->after_ns);
    uint64_t begin;
    while ((begin = ticks_now()) < complete - offset_ns)
        ;
    int fd = accept_one(knock->pair->listener);
    *exact_ns = (double)complete - (double)begin;
    sleep_until(due_ns + 2 * far_end_delay_ns() + SETTLE_NS);
    close_fd(fd >= 0 ? fd : accept_one(knock->pair->listener));
    return fd >= 0;
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
    struct knock knock = {&pair, completed_after_ns(&pair, &gaps)};
    samples_add(&samples, last_seen_ns(accept_sees, &knock, CALL_NS_MAX), 1);
    samples_print(&samples, options, options->bench->name, "");
    samples_close(&samples);
    gaps_close(&gaps);
    pair_close(&pair);
}

struct view {
    struct served *served;
    int first_fd;
    uint64_t first_number;
};

static bool wait_sees(void *context, uint64_t offset_ns, double *exact_ns)
{
    const struct view *view = context;
    await_quiet(tick_period_ns() / 2);
    uint64_t due_ns = monotonic_ns() + far_end_delay_ns() + SETTLE_NS;
    clients_send(view->first_number, 1, due_ns, 0, WIRE_KEEP_ALIVE, REPLY_BYTES);
    uint64_t due = ticks_at(due_ns);
    uint64_t begin;
    while ((begin = ticks_now()) < due - offset_ns)
        ;
    int n_ready = served_wait(view->served);
    *exact_ns = (double)due - (double)begin;
    sleep_until(due_ns + SETTLE_NS);
    take_request(view->first_fd);
    reply(view->first_fd, REPLY_BYTES);
    sleep_until(monotonic_ns() + 2 * far_end_delay_ns() + SETTLE_NS);
    return n_ready == 2;
}

/* The last of n descriptors is ready all the time, so that the wait returns. */
void bench_far_wait_looks(const struct options *options)
{
    struct pair pair;
    struct connections connections;
    struct samples samples;
    pair_open(&pair, options, options->n + SPARE_DESCRIPTORS);
    connections_open(&connections, &pair, options->n);
    struct view view = {watched_open(options, options->n + SPARE_DESCRIPTORS),
                        connections.server_fds[0], (uint64_t)connections.clients[0]};
    for (long i = 0; i < options->n; i++) {
        watch(view.served, connections.server_fds[i]);
    }
    connections_ready(&connections, &pair, options->n - 1, 1);
    wait_for(view.served, 1); /* earlier reports would delay the first wait's scan */
    uint64_t most_ns = CALL_NS_MAX + (uint64_t)options->n * LOOK_NS_MAX;
    samples_open(&samples);
    samples_add(&samples, last_seen_ns(wait_sees, &view, most_ns), 1);
    samples_print(&samples, options, options->bench->name, "");
    samples_close(&samples);
    served_close(view.served);
    connections_close(&connections, &pair);
    pair_close(&pair);
}
