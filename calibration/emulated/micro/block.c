/* Waits that sleep: busy time and latency, of requests that come R at once.
 *
 *     wait: decides to sleep ... idle ... | due | idle exit, softirq, wake-up | returns
 *     |<-------- wait_ns ---------------------------------------------------->|
 *                                         |<-- latency_ns ------------------->|
 *     busy = wait_ns - the time that the kernel accounts as idle
 *
 * Keep-alive requests and replies, so that the sockets' timers are as in the campaign. The same
 * requests also come while the server spins: what their softirq takes is known then. */
#include "far_end.h"

#include <stdio.h>

enum { CYCLES = 48, CONVERSATIONS_BEFORE = 2, SCAN_NS_MAX = 800 };

struct block {
    const struct options *options;
    struct pair pair;
    struct connections connections;
    struct served *served;
    struct gaps gaps;
    long first; /* of those that are used, the last of the watched ones */
};

static void send_due(const struct block *block, uint64_t due_ns)
{
    clients_send((uint64_t)block->connections.clients[block->first], block->options->ready, due_ns,
                 0, WIRE_KEEP_ALIVE, block->options->reply);
}

static void answer_all(const struct block *block)
{
    for (long i = block->first; i < block->connections.n; i++) {
        take_request(block->connections.server_fds[i]);
        reply(block->connections.server_fds[i], block->options->reply);
    }
}

static uint64_t pause_ns(const struct options *options)
{
    /* The server must be asleep when the request comes, however long its scan. */
    return (uint64_t)options->pause_us * 1000u + (uint64_t)options->n * SCAN_NS_MAX;
}

struct cycle {
    uint64_t wait_ns, latency_ns;
};

static struct cycle sleep_once(const struct block *block)
{
    uint64_t due_ns = monotonic_ns() + pause_ns(block->options);
    send_due(block, due_ns);
    uint64_t first = ticks_now();
    wait_for(block->served, block->options->ready);
    uint64_t last = ticks_now();
    answer_all(block);
    return (struct cycle){last - first, last - ticks_at(due_ns)};
}

static double spin_once(struct block *block)
{
    uint64_t due_ns = monotonic_ns() + pause_ns(block->options);
    send_due(block, due_ns);
    gaps_record(&block->gaps, due_ns + (uint64_t)block->options->ready * PACKET_NS_MAX + SETTLE_NS);
    double stolen_ns = gaps_between(&block->gaps, due_ns - 1000, due_ns + SETTLE_NS).ns;
    answer_all(block);
    return stolen_ns;
}

static void block_open(struct block *block, const struct options *options)
{
    *block = (struct block){.options = options, .first = options->n - options->ready};
    pair_open(&block->pair, options, options->n + SPARE_DESCRIPTORS);
    connections_open(&block->connections, &block->pair, options->n);
    block->served = watched_open(options, options->n + SPARE_DESCRIPTORS);
    for (long i = 0; i < options->n; i++) {
        watch(block->served, block->connections.server_fds[i]);
    }
    gaps_open(&block->gaps);
    for (int i = 0; i < CONVERSATIONS_BEFORE; i++) {
        (void)sleep_once(block);
    }
}

static void block_close(struct block *block)
{
    served_close(block->served);
    gaps_close(&block->gaps);
    connections_close(&block->connections, &block->pair);
    pair_close(&block->pair);
}

void bench_far_block(const struct options *options)
{
    struct block block;
    struct samples busy, latency, stolen;
    char extra[EXTRA_MAX];
    double sent = 0.0;
    block_open(&block, options);
    samples_open(&busy);
    samples_open(&latency);
    samples_open(&stolen);
    for (int i = 0; i < REPETITIONS; i++) {
        double wait_ns = 0.0;
        /* The kernel reports idle time in microseconds: over many cycles that is exact enough. */
        struct wire_status before = far_end_status();
        for (int k = 0; k < CYCLES; k++) {
            struct cycle cycle = sleep_once(&block);
            wait_ns += (double)cycle.wait_ns;
            add_warm(&latency, i, (double)cycle.latency_ns, 1);
        }
        struct wire_status after = far_end_status();
        double idle_ns = (double)(after.idle_ns - before.idle_ns);
        add_warm(&busy, i, (wait_ns - idle_ns) / CYCLES, CYCLES);
        sent = (double)(after.n_packets_from_server - before.n_packets_from_server) / CYCLES;
        add_warm(&stolen, i, spin_once(&block), 1);
    }
    (void)snprintf(extra, sizeof extra,
                   ", \"latency_ns\": %.1f, \"stolen_ns\": %.1f, "
                   "\"packets_sent_per_operation\": %.2f",
                   samples_median(&latency), samples_median(&stolen), sent);
    samples_print(&busy, options, options->bench->name, extra);
    samples_close(&busy);
    samples_close(&latency);
    samples_close(&stolen);
    block_close(&block);
}
