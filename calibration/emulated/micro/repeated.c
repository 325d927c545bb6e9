/* Samples of repetitions: which count, and as what. */
#include "far_end.h"

void add_warm(struct samples *samples, int repetition, double ns, uint64_t n)
{
    if (repetition > 0)
        samples_add(samples, ns, n);
}

void print_mean(const struct samples *samples, const struct options *options, const char *bench,
                const char *extra)
{
    struct samples one;
    samples_open(&one);
    samples_add(&one, samples_mean(samples), samples->operations);
    samples_print(&one, options, bench, extra);
    samples_close(&one);
}
