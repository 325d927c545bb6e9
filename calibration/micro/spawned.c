/* A thread, or a process, for a connection, begun and ended by the server's own code.
 *
 *     request there │ begin │ ... the new one serves and ends ... idle ... │ reaped
 *                   |<----->| begin_ns
 *     busy time of all that - that of serving the same connection without one
 *
 * Each connection comes when the one before is over, as below saturation. */
#include "far_end.h"

#include "../../servers/connection_thread.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { CYCLES = 16, SERVED_NS_MAX = 400000 };

static void *mapped(size_t bytes, int flags)
{
    void *memory =
        mmap(NULL, bytes, PROT_READ | PROT_WRITE, flags | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        fail_errno("%zu bytes", bytes);
    return memory;
}

static struct blocking *blocking_open(const struct pair *pair, bool processes, long fds_max)
{
    /* Its pattern stays untouched: a fork finds the pages of one already (served.c). */
    struct blocking *server = mapped(sizeof *server, MAP_PRIVATE);
    server->threads = processes ? THREADS_PROCESSES : THREADS_ON_DEMAND;
    server->workers_max = 2 * CYCLES;
    server->fds_max = (size_t)fds_max;
    server->listener_fd = pair->listener;
    server->counters = mapped(sizeof *server->counters, MAP_SHARED);
    server->is_open = allocate((size_t)fds_max, sizeof *server->is_open);
    connection_threads_prepare(server);
    return server;
}

static int come(const struct pair *pair)
{
    uint64_t due_ns = monotonic_ns() + far_end_delay_ns() + SETTLE_NS;
    uint64_t number = clients_connect(1, due_ns, 0);
    sleep_until(due_ns + 2 * far_end_delay_ns() + SETTLE_NS);
    due_ns = monotonic_ns() + far_end_delay_ns() + SETTLE_NS;
    clients_send(number, 1, due_ns, 0, 0, REPLY_BYTES);
    sleep_until(due_ns + SETTLE_NS);
    int fd = accept_one(pair->listener);
    if (fd < 0)
        fail("a connection did not come in time");
    if (fcntl(fd, F_SETFL, 0) != 0)
        fail_errno("fcntl");
    return fd;
}

struct cost {
    double busy_ns, begin_ns;
};

static struct cost serve(struct blocking *server, const struct pair *pair, bool by_another)
{
    uint64_t ticks = 0, begin_ticks = 0, idle_ns = 0;
    for (int i = 0; i < CYCLES; i++) {
        int fd = come(pair);
        await_quiet(SERVED_NS_MAX);
        struct wire_status before = far_end_status();
        uint64_t first = ticks_now();
        if (by_another)
            connection_begin(server, fd);
        else
            connection_serve(server, fd);
        uint64_t begun = ticks_now();
        sleep_until(monotonic_ns() + SERVED_NS_MAX);
        connections_reap(server);
        ticks += ticks_now() - first;
        begin_ticks += begun - first;
        struct wire_status after = far_end_status();
        idle_ns += after.idle_ns - before.idle_ns;
    }
    return (struct cost){((double)ticks - (double)idle_ns) / CYCLES,
                         (double)begin_ticks / CYCLES};
}

/* spawn_thread, spawn_process */
void bench_far_spawn(const struct options *options)
{
    struct pair pair;
    struct samples busy, begin;
    char extra[EXTRA_MAX];
    bool processes = strcmp(options->bench->name, "spawn_process") == 0;
    pair_open(&pair, options, SPARE_DESCRIPTORS);
    struct blocking *server = blocking_open(&pair, processes, SPARE_DESCRIPTORS);
    /* Samples take memory that a server has not, and a fork would copy: only afterwards. */
    double busy_ns[REPETITIONS], begin_ns[REPETITIONS];
    for (int i = 0; i < REPETITIONS; i++) {
        struct cost itself = serve(server, &pair, false);
        struct cost another = serve(server, &pair, true);
        busy_ns[i] = another.busy_ns - itself.busy_ns;
        begin_ns[i] = another.begin_ns;
    }
    samples_open(&busy);
    samples_open(&begin);
    for (int i = 0; i < REPETITIONS; i++) {
        add_warm(&busy, i, busy_ns[i], CYCLES);
        add_warm(&begin, i, begin_ns[i], CYCLES);
    }
    (void)snprintf(extra, sizeof extra, ", \"begin_ns\": %.1f", samples_median(&begin));
    samples_print(&busy, options, options->bench->name, extra);
    samples_close(&busy);
    samples_close(&begin);
    pair_close(&pair);
}
