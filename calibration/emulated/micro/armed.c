/* A wait that arms a connection and sleeps until its request has come.
 *
 *     note | wait: arms, decides to sleep ... idle ... | due | softirq, wake-up | returns
 *     arm  | spins .................................... | due | stolen           | takes
 *            spins                                      | due | stolen, unarmed  | takes
 *
 * As block.c has it for who stays armed. */
#include "armed.h"

#include <stdio.h>

enum { CYCLES = 48, SPINS = 12, CONVERSATIONS_BEFORE = 2, PAUSE_NS = 200000 };

int armed_fd(const struct armed *armed)
{
    return armed->connections.server_fds[0];
}

void armed_open(struct armed *armed, const struct options *options, long n)
{
    pair_open(&armed->pair, options, n + SPARE_DESCRIPTORS);
    connections_open(&armed->connections, &armed->pair, n);
    gaps_open(&armed->gaps);
}

void armed_close(struct armed *armed)
{
    gaps_close(&armed->gaps);
    connections_close(&armed->connections, &armed->pair);
    pair_close(&armed->pair);
}

static uint64_t order(const struct armed *armed)
{
    uint64_t due_ns = monotonic_ns() + PAUSE_NS;
    clients_send((uint64_t)armed->connections.clients[0], 1, due_ns, 0, WIRE_KEEP_ALIVE,
                 REPLY_BYTES);
    return due_ns;
}

struct cycle {
    uint64_t wait_ns, latency_ns;
};

static struct cycle sleep_once(struct armed *armed)
{
    armed->note(armed);
    uint64_t due_ns = order(armed);
    uint64_t first = ticks_now();
    armed->wait(armed);
    uint64_t last = ticks_now();
    armed->take(armed);
    reply(armed_fd(armed), REPLY_BYTES);
    return (struct cycle){last - first, last - ticks_at(due_ns)};
}

static double spin_once(struct armed *armed, bool is_armed)
{
    if (is_armed) {
        armed->arm(armed);
    }
    await_quiet(2 * PAUSE_NS);
    uint64_t due_ns = order(armed);
    gaps_record(&armed->gaps, due_ns + SETTLE_NS);
    double stolen_ns = gaps_between(&armed->gaps, due_ns - 1000, due_ns + SETTLE_NS).ns;
    if (is_armed) {
        armed->take_armed(armed);
    } else {
        take_request(armed_fd(armed));
    }
    reply(armed_fd(armed), REPLY_BYTES);
    return stolen_ns;
}

void armed_sleeps(struct armed *armed, const struct options *options)
{
    struct samples busy, latency, stolen, unarmed;
    char extra[EXTRA_MAX];
    samples_open(&busy);
    samples_open(&latency);
    samples_open(&stolen);
    samples_open(&unarmed);
    for (int i = 0; i < CONVERSATIONS_BEFORE; i++) {
        (void)sleep_once(armed);
    }
    for (int i = 0; i < REPETITIONS; i++) {
        double wait_ns = 0.0;
        /* The kernel reports idle time in microseconds: over many cycles that is exact enough. */
        struct wire_status before = far_end_status();
        for (int k = 0; k < CYCLES; k++) {
            struct cycle cycle = sleep_once(armed);
            wait_ns += (double)cycle.wait_ns;
            add_warm(&latency, i, (double)cycle.latency_ns, 1);
        }
        struct wire_status after = far_end_status();
        add_warm(&busy, i, (wait_ns - (double)(after.idle_ns - before.idle_ns)) / CYCLES, CYCLES);
        /* Every fourth packet or so takes more: the means are of each in its turn. */
        for (int k = 0; k < SPINS; k++) {
            bool is_armed = k % 3 == 0;
            add_warm(is_armed ? &stolen : &unarmed, i, spin_once(armed, is_armed), 1);
        }
    }
    (void)snprintf(extra, sizeof extra,
                   ", \"latency_ns\": %.1f, \"stolen_ns\": %.1f, \"unarmed_ns\": %.1f",
                   samples_median(&latency), samples_mean(&stolen), samples_mean(&unarmed));
    samples_print(&busy, options, options->bench->name, extra);
    samples_close(&busy);
    samples_close(&latency);
    samples_close(&stolen);
    samples_close(&unarmed);
}
