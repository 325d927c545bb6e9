/* Waits of a server that is notified of changes, each once, and records its notifications.
 *
 *     R have data | wait_told: asks, R events | wait_pending: finds nothing new, the same R events
 *     all are read | wait_blocked: for each, the server learns that it would block
 *     one more has data | wait_after: asks, 1 event; the R leave the list of pending ones
 *
 * A mechanism that takes one signal a call waits R times for the R events, and the last wait is
 * timed. wait_vain is the extra cost of a wait if a listener on the ready list has no connections
 * left to accept. */
#include "repeated.h"
#include "watched.h"

struct told {
    const struct options *options;
    struct pair pair;
    struct connections connections;
    struct served *served;
};

static void read_all(const struct told *told, long first, long n)
{
    for (long i = first; i < first + n; i++) {
        if (receive_bytes(told->connections.server_fds[i], 1) != 1) {
            fail("a connection has no data");
        }
    }
}

static void block_all(const struct told *told, long first, long n)
{
    for (long i = first; i < first + n; i++) {
        served_blocked(told->served, told->connections.server_fds[i]);
    }
}

/* All are watched, all were notified, and none has data. */
static void told_open(struct told *told, const struct options *options)
{
    *told = (struct told){.options = options};
    pair_open(&told->pair, options, options->n + SPARE_DESCRIPTORS);
    told->pair.attentive = true;
    connections_open(&told->connections, &told->pair, options->n);
    told->served = watched_open(options, options->n + SPARE_DESCRIPTORS);
    /* Before it is watched: no signal reports it, and the wait does not block. */
    connections_ready(&told->connections, &told->pair, options->n - 1, 1);
    for (long i = 0; i < options->n; i++) {
        watch(told->served, told->connections.server_fds[i]);
    }
    if (served_wait(told->served) < 1) {
        fail("a wait did not return an event for a byte");
    }
    read_all(told, options->n - 1, 1);
    block_all(told, 0, options->n);
}

static void told_close(struct told *told)
{
    served_close(told->served);
    connections_close(&told->connections, &told->pair);
    pair_close(&told->pair);
}

/* Wait until all R are known to be ready; the ticks of the last wait. */
static uint64_t hear(const struct told *told)
{
    for (long n = 0;;) {
        uint64_t first = ticks_now();
        n = served_wait(told->served);
        uint64_t ticks = ticks_now() - first;
        if (n < 1 || n > told->options->ready) {
            fail("a wait gave %ld events of %ld", n, told->options->ready);
        }
        if (n == told->options->ready) {
            return ticks;
        }
    }
}

void bench_told(const struct options *options)
{
    struct told told;
    struct samples heard, pending, blocked, after;
    long n = options->ready;
    if (n < 1 || n >= options->n) {
        fail_usage("--ready must be at least 1 and less than --n %ld", options->n);
    }
    told_open(&told, options);
    samples_open(&heard);
    samples_open(&pending);
    samples_open(&blocked);
    samples_open(&after);
    for (struct repetitions r = repetitions_of(options); repeat(&r);) {
        connections_ready(&told.connections, &told.pair, 0, n);
        await_calm();
        add_warm(&heard, r.n, ns_of(hear(&told)), 1);
        add_warm(&pending, r.n, ns_of(ticks_of_wait(told.served, n)), 1);
        read_all(&told, 0, n);
        uint64_t first = ticks_now();
        block_all(&told, 0, n);
        add_warm(&blocked, r.n, ns_of(ticks_now() - first) / (double)n, (uint64_t)n);
        connections_ready(&told.connections, &told.pair, n, 1);
        await_calm();
        add_warm(&after, r.n, ns_of(ticks_of_wait(told.served, 1)), 1);
        read_all(&told, n, 1);
        block_all(&told, n, 1);
    }
    samples_print(&heard, options, "wait_told", "");
    samples_print(&pending, options, "wait_pending", "");
    samples_print(&blocked, options, "wait_blocked", "");
    samples_print(&after, options, "wait_after", "");
    samples_close(&heard);
    samples_close(&pending);
    samples_close(&blocked);
    samples_close(&after);
    told_close(&told);
}

/* One connection comes and is accepted, so that the listener is on the list for nothing, if it is
 * watched. */
static void list_listener(struct told *told)
{
    struct connections one;
    connections_open(&one, &told->pair, 1);
    connections_close(&one, &told->pair);
}

void bench_vain(const struct options *options)
{
    struct told told;
    struct samples samples;
    told_open(&told, options);
    watch(told.served, told.pair.listener);
    samples_open(&samples);
    for (struct repetitions r = repetitions_of(options); repeat(&r);) {
        uint64_t ticks[2];
        for (int listed = 0; listed < 2; listed++) {
            /* Both times a connection comes, so that the caches are the same. */
            unwatch(told.served, told.pair.listener);
            if (!listed) {
                list_listener(&told);
            }
            watch(told.served, told.pair.listener);
            if (listed) {
                list_listener(&told);
            }
            connections_ready(&told.connections, &told.pair, 0, 1);
            await_calm();
            ticks[listed] = ticks_of_wait(told.served, 1);
            read_all(&told, 0, 1);
            block_all(&told, 0, 1);
        }
        add_warm(&samples, r.n, ns_of(ticks[1]) - ns_of(ticks[0]), 1);
    }
    samples_print(&samples, options, options->bench->name, "");
    samples_close(&samples);
    told_close(&told);
}

enum { LOST = 8 };

/* wait_recovers: a wait that finds signals lost: it flushes the queue, and polls all. */
void bench_recovers(const struct options *options)
{
    struct told told;
    struct samples samples;
    long n = options->queue + LOST;
    if (options->queue < 1 || n >= options->n) {
        fail_usage("--queue must be at least 1 and %d less than --n %ld", LOST + 1, options->n);
    }
    told_open(&told, options);
    samples_open(&samples);
    for (struct repetitions r = repetitions_of(options); repeat(&r);) {
        bytes_come(&told.connections, &told.pair, 0, n);
        await_calm();
        add_warm(&samples, r.n, ns_of(ticks_of_wait(told.served, n)), 1);
        read_all(&told, 0, n);
        block_all(&told, 0, n);
    }
    samples_print(&samples, options, options->bench->name, "");
    samples_close(&samples);
    told_close(&told);
}
