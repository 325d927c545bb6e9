/* Calls that sleep: busy time of a blocking read() or accept(), and its latency.
 *
 *     call ... idle ... | due | softirq, wake-up | returns        busy = the call - idle time
 *     spins while the same comes, then calls                      stolen, awake
 *
 * As block.c has it for waits. Of a handshake only the last packet comes while the call sleeps: the
 * first would be handled out of idleness, and wake nobody. */
#include "far_end.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { CYCLES = 48, CONVERSATIONS_BEFORE = 2, PAUSE_NS = 200000 };

struct sleeper {
    struct pair pair;
    struct connections connections; /* of read: one */
    struct gaps gaps;
    bool accepts;
    uint64_t number; /* of accept: the client that knocks */
};

struct call {
    uint64_t ns, latency_ns;
};

static void spin_until(uint64_t ns)
{
    while (monotonic_ns() < ns) {
        spend_instructions();
    }
}

/* Have what the call is for come; return when, to the nanosecond if it is a request. */
static uint64_t order(struct sleeper *sleeper)
{
    uint64_t due_ns = monotonic_ns() + PAUSE_NS;
    if (!sleeper->accepts) {
        clients_send((uint64_t)sleeper->connections.clients[0], 1, due_ns, 0, WIRE_KEEP_ALIVE,
                     REPLY_BYTES);
        return due_ns;
    }
    sleeper->number = clients_connect(1, due_ns, 0);
    spin_until(due_ns + far_end_delay_ns());
    return due_ns + 2 * far_end_delay_ns();
}

static void make_call(struct sleeper *sleeper, int *fd)
{
    char buffer[REPLY_BYTES];
    if (sleeper->accepts) {
        *fd = accept4(sleeper->pair.listener, NULL, NULL, SOCK_CLOEXEC);
    } else if (read(*fd, buffer, sizeof buffer) != REQUEST_BYTES) {
        fail("a request did not come whole");
    }
    if (*fd < 0) {
        fail_errno("accept4");
    }
}

static void end_call(struct sleeper *sleeper, int fd)
{
    if (!sleeper->accepts) {
        reply(fd, REPLY_BYTES);
        return;
    }
    uint64_t due_ns = monotonic_ns() + far_end_delay_ns() + SETTLE_NS;
    clients_reset(sleeper->number, 1, due_ns, 0);
    sleep_until(due_ns + SETTLE_NS);
    close_fd(fd);
    await_quiet(2 * PAUSE_NS);
}

static int first_fd(const struct sleeper *sleeper)
{
    return sleeper->accepts ? -1 : sleeper->connections.server_fds[0];
}

static struct call sleep_once(struct sleeper *sleeper, uint64_t *idle_ns)
{
    int fd = first_fd(sleeper);
    uint64_t due_ns = order(sleeper);
    struct wire_status before = far_end_status();
    uint64_t first = ticks_now();
    make_call(sleeper, &fd);
    uint64_t last = ticks_now();
    struct wire_status after = far_end_status();
    *idle_ns += after.idle_ns - before.idle_ns;
    end_call(sleeper, fd);
    return (struct call){last - first, last - ticks_at(due_ns)};
}

struct awake {
    double stolen_ns, call_ns;
};

static struct awake spin_once(struct sleeper *sleeper)
{
    int fd = first_fd(sleeper);
    uint64_t due_ns = order(sleeper);
    gaps_record(&sleeper->gaps, due_ns + SETTLE_NS);
    double stolen_ns =
        gaps_between(&sleeper->gaps, due_ns - far_end_delay_ns() / 2, due_ns + SETTLE_NS).ns;
    uint64_t first = ticks_now();
    make_call(sleeper, &fd);
    uint64_t last = ticks_now();
    end_call(sleeper, fd);
    return (struct awake){stolen_ns, (double)(last - first)};
}

static void sleeper_open(struct sleeper *sleeper, const struct options *options)
{
    uint64_t idle_ns = 0;
    *sleeper = (struct sleeper){.accepts = strcmp(options->bench->name, "accept_sleeps") == 0};
    pair_open(&sleeper->pair, options, SPARE_DESCRIPTORS);
    connections_open(&sleeper->connections, &sleeper->pair, sleeper->accepts ? 0 : 1);
    gaps_open(&sleeper->gaps);
    int blocking = sleeper->accepts ? sleeper->pair.listener : first_fd(sleeper);
    if (fcntl(blocking, F_SETFL, 0) != 0) {
        fail_errno("fcntl");
    }
    for (int i = 0; i < CONVERSATIONS_BEFORE; i++) {
        (void)sleep_once(sleeper, &idle_ns);
    }
}

/* read_sleeps, accept_sleeps */
void bench_far_sleeps(const struct options *options)
{
    struct sleeper sleeper;
    struct samples busy, latency, stolen, awake;
    char extra[EXTRA_MAX];
    sleeper_open(&sleeper, options);
    samples_open(&busy);
    samples_open(&latency);
    samples_open(&stolen);
    samples_open(&awake);
    for (int i = 0; i < REPETITIONS; i++) {
        double call_ns = 0.0;
        uint64_t idle_ns = 0;
        /* The kernel reports idle time in microseconds: over many cycles that is exact enough. */
        for (int k = 0; k < CYCLES; k++) {
            struct call call = sleep_once(&sleeper, &idle_ns);
            call_ns += (double)call.ns;
            add_warm(&latency, i, (double)call.latency_ns, 1);
        }
        add_warm(&busy, i, (call_ns - (double)idle_ns) / CYCLES, CYCLES);
        struct awake spun = spin_once(&sleeper);
        add_warm(&stolen, i, spun.stolen_ns, 1);
        add_warm(&awake, i, spun.call_ns, 1);
    }
    (void)snprintf(extra, sizeof extra,
                   ", \"latency_ns\": %.1f, \"stolen_ns\": %.1f, \"awake_ns\": %.1f",
                   samples_median(&latency), samples_median(&stolen), samples_median(&awake));
    samples_print(&busy, options, options->bench->name, extra);
    samples_close(&busy);
    samples_close(&latency);
    samples_close(&stolen);
    samples_close(&awake);
    gaps_close(&sleeper.gaps);
    connections_close(&sleeper.connections, &sleeper.pair);
    pair_close(&sleeper.pair);
}
