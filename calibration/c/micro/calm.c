/* Whether somebody else uses the other hardware thread of a core, seen from this one.
 *
 *     floor   ‾‾‾‾\___________/‾‾‾‾‾‾‾\_________        a cheap system call, median of each ms
 *             busy    calm       busy     calm ─► over
 *
 * Two hardware threads share the units and first caches of a core. A guest is not told who has the
 * other thread; its own calls then take 1.3 to 1.7 times as long, for seconds at a time. Arithmetic
 * of which each step needs the one before (`spin`) takes as long as ever, so it cannot tell.
 *
 * The bench ends once the last 50 ms were calm, or when its time is over. */
#include "micro.h"

#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

enum {
    CALLS = 16,         /* between two readings of the clock */
    PART_NS = 1000000,  /* whose median is compared with the limit */
    READINGS_MAX = 1024,
    PARTS = 50,         /* that must be calm, in succession ... */
    BUSY_MOST = 5,      /* ... but for so many: a part may hold a timer tick or a gap */
};

static const double calm_quantile = 0.1; /* of the parts: so many are calm at least, if any */
static const double busy_ratio = 1.15;   /* from this on a part is busy */

static double call_ns(void)
{
    uint64_t first = ticks_now();
    for (int i = 0; i < CALLS; i++) {
        if (syscall(SYS_getppid) < 0) {
            fail_errno("getppid");
        }
    }
    return ticks_to_ns(ticks_now() - first) / CALLS;
}

/* The median of one part, in ns a call. */
static double part_ns(struct samples *part)
{
    uint64_t end_ns = now_ns() + PART_NS;
    part->n = 0;
    while (part->n == 0 || (now_ns() < end_ns && part->n < READINGS_MAX)) {
        samples_add(part, call_ns(), CALLS);
    }
    return samples_median(part);
}

static bool is_calm(const struct samples *parts, double limit_ns)
{
    int n_busy = 0;
    if (parts->n < PARTS) {
        return false;
    }
    for (size_t i = parts->n - PARTS; i < parts->n; i++) {
        n_busy += parts->values[i] > limit_ns;
    }
    return n_busy <= BUSY_MOST;
}

/* Put the parts that took much longer than the calm ones into *busy, over these. */
static void find_busy(const struct samples *parts, struct samples *busy)
{
    double calm_ns = samples_quantile(parts, calm_quantile);
    for (size_t i = 0; i < parts->n; i++) {
        if (parts->values[i] > busy_ratio * calm_ns) {
            samples_add(busy, parts->values[i] / calm_ns, 1);
        }
    }
}

void bench_calm(const struct options *options)
{
    struct samples part;
    struct samples parts;
    struct samples busy;
    uint64_t begin_ns = now_ns();
    uint64_t end_ns = begin_ns + (uint64_t)options->milliseconds * 1000000u;
    char extra[EXTRA_MAX];
    samples_open(&part);
    samples_open(&parts);
    samples_open(&busy);
    pin_to_cpu(options->cpu);
    do {
        double ns = part_ns(&part);
        samples_add(&parts, ns, part.n);
    } while (now_ns() < end_ns && !is_calm(&parts, (double)options->limit_ps / 1000.0));
    size_t n_last = parts.n < PARTS ? parts.n : PARTS;
    struct samples last = {.values = parts.values + (parts.n - n_last), .n = n_last};
    find_busy(&parts, &busy);
    (void)snprintf(extra, sizeof extra,
                   ", \"last_ns\": %.2f, \"waited_ns\": %llu, \"calm\": %s, \"busy_share\": %.4f, "
                   "\"busy_ratio\": %.3f",
                   samples_median(&last), (unsigned long long)(now_ns() - begin_ns),
                   is_calm(&parts, (double)options->limit_ps / 1000.0) ? "true" : "false",
                   (double)busy.n / (double)parts.n, busy.n > 0 ? samples_median(&busy) : 1.0);
    samples_print(&parts, options, options->bench->name, extra);
    samples_close(&part);
    samples_close(&parts);
    samples_close(&busy);
}
