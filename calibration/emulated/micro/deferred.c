/* What calls leave for later: work that the next tick or the next sleep pays.
 *
 * deferred_tick    n connections closed, then the next timer tick, less a tick without
 * deferred_again   n calls of accept that found nothing, then the next timer tick
 * deferred_sleep   n calls of accept that found nothing, then a wait that sleeps: busy time */
#include "far_end.h"

struct leavers {
    struct connections connections;
    struct served *served;
};

static void leavers_come(struct leavers *leavers, const struct options *options, struct pair *pair)
{
    connections_open(&leavers->connections, pair, options->n);
    leavers->served = watched_open(options, options->n + SPARE_DESCRIPTORS);
    for (long i = 0; i < options->n; i++) {
        watch(leavers->served, leavers->connections.server_fds[i]);
    }
}

static void leavers_go(struct leavers *leavers)
{
    for (long i = 0; i < leavers->connections.n; i++) {
        unwatch(leavers->served, leavers->connections.server_fds[i]);
        close_fd(leavers->connections.server_fds[i]);
    }
}

static void leavers_end(struct leavers *leavers, struct pair *pair)
{
    long n = leavers->connections.n;
    uint64_t due_ns = monotonic_ns() + far_end_delay_ns() + SETTLE_NS;
    if (n > 0) {
        clients_reset((uint64_t)leavers->connections.clients[0], n, due_ns, 0);
    }
    sleep_until(due_ns + (uint64_t)n * PACKET_NS_MAX + SETTLE_NS);
    served_close(leavers->served);
    leavers->connections.n = 0; /* closed already */
    connections_close(&leavers->connections, pair);
}

void bench_far_deferred_tick(const struct options *options)
{
    struct pair pair;
    struct samples samples;
    struct gaps gaps;
    /* No FIN gets a reply before the tick. */
    pair_open_delayed(&pair, options, options->n + SPARE_DESCRIPTORS, 2 * tick_period_ns());
    samples_open(&samples);
    gaps_open(&gaps);
    for (int i = 0; i < REPETITIONS; i++) {
        struct leavers leavers;
        leavers_come(&leavers, options, &pair);
        await_quiet(tick_period_ns() / 2);
        leavers_go(&leavers);
        gaps_record(&gaps, monotonic_ns() + tick_period_ns());
        /* The first has what was left; if another follows, it is a tick without. */
        if (gaps.n == 0) {
            fail("no timer tick came");
        }
        add_warm(&samples, i, (double)gaps.length_ns[0], (uint64_t)options->n + 1);
        leavers_end(&leavers, &pair);
    }
    samples_print(&samples, options, options->bench->name, "");
    samples_close(&samples);
    gaps_close(&gaps);
    pair_close(&pair);
}

/* Each of them made a socket and a file before it looked, and threw them away. */
void bench_far_deferred_again(const struct options *options)
{
    struct pair pair;
    struct samples samples;
    struct gaps gaps;
    pair_open(&pair, options, SPARE_DESCRIPTORS);
    samples_open(&samples);
    gaps_open(&gaps);
    for (int i = 0; i < REPETITIONS; i++) {
        await_quiet(tick_period_ns() / 2);
        for (long k = 0; k < options->n; k++) {
            if (accept_one(pair.listener) >= 0) {
                fail("a connection came");
            }
        }
        gaps_record(&gaps, monotonic_ns() + tick_period_ns());
        if (gaps.n == 0) {
            fail("no timer tick came");
        }
        add_warm(&samples, i, (double)gaps.length_ns[0], (uint64_t)options->n + 1);
    }
    samples_print(&samples, options, options->bench->name, "");
    samples_close(&samples);
    gaps_close(&gaps);
    pair_close(&pair);
}

/* Failed calls of accept leave work without a packet, whose timers would disturb the sleep. */
void bench_far_deferred_sleep(const struct options *options)
{
    struct pair pair;
    struct connections waking;
    struct samples busy;
    pair_open(&pair, options, SPARE_DESCRIPTORS);
    connections_open(&waking, &pair, 1);
    struct served *served = watched_open(options, SPARE_DESCRIPTORS);
    watch(served, waking.server_fds[0]);
    samples_open(&busy);
    for (int i = 0; i < REPETITIONS * 4; i++) {
        await_quiet((uint64_t)options->n * PACKET_NS_MAX + SETTLE_NS);
        uint64_t due_ns = monotonic_ns() + 3 * far_end_delay_ns() +
                          (uint64_t)options->n * PACKET_NS_MAX + SETTLE_NS;
        clients_send((uint64_t)waking.clients[0], 1, due_ns, 0, WIRE_KEEP_ALIVE, REPLY_BYTES);
        for (long k = 0; k < options->n; k++) {
            if (accept_one(pair.listener) >= 0) {
                fail("a connection came");
            }
        }
        uint64_t idle_ns = far_end_status().idle_ns;
        uint64_t first = ticks_now();
        wait_for(served, 1);
        uint64_t last = ticks_now();
        idle_ns = far_end_status().idle_ns - idle_ns;
        add_warm(&busy, i, (double)(last - first) - (double)idle_ns, 1);
        take_request(waking.server_fds[0]);
        reply(waking.server_fds[0], REPLY_BYTES);
        sleep_until(monotonic_ns() + 2 * far_end_delay_ns() + SETTLE_NS);
    }
    /* The kernel reports idle time in microseconds: the mean is exact enough. */
    print_mean(&busy, options, options->bench->name, "");
    samples_close(&busy);
    served_close(served);
    connections_close(&waking, &pair);
    pair_close(&pair);
}
