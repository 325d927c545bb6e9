/* Repetitions on the counted target: how many, which count, and as what. */
#include "far_end.h"

enum { BYTE_GAP_NS = 20000 };

struct repetitions repetitions_of(const struct options *options)
{
    (void)options;
    return (struct repetitions){.n = -1};
}

bool repeat(struct repetitions *repetitions)
{
    return ++repetitions->n < REPETITIONS;
}

double ns_of(uint64_t ticks)
{
    return (double)ticks;
}

void await_calm(void)
{
    await_quiet(tick_period_ns() / 2);
}

void bytes_come(const struct connections *connections, struct pair *pair, long first, long n)
{
    (void)pair;
    uint64_t due_ns = monotonic_ns() + far_end_delay_ns() + SETTLE_NS;
    clients_send((uint64_t)connections->clients[first], n, due_ns, BYTE_GAP_NS, WIRE_RAW, 0);
    sleep_until(due_ns + (uint64_t)n * BYTE_GAP_NS + SETTLE_NS);
}

void add_warm(struct samples *samples, int repetition, double ns, uint64_t n)
{
    if (repetition > 0) {
        samples_add(samples, ns, n);
    }
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

void print_typical(const struct samples *samples, const struct options *options, const char *bench,
                   const char *extra)
{
    print_mean(samples, options, bench, extra);
}

double busy_ns(void)
{
    return (double)ticks_now() - (double)far_end_status().idle_ns;
}

void sleep_ns(uint64_t ns)
{
    sleep_until(monotonic_ns() + ns);
}
