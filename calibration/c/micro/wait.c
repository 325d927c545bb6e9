/* The server's own waits for descriptors that are ready at once. */
#include "repeated.h"
#include "watched.h"

/* Move the last connection to a higher descriptor: select's bitmaps reach up to it. */
static void stretch(const struct connections *connections, long span)
{
    long last = connections->n - 1;
    int fd = connections->server_fds[last];
    if (connections->server_fds[0] + span - 1 <= fd) {
        return;
    }
    connections->server_fds[last] = move_fd(fd, connections->server_fds[0] + span - 1);
}

/* wait_ready: R of n watched connections are ready, the first of them at position `first`. */
void bench_wait(const struct options *options)
{
    struct pair pair;
    struct connections connections;
    struct samples samples;
    if (options->first + options->ready > options->n) {
        fail_usage("--first and --ready together must be at most --n %ld", options->n);
    }
    pair_open(&pair, options, options->span + SPARE_DESCRIPTORS);
    connections_open(&connections, &pair, options->n);
    stretch(&connections, options->span);
    struct served *served = watched_open(options, options->span + SPARE_DESCRIPTORS);
    for (long i = 0; i < options->n; i++) {
        watch(served, connections.server_fds[i]);
    }
    connections_ready(&connections, &pair, options->first, options->ready);
    samples_open(&samples);
    wait_for(served, options->ready);
    await_calm();
    for (struct repetitions r = repetitions_of(options); repeat(&r);) {
        add_warm(&samples, r.n, ns_of(ticks_of_wait(served, options->ready)), 1);
    }
    samples_print(&samples, options, options->bench->name, "");
    samples_close(&samples);
    served_close(served);
    connections_close(&connections, &pair);
    pair_close(&pair);
}

/* wait_listed: n connections are writable, but the server does not write. Each wait returns as many
 * as it can: other ones each time, if there are more. */
void bench_listed(const struct options *options)
{
    struct pair pair;
    struct connections connections;
    struct samples samples;
    pair_open(&pair, options, options->n + SPARE_DESCRIPTORS);
    connections_open(&connections, &pair, options->n);
    struct served *served = watched_open(options, options->n + SPARE_DESCRIPTORS);
    for (long i = 0; i < options->n; i++) {
        watch(served, connections.server_fds[i]);
    }
    samples_open(&samples);
    for (struct repetitions r = repetitions_of(options); repeat(&r);) {
        add_warm(&samples, r.n, ns_of(ticks_of_wait(served, 0)), 1);
    }
    samples_print(&samples, options, options->bench->name, "");
    samples_close(&samples);
    served_close(served);
    connections_close(&connections, &pair);
    pair_close(&pair);
}
