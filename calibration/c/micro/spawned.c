/* A thread, or a process, for a connection, begun and ended by the server's own code.
 *
 *     request there │ begin │ ... the new one serves and ends ... idle ... │ reaped
 *                   |<----->| begin_ns
 *     busy time of all that - that of serving the same connection without one
 *
 * Each connection comes when the one before is over, as below saturation. In `spawn_threads`, a
 * batch of connections is there at once, and a thread begins for each before any of them ends: the
 * kernel has kept the stacks of two former threads only. */
#include "callers.h"
#include "repeated.h"

#include "../servers/connection_thread.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { CYCLES = 16, ROUNDS_MAX = 13, SERVED_NS_MAX = 400000, BATCH_MAX = 64 };

static void *mapped(size_t bytes, int flags)
{
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, flags | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
        fail_errno("%zu bytes", bytes);
    }
    return memory;
}

static struct blocking *blocking_open(int listener, bool processes, long fds_max)
{
    /* Its pattern stays untouched: a fork finds the pages of one already (served.c). */
    struct blocking *server = mapped(sizeof *server, MAP_PRIVATE);
    server->threads = processes ? THREADS_PROCESSES : THREADS_ON_DEMAND;
    server->workers_max = 2 * BATCH_MAX;
    server->fds_max = (size_t)fds_max;
    server->listener_fd = listener;
    server->counters = mapped(sizeof *server->counters, MAP_SHARED);
    server->is_open = allocate((size_t)fds_max, sizeof *server->is_open);
    connection_threads_prepare(server);
    return server;
}

static void blocking_end(struct blocking *server)
{
    (void)pthread_attr_destroy(&server->attributes);
    free(server->is_open);
    (void)munmap(server->counters, sizeof *server->counters);
    (void)munmap(server, sizeof *server);
}

static void come(struct callers *callers, int *fds)
{
    callers_come(callers);
    callers_ask(callers);
    for (long i = 0; i < callers->n; i++) {
        await(callers->pair.listener, POLLIN);
        fds[i] = accept_one(callers->pair.listener);
        if (fds[i] < 0) {
            fail("a connection came and went");
        }
        if (fcntl(fds[i], F_SETFL, 0) != 0) {
            fail_errno("fcntl");
        }
    }
}

struct cost {
    double busy_ns, begin_ns; /* of a connection */
};

static struct cost serve(struct blocking *server, struct callers *caller, bool by_others)
{
    double taken_ns = 0.0, begin_ns = 0.0;
    int fds[BATCH_MAX];
    for (int i = 0; i < CYCLES; i++) {
        come(caller, fds);
        await_calm();
        double before_ns = busy_ns();
        uint64_t first = ticks_now();
        for (long k = 0; k < caller->n; k++) {
            if (by_others) {
                connection_begin(server, fds[k]);
            } else {
                connection_serve(server, fds[k]);
            }
        }
        begin_ns += ns_of(ticks_now() - first);
        do {
            sleep_ns(SERVED_NS_MAX);
            connections_reap(server);
        } while (atomic_load(&server->n_begun) > 0);
        taken_ns += busy_ns() - before_ns;
        callers_go(caller);
    }
    double n = CYCLES * (double)caller->n;
    return (struct cost){taken_ns / n, begin_ns / n};
}

/* spawn_thread, spawn_process, spawn_threads */
void bench_spawn(const struct options *options)
{
    struct callers caller;
    struct samples busy, begin;
    char extra[EXTRA_MAX];
    bool processes = strcmp(options->bench->name, "spawn_process") == 0;
    bool at_once = strcmp(options->bench->name, "spawn_threads") == 0;
    long n_at_once = at_once ? options->batch : 1;
    if (n_at_once > BATCH_MAX) {
        fail_usage("--batch: at most %d threads at once", BATCH_MAX);
    }
    callers_open(&caller, options, n_at_once, REPLY_BYTES, 0);
    struct blocking *server =
        blocking_open(caller.pair.listener, processes, n_at_once + SPARE_DESCRIPTORS);
    /* Samples take memory that a server has not, and a fork would copy: only afterwards. */
    double taken_ns[ROUNDS_MAX], begin_ns[ROUNDS_MAX];
    int n = 0;
    for (struct repetitions r = repetitions_of(options); n < ROUNDS_MAX && repeat(&r); n++) {
        struct cost itself = serve(server, &caller, false);
        struct cost another = serve(server, &caller, true);
        taken_ns[n] = another.busy_ns - itself.busy_ns;
        begin_ns[n] = another.begin_ns;
    }
    samples_open(&busy);
    samples_open(&begin);
    for (int i = 0; i < n; i++) {
        add_warm(&busy, i, taken_ns[i], CYCLES * (uint64_t)n_at_once);
        add_warm(&begin, i, begin_ns[i], CYCLES * (uint64_t)n_at_once);
    }
    (void)snprintf(extra, sizeof extra, ", \"begin_ns\": %.1f", samples_median(&begin));
    samples_print(&busy, options, options->bench->name, extra);
    samples_close(&busy);
    samples_close(&begin);
    blocking_end(server);
    callers_close(&caller);
}
