/* The machine itself: the floor of a system call, the clock, arithmetic and memory. */
#include "micro.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum {
    SPIN_STEPS = 10000,
    CHASE_BYTES = 16 << 20,
    CHASE_STEPS = 256,
    LARGE_PAGE_BYTES = 2 << 20,
};

static void measure_and_print(const struct options *options, long cpu, void (*operation)(void *),
                              void *context, double divisor)
{
    struct samples samples;
    pin_to_cpu(cpu);
    samples_open(&samples);
    samples_measure(&samples, options, operation, context);
    for (size_t i = 0; i < samples.n; i++) {
        samples.values[i] /= divisor;
    }
    samples_print(&samples, options, options->bench->name, "");
    samples_close(&samples);
}

static void call_getppid(void *context)
{
    (void)context;
    if (syscall(SYS_getppid) < 0) {
        fail_errno("getppid");
    }
}

void bench_floor(const struct options *options)
{
    measure_and_print(options, options->server_cpu, call_getppid, NULL, 1.0);
}

static void call_clock(void *context)
{
    if (clock_gettime(CLOCK_MONOTONIC_RAW, context) != 0) {
        fail_errno("clock_gettime");
    }
}

void bench_clock(const struct options *options)
{
    struct timespec time;
    measure_and_print(options, options->server_cpu, call_clock, &time, 1.0);
}

/* A xorshift generator: every step needs the one before it, nothing leaves the registers. */
static void spin_piece(void *context)
{
    uint64_t *seed = context;
    uint64_t x = *seed;
    for (int i = 0; i < SPIN_STEPS; i++) {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
    }
    *seed = x;
}

void bench_spin(const struct options *options)
{
    uint64_t seed = 88172645463325252u;
    measure_and_print(options, options->cpu, spin_piece, &seed, 1.0);
}

struct line {
    struct line *next;
    char rest[CACHE_LINE - sizeof(struct line *)];
};

static void chase(void *context)
{
    struct line **here = context;
    struct line *line = *here;
    for (int i = 0; i < CHASE_STEPS; i++) {
        line = line->next;
    }
    /* The compiler must not drop the walk, nor overlap two of them. */
    __asm__ volatile("" : "+r"(line) : : "memory");
    *here = line;
}

/* One cycle through all the lines in a random order (Sattolo's shuffle). */
static struct line *make_cycle(size_t n)
{
    /* Large pages where there are any: the walk is to feel the cache, not the page tables. */
    struct line *lines = aligned_alloc(LARGE_PAGE_BYTES, n * sizeof *lines);
    if (lines == NULL) {
        fail("no memory for %zu lines", n);
    }
    (void)madvise(lines, n * sizeof *lines, MADV_HUGEPAGE);
    size_t *order = allocate(n, sizeof *order);
    uint64_t x = 88172645463325252u;
    for (size_t i = 0; i < n; i++) {
        order[i] = i;
    }
    for (size_t i = n - 1; i > 0; i--) {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        size_t other = (size_t)(x % i);
        size_t swapped = order[i];
        order[i] = order[other];
        order[other] = swapped;
    }
    for (size_t i = 0; i < n; i++) {
        lines[order[i]].next = &lines[order[(i + 1) % n]];
    }
    free(order);
    return lines;
}

void bench_memory(const struct options *options)
{
    pin_to_cpu(options->cpu);
    struct line *lines = make_cycle(CHASE_BYTES / sizeof *lines);
    struct line *here = lines;
    measure_and_print(options, options->cpu, chase, &here, (double)CHASE_STEPS);
    free(lines);
}
