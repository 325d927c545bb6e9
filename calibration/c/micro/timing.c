/* Clocks: the CPU's counter calibrated against CLOCK_MONOTONIC_RAW and CPU time. */
#include "micro.h"

#include <time.h>

static double ticks_per_ns = 1.0;

static uint64_t read_clock(clockid_t clock)
{
    struct timespec time;
    if (clock_gettime(clock, &time) != 0) {
        fail_errno("clock_gettime");
    }
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

#if !defined(__x86_64__) && !defined(__i386__)
uint64_t ticks_now(void)
{
    return read_clock(CLOCK_MONOTONIC_RAW);
}
#endif

uint64_t now_ns(void)
{
    return read_clock(CLOCK_MONOTONIC_RAW);
}

uint64_t thread_cpu_ns(void)
{
    return read_clock(CLOCK_THREAD_CPUTIME_ID);
}

double thread_cpu_overhead_ns(void)
{
    enum { TRIALS = 1000 };
    uint64_t first = ticks_now();
    for (int i = 0; i < TRIALS; i++) {
        (void)thread_cpu_ns();
    }
    return ticks_to_ns(ticks_now() - first) / TRIALS;
}

void timing_calibrate(void)
{
    /* 20 ms: a tick or an exit of the virtual machine of 10 us makes an error of 0.05 %. */
    uint64_t ns_first = now_ns();
    uint64_t ticks_first = ticks_now();
    while (now_ns() - ns_first < 20000000u) {
        relax();
    }
    uint64_t ns_last = now_ns();
    uint64_t ticks_last = ticks_now();
    if (ticks_last <= ticks_first) {
        fail("the CPU's time stamp counter does not run");
    }
    ticks_per_ns = (double)(ticks_last - ticks_first) / (double)(ns_last - ns_first);
}

double ticks_to_ns(uint64_t ticks)
{
    return (double)ticks / ticks_per_ns;
}

uint64_t ns_to_ticks(double ns)
{
    return (uint64_t)(ns * ticks_per_ns);
}

void spin_ns(double ns)
{
    uint64_t first = ticks_now();
    uint64_t ticks = ns_to_ticks(ns);
    while (ticks_now() - first < ticks) {
        relax();
    }
}

enum { GAP_NS_MIN = 400 }; /* a reading takes some 20 ns, an interrupt 1 us and more */

double stolen_ns(const atomic_bool *over, long *n_interrupts)
{
    uint64_t gap_min = ns_to_ticks(GAP_NS_MIN), stolen = 0;
    *n_interrupts = 0;
    for (uint64_t last = ticks_now(), now; !atomic_load(over); last = now) {
        now = ticks_now();
        if (now - last >= gap_min) {
            stolen += now - last;
            ++*n_interrupts;
        }
    }
    return ticks_to_ns(stolen);
}
