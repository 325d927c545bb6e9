/* What epoll asks besides the wait: the interest list. */
#include "micro.h"

#include <string.h>
#include <sys/epoll.h>

enum { SPARE_DESCRIPTORS = 100 };

static uint64_t control_all(const struct waiter *waiter, int operation, const int *fds, long n)
{
    uint64_t first = ticks_now();
    for (long i = 0; i < n; i++) {
        epoll_control(waiter->epoll, operation, fds[i], EPOLLIN);
    }
    return ticks_now() - first;
}

void bench_epoll_control(const struct options *options)
{
    struct pair pair;
    struct connections connections;
    struct waiter waiter;
    struct samples samples;
    long n_all = options->n + options->batch;
    pair_open(&pair, options, n_all + SPARE_DESCRIPTORS);
    connections_open(&connections, &pair, n_all);
    waiter_open(&waiter, MECHANISM_EPOLL, connections.server_fds, options->n);
    samples_open(&samples);
    const int *fds = connections.server_fds + options->n;
    int kind = strcmp(options->bench->name, "epoll_add") == 0   ? 0
               : strcmp(options->bench->name, "epoll_mod") == 0 ? 1
                                                                : 2;
    uint64_t deadline_ns = now_ns() + (uint64_t)options->milliseconds * 1000000u;
    do {
        const uint64_t ticks[] = {
            control_all(&waiter, EPOLL_CTL_ADD, fds, options->batch),
            control_all(&waiter, EPOLL_CTL_MOD, fds, options->batch),
            control_all(&waiter, EPOLL_CTL_DEL, fds, options->batch),
        };
        samples_add(&samples, ticks_to_ns(ticks[kind]) / (double)options->batch,
                    (uint64_t)options->batch);
    } while (now_ns() < deadline_ns);
    samples_print(&samples, options, options->bench->name, "");
    samples_close(&samples);
    waiter_close(&waiter);
    connections_close(&connections, &pair);
    pair_close(&pair);
}
