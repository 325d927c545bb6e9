/* The server's own waits: what is ready at once, what the ready list still holds, what comes
 * while it sleeps. */
#include "far_end.h"

#include <fcntl.h>

/* Move the last connection to a higher descriptor: select's bitmaps reach up to it. */
static void stretch(const struct connections *connections, long span)
{
    long last = connections->n - 1;
    int fd = connections->server_fds[last];
    if (connections->server_fds[0] + span - 1 <= fd)
        return;
    int moved = fcntl(fd, F_DUPFD_CLOEXEC, connections->server_fds[0] + (int)span - 1);
    if (moved < 0)
        fail_errno("descriptor %ld", span);
    close_fd(fd);
    connections->server_fds[last] = moved;
}

/* wait_ready: R of n watched connections are ready, the first of them at position `first`. */
void bench_far_wait(const struct options *options)
{
    struct pair pair;
    struct connections connections;
    struct samples samples;
    if (options->first + options->ready > options->n)
        fail_usage("--first and --ready together must be at most --n %ld", options->n);
    pair_open(&pair, options, options->span + SPARE_DESCRIPTORS);
    connections_open(&connections, &pair, options->n);
    stretch(&connections, options->span);
    struct served *served = watched_open(options, options->span + SPARE_DESCRIPTORS);
    for (long i = 0; i < options->n; i++)
        watch(served, connections.server_fds[i]);
    connections_ready(&connections, &pair, options->first, options->ready);
    samples_open(&samples);
    wait_for(served, options->ready);
    await_quiet(tick_period_ns() / 2);
    for (int i = 0; i < REPETITIONS; i++) {
        add_warm(&samples, i, (double)ticks_of_wait(served, options->ready), 1);
    }
    samples_print(&samples, options, options->bench->name, "");
    samples_close(&samples);
    served_close(served);
    connections_close(&connections, &pair);
    pair_close(&pair);
}

/* epoll_recheck: the list still has R that were drained. */
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
        for (long k = options->n - options->ready; k < options->n; k++)
            (void)receive_bytes(connections.server_fds[k], 1);
        await_quiet(tick_period_ns() / 2);
        uint64_t first = ticks_now();
        int n = waiter_wait(&waiter, 0);
        uint64_t ticks = ticks_now() - first;
        if (n != 0)
            fail("epoll_recheck: %d descriptors are ready after they were drained", n);
        add_warm(&samples, i, (double)ticks, 1);
    }
    samples_print(&samples, options, options->bench->name, "");
    samples_close(&samples);
    waiter_close(&waiter);
    connections_close(&connections, &pair);
    pair_close(&pair);
}
