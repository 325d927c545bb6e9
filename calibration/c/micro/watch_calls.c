/* The interest list of epoll as the server's own code changes it, once for each connection.
 *
 *     n are watched | watch x B: watch_add | unwatch x B: watch_delete
 */
#include "repeated.h"
#include "watched.h"

static double time_each(struct served *served, void (*change)(struct served *served, int fd),
                        const int *fds, long n)
{
    uint64_t first = ticks_now();
    for (long i = 0; i < n; i++) {
        change(served, fds[i]);
    }
    return ns_of(ticks_now() - first) / (double)n;
}

void bench_watch_calls(const struct options *options)
{
    struct pair pair;
    struct connections connections;
    struct samples added, deleted;
    long n = options->batch, n_all = options->n + n;
    pair_open(&pair, options, n_all + SPARE_DESCRIPTORS);
    connections_open(&connections, &pair, n_all);
    struct served *served = watched_open(options, n_all + SPARE_DESCRIPTORS);
    for (long i = 0; i < options->n; i++) {
        watch(served, connections.server_fds[i]);
    }
    const int *fds = connections.server_fds + options->n;
    samples_open(&added);
    samples_open(&deleted);
    for (struct repetitions r = repetitions_of(options); repeat(&r);) {
        add_warm(&added, r.n, time_each(served, watch, fds, n), (uint64_t)n);
        add_warm(&deleted, r.n, time_each(served, unwatch, fds, n), (uint64_t)n);
    }
    samples_print(&added, options, "watch_add", "");
    samples_print(&deleted, options, "watch_delete", "");
    samples_close(&added);
    samples_close(&deleted);
    served_close(served);
    connections_close(&connections, &pair);
    pair_close(&pair);
}
