/* Whether another guest uses the other hardware threads of the cores of two CPUs.
 *
 *     floor   ‾‾‾‾\___________/‾‾‾‾‾‾‾\_________        a cheap system call, median of each ms
 *             busy    calm       busy     calm ─► over
 *
 * Two hardware threads share the units and first caches of a core. A guest cannot see who uses the
 * other thread. Its own calls then take longer, for seconds at a time: on one EPYC of family 25 the
 * bench `calls` took 22 or 32 us. Arithmetic in which each step needs the one before (`spin`) takes
 * no longer, so it cannot show it.
 *
 * For a program that may run both CPUs at once, both must be checked at once: a host may put two
 * CPUs of a guest on the two threads of one core, and then each is slow while the other works.
 *
 * The bench ends once the last 50 ms were calm on both, or when its time is over. With one CPU for
 * both (--peer-cpu) it checks only that one. */
#include "micro.h"

#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

enum {
    CALLS = 16,         /* between two readings of the clock */
    PART_NS = 1000000,  /* whose median is compared with the limit */
    READINGS_MAX = 1024,
    PARTS = 50,         /* that must be calm, in succession ... */
    BUSY_MOST = 5,      /* ... except for these: a part may hold a timer tick or a gap */
};

static const double calm_quantile = 0.1; /* the least share of calm parts, if there are any */
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

struct watch {
    long cpu;
    double limit_ns;
    struct samples part, parts;
    atomic_bool is_calm, is_over;
};

static void watch_begin(struct watch *watch)
{
    samples_open(&watch->part);
    samples_open(&watch->parts);
    pin_to_cpu(watch->cpu);
}

static void watch_part(struct watch *watch)
{
    double ns = part_ns(&watch->part);
    samples_add(&watch->parts, ns, watch->part.n);
    atomic_store(&watch->is_calm, is_calm(&watch->parts, watch->limit_ns));
}

static double last_ns(const struct watch *watch)
{
    const struct samples *parts = &watch->parts;
    size_t n = parts->n < PARTS ? parts->n : PARTS;
    struct samples last = {.values = parts->values + (parts->n - n), .n = n};
    return samples_median(&last);
}

static void *watch_beside(void *context)
{
    struct watch *watch = context;
    watch_begin(watch);
    do {
        watch_part(watch);
    } while (!atomic_load(&watch->is_over));
    return NULL;
}

static void print_watch(const struct options *options, const struct watch *watch,
                        double beside_last_ns, uint64_t waited_ns, bool calm)
{
    struct samples busy;
    char extra[EXTRA_MAX];
    samples_open(&busy);
    find_busy(&watch->parts, &busy);
    (void)snprintf(extra, sizeof extra,
                   ", \"last_ns\": %.2f, \"beside_last_ns\": %.2f, \"waited_ns\": %llu, "
                   "\"calm\": %s, \"busy_share\": %.4f, \"busy_ratio\": %.3f",
                   last_ns(watch), beside_last_ns, (unsigned long long)waited_ns,
                   calm ? "true" : "false", (double)busy.n / (double)watch->parts.n,
                   busy.n > 0 ? samples_median(&busy) : 1.0);
    samples_print(&watch->parts, options, options->bench->name, extra);
    samples_close(&busy);
}

void bench_calm(const struct options *options)
{
    double limit_ns = (double)options->limit_ps / 1000.0;
    struct watch here = {.cpu = options->cpu, .limit_ns = limit_ns};
    struct watch beside = {.cpu = options->peer_cpu, .limit_ns = limit_ns};
    bool has_beside = options->peer_cpu != options->cpu;
    pthread_t thread;
    if (has_beside && pthread_create(&thread, NULL, watch_beside, &beside) != 0) {
        fail("a thread for the other CPU could not be begun");
    }
    uint64_t begin_ns = now_ns();
    uint64_t end_ns = begin_ns + (uint64_t)options->milliseconds * 1000000u;
    bool calm = false;
    watch_begin(&here);
    do {
        watch_part(&here);
        calm = atomic_load(&here.is_calm) && (!has_beside || atomic_load(&beside.is_calm));
    } while (now_ns() < end_ns && !calm);
    uint64_t waited_ns = now_ns() - begin_ns;
    if (has_beside) {
        atomic_store(&beside.is_over, true);
        (void)pthread_join(thread, NULL);
    }
    print_watch(options, &here, last_ns(has_beside ? &beside : &here), waited_ns, calm);
    samples_close(&here.part);
    samples_close(&here.parts);
    if (has_beside) {
        samples_close(&beside.part);
        samples_close(&beside.parts);
    }
}
