/* Absolute times: the counter against CLOCK_MONOTONIC, and the timer tick. */
#include "far_end.h"

#include <errno.h>
#include <time.h>

enum { TICK_GAP_NS_MIN = 1000, TICK_NS_MAX = 100000, STEPS = 100 };

uint64_t monotonic_ns(void)
{
    struct timespec time;
    if (clock_gettime(CLOCK_MONOTONIC, &time) != 0) {
        fail_errno("clock_gettime");
    }
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

uint64_t ticks_at(uint64_t ns)
{
    static uint64_t offset;
    if (offset == 0) {
        (void)monotonic_ns(); /* first touch */
        uint64_t before = ticks_now();
        uint64_t at_ns = monotonic_ns();
        uint64_t after = ticks_now();
        offset = before + (after - before) / 2 - at_ns;
    }
    return ns + offset;
}

void sleep_until(uint64_t ns)
{
    struct timespec time = {.tv_sec = (time_t)(ns / 1000000000u),
                            .tv_nsec = (long)(ns % 1000000000u)};
    int error;
    while ((error = clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &time, NULL)) == EINTR)
        ;
    if (error != 0) {
        fail("clock_nanosleep failed");
    }
}

void spend_instructions(void)
{
    for (int i = 0; i < STEPS; i++) {
        __asm__ volatile("");
    }
}

/* Spin until just after a timer tick. */
static uint64_t tick_seen_ns(void)
{
    uint64_t last = ticks_now();
    for (;;) {
        uint64_t now = ticks_now();
        if (now - last > TICK_GAP_NS_MIN) {
            return monotonic_ns();
        }
        last = now;
        spend_instructions();
    }
}

static uint64_t first_tick_ns, period_ns;

void ticks_learn(void)
{
    first_tick_ns = tick_seen_ns();
    period_ns = tick_seen_ns() - first_tick_ns;
    /* A whole fraction of a second; the readings are some 300 ns apart. */
    period_ns = 1000000000u / ((1000000000u + period_ns / 2) / period_ns);
}

uint64_t tick_period_ns(void)
{
    return period_ns;
}

void await_quiet(uint64_t needed_ns)
{
    /* Ticks stop while the CPU sleeps, and go on afterwards where they would have been. */
    sleep_until(monotonic_ns() + SETTLE_NS);
    uint64_t gone_ns = (monotonic_ns() - first_tick_ns) % period_ns;
    if (gone_ns < TICK_NS_MAX) {
        sleep_until(monotonic_ns() + TICK_NS_MAX - gone_ns);
    } else if (gone_ns + needed_ns > period_ns) {
        sleep_until(monotonic_ns() + period_ns - gone_ns + TICK_NS_MAX);
    }
}
