/* What a level-triggered wait asks for descriptors that were drained since the last one. */
#include "clients.h"

#include <sys/epoll.h>

enum { SPARE_DESCRIPTORS = 100 };

struct recheck {
    struct pair *pair;
    const struct connections *connections;
    long ready;
    uint64_t deadline_ns;
};

static void send_rounds(void *context)
{
    const struct recheck *recheck = context;
    const struct connections *connections = recheck->connections;
    while (meet_again(recheck->pair, PEER, 0)) {
        for (long i = connections->n - recheck->ready; i < connections->n; i++) {
            client_send(recheck->pair, connections->clients[i], 1);
        }
        meet(recheck->pair, PEER);
    }
}

static void recheck_rounds(const struct recheck *recheck, struct waiter *waiter,
                           struct samples *samples)
{
    const struct connections *connections = recheck->connections;
    uint64_t stamp = ticks_now();
    uint64_t overhead = ticks_now() - stamp;
    while (meet_again(recheck->pair, SERVER, recheck->deadline_ns)) {
        meet(recheck->pair, SERVER);
        for (long i = connections->n - recheck->ready; i < connections->n; i++) {
            await(connections->server_fds[i], POLLIN);
        }
        /* Level-triggered: what is returned stays in the list until a wait finds it drained. */
        waiter_check(waiter);
        for (long i = connections->n - recheck->ready; i < connections->n; i++) {
            (void)receive_bytes(connections->server_fds[i], 1);
        }
        uint64_t first = ticks_now();
        int n = waiter_wait(waiter, 0);
        uint64_t ticks = ticks_now() - first;
        if (n != 0) {
            fail("epoll_recheck: %d descriptors are ready after they were drained", n);
        }
        samples_add(samples, ticks_to_ns(ticks - (overhead < ticks ? overhead : 0)), 1);
    }
}

void bench_epoll_recheck(const struct options *options)
{
    struct pair pair;
    struct connections connections;
    struct waiter waiter;
    struct samples samples;
    if (options->ready > EVENTS_MAX) {
        fail_usage("--ready must be at most %d, got %ld", EVENTS_MAX, options->ready);
    }
    pair_open(&pair, options, options->n + SPARE_DESCRIPTORS);
    connections_open(&connections, &pair, options->n);
    waiter_open(&waiter, MECHANISM_EPOLL, connections.server_fds, options->n);
    waiter.expected = (int)options->ready;
    samples_open(&samples);
    struct recheck recheck = {&pair, &connections, options->ready,
                              now_ns() + (uint64_t)options->milliseconds * 1000000u};
    peer_start(&pair, send_rounds, &recheck);
    recheck_rounds(&recheck, &waiter, &samples);
    peer_finish(&pair);
    samples_print(&samples, options, options->bench->name, "");
    samples_close(&samples);
    waiter_close(&waiter);
    connections_close(&connections, &pair);
    pair_close(&pair);
}
