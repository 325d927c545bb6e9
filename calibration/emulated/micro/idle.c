/* Packets that wake nobody, while the CPU is idle: busy time of each, by the kernel's account. */
#include "far_end.h"

#include <string.h>

enum { PACKETS = 64, APART_NS = 100000 };

/* What a window of sleep takes of the CPU. */
static double busy_asleep(uint64_t until_ns)
{
    uint64_t begin_ns = ticks_now();
    uint64_t idle_ns = far_end_status().idle_ns;
    sleep_until(until_ns);
    idle_ns = far_end_status().idle_ns - idle_ns;
    return (double)(ticks_now() - begin_ns) - (double)idle_ns;
}

void bench_far_idle(const struct options *options)
{
    struct pair pair;
    struct samples samples;
    pair_open(&pair, options, PACKETS + SPARE_DESCRIPTORS);
    samples_open(&samples);
    for (int i = 0; i < REPETITIONS; i++) {
        struct connections connections;
        connections_open(&connections, &pair, PACKETS);
        await_quiet(tick_period_ns() / 2);
        uint64_t window_ns = (PACKETS + 2) * APART_NS;
        double quiet_ns = busy_asleep(monotonic_ns() + window_ns);
        await_quiet(tick_period_ns() / 2);
        uint64_t due_ns = monotonic_ns() + APART_NS;
        clients_send((uint64_t)connections.peer_fds[0], PACKETS, due_ns, APART_NS,
                     WIRE_KEEP_ALIVE, REPLY_BYTES);
        double busy_ns = busy_asleep(due_ns - APART_NS + window_ns);
        samples_add(&samples, (busy_ns - quiet_ns) / PACKETS, PACKETS);
        connections_close(&connections, &pair);
    }
    samples_print(&samples, options, options->bench->name, "");
    samples_close(&samples);
    pair_close(&pair);
}
