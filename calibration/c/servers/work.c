#include "work.h"

#include "program.h"

#include <stdlib.h>

enum {
    TRIAL_STEPS = 16384, /* some 20 us, so that reading the clock does not count */
    TRIALS = 401,        /* the first ones wake a CPU that has slept */
};

/* Each step needs the one before: a CPU takes 4 or 5 cycles for it, however wide it is. */
static void take_steps(uint64_t n_steps)
{
    uint64_t state = n_steps;
    for (uint64_t i = 0; i < n_steps; i++) {
        state = state * 6364136223846793005U + 1442695040888963407U;
        __asm__ volatile("" : "+r"(state)); /* the compiler must not take several at once */
    }
}

static int compare_ns(const void *a, const void *b)
{
    int64_t left = *(const int64_t *)a;
    int64_t right = *(const int64_t *)b;
    return (left > right) - (left < right);
}

/* The median: few trials are interrupted, and no trial is faster than this CPU. */
static int64_t trial_ns(void)
{
    int64_t trials_ns[TRIALS];
    for (int i = 0; i < TRIALS; i++) {
        int64_t began_ns = clock_ns(CLOCK_MONOTONIC);
        take_steps(TRIAL_STEPS);
        trials_ns[i] = clock_ns(CLOCK_MONOTONIC) - began_ns;
    }
    qsort(trials_ns, TRIALS, sizeof trials_ns[0], compare_ns);
    return trials_ns[TRIALS / 2] > 0 ? trials_ns[TRIALS / 2] : 1;
}

struct work work_of(int64_t us)
{
    if (us == 0) {
        return (struct work){0};
    }
    return (struct work){.n_steps = (uint64_t)(us * NS_PER_US * TRIAL_STEPS / trial_ns())};
}

void work_do(const struct work *work)
{
    take_steps(work->n_steps);
}
