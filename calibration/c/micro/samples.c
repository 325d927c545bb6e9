/* Costs of an operation, their quantiles and the line that reports them.
 *
 * Quantiles over batches, not a mean over operations: a timer tick or a neighbour spoils the
 * batches it falls into, and these go to the tail. */
#include "micro.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum { BATCH_NS = 20000, BATCHES_MIN = 5, BATCH_OPERATIONS_MAX = 4096 };

void samples_open(struct samples *samples)
{
    samples->values = allocate(SAMPLES_MAX, sizeof *samples->values);
    samples->n = 0;
    samples->operations = 0;
}

void samples_close(struct samples *samples)
{
    free(samples->values);
    samples->values = NULL;
}

void samples_add(struct samples *samples, double ns, uint64_t n_operations)
{
    samples->operations += n_operations;
    if (samples->n < SAMPLES_MAX) {
        samples->values[samples->n++] = ns;
    }
}

void samples_less(struct samples *samples, double overhead_ns)
{
    for (size_t i = 0; i < samples->n; i++) {
        samples->values[i] -= overhead_ns < samples->values[i] ? overhead_ns : samples->values[i];
    }
}

static int compare(const void *left, const void *right)
{
    const double *a = left;
    const double *b = right;
    return (*a > *b) - (*a < *b);
}

/* Linear interpolation between the order statistics. */
static double quantile(const double *sorted, size_t n, double share)
{
    double position = share * (double)(n - 1);
    size_t below = (size_t)position;
    size_t above = below + 1 < n ? below + 1 : below;
    double part = position - (double)below;
    return sorted[below] * (1.0 - part) + sorted[above] * part;
}

static double *sorted_copy(const struct samples *samples)
{
    if (samples->n == 0) {
        fail("no operation was completed: try more --milliseconds");
    }
    double *sorted = allocate(samples->n, sizeof *sorted);
    for (size_t i = 0; i < samples->n; i++) {
        sorted[i] = samples->values[i];
    }
    qsort(sorted, samples->n, sizeof *sorted, compare);
    return sorted;
}

double samples_quantile(const struct samples *samples, double share)
{
    double *sorted = sorted_copy(samples);
    double found = quantile(sorted, samples->n, share);
    free(sorted);
    return found;
}

double samples_median(const struct samples *samples)
{
    return samples_quantile(samples, 0.5);
}

double samples_mean(const struct samples *samples)
{
    double sum = 0.0;
    for (size_t i = 0; i < samples->n; i++) {
        sum += samples->values[i];
    }
    return samples->n > 0 ? sum / (double)samples->n : 0.0;
}

static uint64_t batch_ticks(void (*operation)(void *), void *context, uint64_t n)
{
    uint64_t first = ticks_now();
    for (uint64_t i = 0; i < n; i++) {
        operation(context);
    }
    return ticks_now() - first;
}

static void nothing(void *context)
{
    (void)context;
    /* The compiler must not see that the call is empty. */
    __asm__ volatile("" ::: "memory");
}

/* What the loop, the indirect call and the two time stamps cost: the least of some trials. */
static uint64_t overhead_ticks(uint64_t n)
{
    void (*volatile operation)(void *) = nothing;
    uint64_t least = UINT64_MAX;
    for (int trial = 0; trial < 20; trial++) {
        uint64_t ticks = batch_ticks(operation, NULL, n);
        if (ticks < least) {
            least = ticks;
        }
    }
    return least;
}

void samples_measure(struct samples *samples, const struct options *options,
                     void (*operation)(void *context), void *context)
{
    uint64_t n = 1;
    (void)batch_ticks(operation, context, 1); /* first touch */
    while (n < BATCH_OPERATIONS_MAX && ticks_to_ns(batch_ticks(operation, context, n)) < BATCH_NS) {
        n *= 2;
    }
    uint64_t overhead = overhead_ticks(n);
    uint64_t deadline_ns = now_ns() + (uint64_t)options->milliseconds * 1000000u;
    while (samples->n < BATCHES_MIN || (now_ns() < deadline_ns && samples->n < SAMPLES_MAX)) {
        uint64_t ticks = batch_ticks(operation, context, n);
        ticks -= overhead < ticks ? overhead : 0;
        samples_add(samples, ticks_to_ns(ticks) / (double)n, n);
    }
}

static void print_parameters(const struct options *options)
{
    const struct {
        unsigned bit;
        const char *name;
        long value;
    } numbers[] = {
        {TAKES_N, "n", options->n},
        {TAKES_SPAN, "span", options->span},
        {TAKES_FIRST, "first", options->first},
        {TAKES_READY, "ready", options->ready},
        {TAKES_BATCH, "batch", options->batch},
        {TAKES_REPLY, "reply", options->reply},
        {TAKES_BURST, "burst", options->burst},
        {TAKES_PAUSE, "pause_us", options->pause_us},
        {TAKES_CPU, "cpu", options->cpu},
        {TAKES_QUEUE, "queue", options->queue},
    };
    const char *comma = "";
    printf("\"parameters\": {");
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        if ((options->bench->takes & numbers[i].bit) == 0) {
            continue;
        }
        printf("%s\"%s\": %ld", comma, numbers[i].name, numbers[i].value);
        comma = ", ";
    }
    if ((options->bench->takes & TAKES_MECHANISM) != 0) {
        printf("%s\"mechanism\": \"%s\"", comma, mechanism_name(options->mechanism));
    }
    printf("}");
}

void samples_print(const struct samples *samples, const struct options *options, const char *bench,
                   const char *extra)
{
    double *sorted = sorted_copy(samples);
    printf("{\"format\": \"dispatchsim-micro/1\", \"bench\": \"%s\", ", bench);
    print_parameters(options);
    printf(", \"unit\": \"ns\", \"median\": %.2f, \"p10\": %.2f, \"p90\": %.2f, "
           "\"operations\": %" PRIu64 ", \"steering\": \"%s\"%s}\n",
           quantile(sorted, samples->n, 0.5), quantile(sorted, samples->n, 0.1),
           quantile(sorted, samples->n, 0.9), samples->operations, steering(options), extra);
    free(sorted);
    if (fflush(stdout) != 0) {
        fail_errno("standard output");
    }
}
