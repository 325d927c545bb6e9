/* A client's reset at the last byte of a reply that finds the server's side open still, and the
 * close of such a connection, which sends nothing.
 *
 *     request x B, write x B | resets: interrupt_reset_open | tick | close x B: close_ended
 *
 * interrupt_reset and serve_close have the other order: the server closes before it is told. */
#include "far_end.h"

void bench_far_ended(const struct options *options)
{
    struct pair pair;
    struct gaps gaps;
    struct thefts thefts;
    struct samples closes;
    long n = options->burst;
    /* The last reply is written before the first client hears of one. */
    uint64_t delay = DELAY_NS + (uint64_t)n * PACKET_NS_MAX;
    pair_open_delayed(&pair, options, n + SPARE_DESCRIPTORS, delay);
    gaps_open(&gaps);
    thefts_open(&thefts);
    samples_open(&closes);
    for (int i = 0; i < REPETITIONS; i++) {
        struct connections connections;
        connections_open(&connections, &pair, n);
        uint64_t due_ns = monotonic_ns() + delay + SETTLE_NS;
        clients_send((uint64_t)connections.peer_fds[0], n, due_ns, 0, 0, options->reply);
        sleep_until(due_ns + (uint64_t)n * PACKET_NS_MAX + SETTLE_NS);
        await_quiet(4 * delay + SETTLE_NS);
        uint64_t written_ns = monotonic_ns();
        for (long k = 0; k < n; k++) {
            take_request(connections.server_fds[k]);
            reply(connections.server_fds[k], options->reply);
        }
        struct window window = {written_ns, written_ns + 4 * delay + SETTLE_NS};
        be_robbed(&gaps, window, n, i, &thefts);
        await_quiet((uint64_t)n * PACKET_NS_MAX);
        uint64_t first = ticks_now();
        for (long k = 0; k < n; k++)
            close_fd(connections.server_fds[k]);
        add_warm(&closes, i, (double)(ticks_now() - first) / (double)n, (uint64_t)n);
        connections.n = 0; /* closed already */
        connections_close(&connections, &pair);
    }
    thefts_print(&thefts, options, "interrupt_reset_open");
    print_mean(&closes, options, options->bench->name, "");
    samples_close(&closes);
    gaps_close(&gaps);
    pair_close(&pair);
}
