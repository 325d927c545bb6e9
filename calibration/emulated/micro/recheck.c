/* What a level-triggered wait asks for descriptors that were drained since the last one. */
#include "far_end.h"

void bench_far_recheck(const struct options *options)
{
    struct pair pair;
    struct connections connections;
    struct waiter waiter;
    struct samples samples;
    pair_open(&pair, options, options->n + SPARE_DESCRIPTORS);
    connections_open(&connections, &pair, options->n);
    waiter_open(&waiter, MECHANISM_EPOLL, connections.server_fds, options->n);
    waiter.expected = (int)options->ready;
    samples_open(&samples);
    for (int i = 0; i < REPETITIONS; i++) {
        connections_ready(&connections, &pair, options->n - options->ready, options->ready);
        waiter_check(&waiter);
        for (long k = options->n - options->ready; k < options->n; k++) {
            (void)receive_bytes(connections.server_fds[k], 1);
        }
        await_quiet(tick_period_ns() / 2);
        uint64_t first = ticks_now();
        int n = waiter_wait(&waiter, 0);
        uint64_t ticks = ticks_now() - first;
        if (n != 0) {
            fail("epoll_recheck: %d descriptors are ready after they were drained", n);
        }
        add_warm(&samples, i, (double)ticks, 1);
    }
    samples_print(&samples, options, options->bench->name, "");
    samples_close(&samples);
    waiter_close(&waiter);
    connections_close(&connections, &pair);
    pair_close(&pair);
}
