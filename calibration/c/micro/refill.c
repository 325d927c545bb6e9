/* The extra cost of a server's round after others have filled the CPU's caches.
 *
 *     server   asks all its connections | .... | asks them again, timed
 *     others                            | x us |
 *
 * The server's round is one epoll_wait and a read of each of n connections that finds nothing: the
 * kernel's code and sockets are the usual content of the caches. Others go through memory line by
 * line at full speed, which fills caches fastest. In every other round they compute instead and
 * touch nothing: the samples are differences, so the effect of time alone cancels out.
 *
 * One thread does both: a cache does not depend on which thread touches a line. */
#include "flights.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    SPARE_DESCRIPTORS = 100,
    FOREIGN_BYTES = 64 << 20, /* more than the last cache */
    AT_ONCE = 64,             /* lines between two looks at the clock */
    WARM_ROUNDS = 3,
};

struct others {
    const volatile char *memory;
    size_t at; /* where they go on */
    uint64_t n_lines;
};

static void go_through_memory(struct others *others, uint64_t ticks)
{
    uint64_t first = ticks_now();
    while (ticks_now() - first < ticks) {
        for (int i = 0; i < AT_ONCE; i++) {
            (void)others->memory[others->at];
            others->at = (others->at + CACHE_LINE) % FOREIGN_BYTES;
        }
        others->n_lines += AT_ONCE;
    }
}

static void compute(uint64_t ticks)
{
    uint64_t first = ticks_now();
    while (ticks_now() - first < ticks) {
        relax();
    }
}

static void ask_all(const struct connections *connections, struct waiter *waiter)
{
    waiter_check(waiter);
    for (long i = 0; i < connections->n; i++) {
        if (receive_bytes(connections->server_fds[i], 1) != 0) {
            fail("an idle connection was readable");
        }
    }
}

static double round_ns(const struct connections *connections, struct waiter *waiter)
{
    uint64_t first = ticks_now();
    ask_all(connections, waiter);
    return ticks_to_ns(ticks_now() - first);
}

/* cache_refill */
void bench_refill(const struct options *options)
{
    struct pair pair;
    struct connections connections;
    struct waiter waiter;
    struct samples samples, warm;
    char extra[EXTRA_MAX];
    char *memory = allocate(FOREIGN_BYTES, 1);
    memset(memory, 1, FOREIGN_BYTES); /* pages of its own, not all the same one of zeros */
    struct others others = {.memory = memory};
    pair_open(&pair, options, options->n + SPARE_DESCRIPTORS);
    connections_open(&connections, &pair, options->n);
    waiter_open(&waiter, MECHANISM_EPOLL, connections.server_fds, options->n);
    samples_open(&samples);
    samples_open(&warm);
    uint64_t ticks = ns_to_ticks((double)options->pause_us * 1000.0), n = 0;
    uint64_t deadline_ns = now_ns() + (uint64_t)options->milliseconds * 1000000u;
    while (now_ns() < deadline_ns || n == 0) {
        for (int i = 0; i < WARM_ROUNDS; i++) {
            ask_all(&connections, &waiter);
        }
        compute(ticks);
        double warm_ns = round_ns(&connections, &waiter);
        go_through_memory(&others, ticks);
        samples_add(&samples, round_ns(&connections, &waiter) - warm_ns, 1);
        samples_add(&warm, warm_ns, 1);
        n++;
    }
    (void)snprintf(extra, sizeof extra, ", \"warm_ns\": %.2f, \"foreign_kib\": %.2f",
                   samples_median(&warm),
                   (double)(others.n_lines * CACHE_LINE) / 1024.0 / (double)n);
    samples_print(&samples, options, options->bench->name, extra);
    samples_close(&samples);
    samples_close(&warm);
    waiter_close(&waiter);
    connections_close(&connections, &pair);
    pair_close(&pair);
    free(memory);
}
