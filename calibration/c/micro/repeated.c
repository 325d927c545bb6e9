/* Repetitions on hardware: until the bench's time is over. */
#include "repeated.h"

#include <errno.h>
#include <sys/resource.h>
#include <time.h>

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
    if (repetition > 0) {
        samples_add(samples, ns, n);
    }
}

/* The least of some trials: a reading that was interrupted is no reading. */
static uint64_t reading_ticks(void)
{
    static uint64_t known;
    if (known != 0) {
        return known;
    }
    known = UINT64_MAX;
    for (int trial = 0; trial < TRIALS; trial++) {
        uint64_t first = ticks_now();
        uint64_t ticks = ticks_now() - first;
        if (ticks < known) {
            known = ticks;
        }
    }
    return known;
}

double ns_of(uint64_t ticks)
{
    uint64_t reading = reading_ticks();
    return ticks_to_ns(ticks > reading ? ticks - reading : 0);
}

/* Ticks are rare here and go to the tail; packets may still be on their way. */
void await_calm(void)
{
    spin_ns(CALM_NS);
}

void bytes_come(const struct connections *connections, struct pair *pair, long first, long n)
{
    connections_ready(connections, pair, first, n);
}

void print_typical(const struct samples *samples, const struct options *options, const char *bench,
                   const char *extra)
{
    samples_print(samples, options, bench, extra);
}

static double ns_of_time(struct timeval time)
{
    return (double)time.tv_sec * 1e9 + (double)time.tv_usec * 1e3;
}

double busy_ns(void)
{
    struct timespec own;
    struct rusage children;
    if (clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &own) != 0) {
        fail_errno("clock_gettime");
    }
    if (getrusage(RUSAGE_CHILDREN, &children) != 0) {
        fail_errno("getrusage");
    }
    return (double)own.tv_sec * 1e9 + (double)own.tv_nsec + ns_of_time(children.ru_utime) +
           ns_of_time(children.ru_stime);
}

void sleep_ns(uint64_t ns)
{
    struct timespec left = {.tv_sec = (time_t)(ns / 1000000000u),
                            .tv_nsec = (long)(ns % 1000000000u)};
    int error;
    while ((error = clock_nanosleep(CLOCK_MONOTONIC, 0, &left, &left)) == EINTR)
        ;
    if (error != 0) {
        fail("clock_nanosleep failed");
    }
}
