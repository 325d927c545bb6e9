/* Waits that return at once: what the scan, the registration and the ready ones cost. */
#include "micro.h"

enum {
    SPARE_DESCRIPTORS = 100,
    FIRST_TIMEOUT_MS = 1000, /* any timeout but 0 makes the kernel register before it scans */
};

static void measure_waits(const struct options *options, const struct connections *connections,
                          int timeout_ms, int expected)
{
    struct waiter waiter;
    struct samples samples;
    waiter_open(&waiter, options->mechanism, connections->server_fds, connections->n);
    waiter.timeout_ms = timeout_ms;
    waiter.expected = expected;
    samples_open(&samples);
    samples_measure(&samples, options, waiter_check, &waiter);
    samples_print(&samples, options, options->bench->name, "");
    samples_close(&samples);
    waiter_close(&waiter);
}

void bench_scan(const struct options *options)
{
    struct pair pair;
    struct connections connections;
    pair_open(&pair, options, options->n + SPARE_DESCRIPTORS);
    connections_open(&connections, &pair, options->n);
    measure_waits(options, &connections, 0, 0);
    connections_close(&connections, &pair);
    pair_close(&pair);
}

/* Move descriptors apart, the last one first so that none lands on one not yet moved. */
static void spread(struct connections *connections, long span)
{
    long first = connections->server_fds[0];
    long n = connections->n;
    for (long i = n - 1; i >= 0; i--) {
        long wanted = first + (n > 1 ? i * (span - 1) / (n - 1) : span - 1);
        int fd = connections->server_fds[i];
        if (wanted != fd) {
            connections->server_fds[i] = move_fd(fd, wanted);
        }
    }
}

void bench_sparse(const struct options *options)
{
    struct pair pair;
    struct connections connections;
    pair_open(&pair, options, options->span + SPARE_DESCRIPTORS);
    connections_open(&connections, &pair, options->n);
    spread(&connections, options->span);
    measure_waits(options, &connections, 0, 0);
    connections_close(&connections, &pair);
    pair_close(&pair);
}

void bench_first(const struct options *options)
{
    struct pair pair;
    struct connections connections;
    pair_open(&pair, options, options->n + SPARE_DESCRIPTORS);
    connections_open(&connections, &pair, options->n);
    connections_ready(&connections, &pair, options->first, 1);
    measure_waits(options, &connections, FIRST_TIMEOUT_MS, 1);
    connections_close(&connections, &pair);
    pair_close(&pair);
}

void bench_ready(const struct options *options)
{
    struct pair pair;
    struct connections connections;
    long ready = options->ready;
    pair_open(&pair, options, options->n + SPARE_DESCRIPTORS);
    connections_open(&connections, &pair, options->n);
    connections_ready(&connections, &pair, options->n - ready, ready);
    bool cut = options->mechanism == MECHANISM_EPOLL && ready > EVENTS_MAX;
    measure_waits(options, &connections, 0, cut ? (int)EVENTS_MAX : (int)ready);
    connections_close(&connections, &pair);
    pair_close(&pair);
}
