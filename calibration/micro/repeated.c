/* Repetitions on hardware: until the bench's time is over. */
#include "repeated.h"

enum { REPETITIONS_MIN = 5, CALM_NS = 20000, TRIALS = 1000 };

struct repetitions repetitions_of(const struct options *options)
{
    return (struct repetitions){
        .n = -1, .deadline_ns = now_ns() + (uint64_t)options->milliseconds * 1000000u};
}

bool repeat(struct repetitions *repetitions)
{
    repetitions->n++;
    return repetitions->n <= REPETITIONS_MIN ||
           (now_ns() < repetitions->deadline_ns && repetitions->n < SAMPLES_MAX);
}

void add_warm(struct samples *samples, int repetition, double ns, uint64_t n)
{
    if (repetition > 0)
        samples_add(samples, ns, n);
}

/* The least of some trials: a reading that was interrupted is no reading. */
static uint64_t reading_ticks(void)
{
    static uint64_t known;
    if (known != 0)
        return known;
    known = UINT64_MAX;
    for (int trial = 0; trial < TRIALS; trial++) {
        uint64_t first = ticks_now();
        uint64_t ticks = ticks_now() - first;
        if (ticks < known)
            known = ticks;
    }
    return known;
}

double ns_of(uint64_t ticks)
{
    uint64_t reading = reading_ticks();
    return ticks_to_ns(ticks > reading ? ticks - reading : 0);
}

/* Ticks are rare here and go to the tail; packets may still be on their way. */
void await_calm(void) { spin_ns(CALM_NS); }

void bytes_come(const struct connections *connections, struct pair *pair, long first, long n)
{
    connections_ready(connections, pair, first, n);
}
