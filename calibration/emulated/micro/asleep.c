/* When does a wait that finds nothing count as idle? A request due just before finds the CPU busy.
 *
 *     wait begins | ...call, decision to sleep, switch... | idle ............ due | ... returns
 *                 |<------------- asleep_ns ------------->|                       |<-latency->|
 *
 * The shortest way from the begin of the wait to the due time that has any idle time is found by
 * halving; what the kernel counts as idle after the packet is due is the rest of the account. */
#include "far_end.h"

#include <stdio.h>

enum { CYCLES = 16, CYCLES_EXACT = 128, LATER_NS = 50000, SCAN_NS_MAX = 800 };

struct asleep {
    const struct options *options;
    struct connections connections;
    struct served *served;
};

struct nap {
    double idle_ns, wait_ns, latency_ns;
};

/* The mean of some waits in which a request is due `offset_ns` after the begin. */
static struct nap take_naps(const struct asleep *asleep, uint64_t offset_ns, int cycles)
{
    const struct options *options = asleep->options;
    int fd = asleep->connections.server_fds[options->n - 1];
    uint64_t number = (uint64_t)asleep->connections.clients[options->n - 1];
    struct nap nap = {0.0, 0.0, 0.0};
    uint64_t idle_ns = far_end_status().idle_ns;
    for (int i = 0; i < cycles; i++) {
        uint64_t due_ns = monotonic_ns() + 3 * far_end_delay_ns() + offset_ns;
        clients_send(number, 1, due_ns, 0, WIRE_KEEP_ALIVE, REPLY_BYTES);
        uint64_t due = ticks_at(due_ns);
        while (ticks_now() < due - offset_ns)
            ;
        uint64_t first = ticks_now();
        wait_for(asleep->served, 1);
        uint64_t last = ticks_now();
        nap.wait_ns += (double)(last - first) / cycles;
        nap.latency_ns += (double)(last - due) / cycles;
        take_request(fd);
        reply(fd, REPLY_BYTES);
    }
    nap.idle_ns = (double)(far_end_status().idle_ns - idle_ns) / cycles;
    return nap;
}

void bench_far_asleep(const struct options *options)
{
    struct pair pair;
    struct asleep asleep = {.options = options};
    struct samples samples;
    char extra[EXTRA_MAX];
    pair_open(&pair, options, options->n + SPARE_DESCRIPTORS);
    connections_open(&asleep.connections, &pair, options->n);
    asleep.served = watched_open(options, options->n + SPARE_DESCRIPTORS);
    for (long i = 0; i < options->n; i++) {
        watch(asleep.served, asleep.connections.server_fds[i]);
    }
    uint64_t busy = 0, idle = LATER_NS + (uint64_t)options->n * SCAN_NS_MAX;
    struct nap whole = take_naps(&asleep, idle + LATER_NS, CYCLES);
    struct nap late = take_naps(&asleep, idle, CYCLES_EXACT);
    while (idle - busy > 10) {
        uint64_t middle = (idle + busy) / 2;
        if (take_naps(&asleep, middle, CYCLES).idle_ns > 0.0) {
            idle = middle;
        } else {
            busy = middle;
        }
    }
    struct nap never = take_naps(&asleep, 0, CYCLES);
    samples_open(&samples);
    samples_add(&samples, (double)idle, 1);
    double idle_after_ns =
        late.idle_ns - (LATER_NS + (double)options->n * SCAN_NS_MAX - (double)idle);
    (void)snprintf(extra, sizeof extra,
                   ", \"idle_after_ns\": %.1f, \"latency_ns\": %.1f, \"wait_ns_awake\": %.1f, "
                   "\"latency_ns_later\": %.1f",
                   idle_after_ns, late.latency_ns, never.wait_ns, whole.latency_ns);
    samples_print(&samples, options, options->bench->name, extra);
    samples_close(&samples);
    served_close(asleep.served);
    connections_close(&asleep.connections, &pair);
    pair_close(&pair);
}
