/* When the other CPU takes time from the server, and whether a send had to interrupt it. */
#include "robbed.h"

#include <stdlib.h>

enum { GAP_NS_MIN = 400 }; /* a reading takes some 20 ns */

uint64_t announce(struct robbery *robbery)
{
    uint64_t due = ticks_now() + ns_to_ticks(AHEAD_NS);
    atomic_store(&robbery->robbed, 0);
    atomic_store(&robbery->back, 0);
    atomic_store(&robbery->due, due);
    return due;
}

void be_robbed_until(struct robbery *robbery, uint64_t until)
{
    uint64_t gap_min = ns_to_ticks(GAP_NS_MIN);
    for (uint64_t last = ticks_now(), now; (int64_t)(last - until) < 0; last = now) {
        now = ticks_now();
        if (now - last >= gap_min &&
            atomic_load_explicit(&robbery->robbed, memory_order_relaxed) == 0) {
            atomic_store(&robbery->back, now);
            atomic_store(&robbery->robbed, last);
        }
    }
}

void spin_until(uint64_t ticks)
{
    while ((int64_t)(ticks_now() - ticks) < 0) {
        relax();
    }
}

double since_ns(uint64_t now, uint64_t then)
{
    return now >= then ? ticks_to_ns(now - then) : -ticks_to_ns(then - now);
}

double timed_send_ns(const struct pair *pair, int client, uint64_t *begun)
{
    *begun = ticks_now();
    client_send(pair, client, REQUEST_BYTES);
    return ticks_to_ns(ticks_now() - *begun);
}

void beside_open(struct beside *beside, const struct options *options)
{
    *beside = (struct beside){
        .nobody_interrupts = options->server_netns == NULL,
        .random = 1,
        .begun_ns = allocate(SAMPLES_MAX, sizeof(double)),
        .taken_ns = allocate(SAMPLES_MAX, sizeof(double)),
    };
}

void beside_close(struct beside *beside)
{
    free(beside->begun_ns);
    free(beside->taken_ns);
}

/* Return a time from EARLIEST_NS to LATEST_NS (xorshift). */
static double random_phase_ns(struct beside *beside)
{
    beside->random ^= beside->random << 13;
    beside->random ^= beside->random >> 17;
    beside->random ^= beside->random << 5;
    return EARLIEST_NS + (double)(beside->random % (uint32_t)(LATEST_NS - EARLIEST_NS));
}

void beside_wait(struct beside *beside, uint64_t due)
{
    double phase_ns = random_phase_ns(beside);
    spin_until(phase_ns < 0 ? due - ns_to_ticks(-phase_ns) : due + ns_to_ticks(phase_ns));
}

void beside_add(struct beside *beside, double begun_ns, double taken_ns)
{
    if (beside->n < SAMPLES_MAX) {
        beside->begun_ns[beside->n] = begun_ns;
        beside->taken_ns[beside->n++] = taken_ns;
    }
}

void beside_tell_apart(const struct beside *beside, const struct samples *without,
                       const struct samples *with, struct samples *found)
{
    double limit_ns = (samples_median(without) + samples_median(with)) / 2;
    for (size_t i = 0; i < beside->n; i++) {
        if (beside->nobody_interrupts || beside->taken_ns[i] < limit_ns) {
            samples_add(found, beside->begun_ns[i], 1);
        }
    }
}
