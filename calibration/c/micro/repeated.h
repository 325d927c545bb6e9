/* Timed repetitions of a single call, on any machine.
 *
 *     hardware          as often as there is time for: a median is of thousands   repeated.c
 *     counted target    a few times, each between two timer ticks                 its repeated.c
 *
 * The benches that differ in nothing else have one source for both. */
#ifndef REPEATED_H
#define REPEATED_H

#include "micro.h"

enum { SPARE_DESCRIPTORS = 100 };

struct repetitions {
    int n; /* of the present one, from 0 */
    uint64_t deadline_ns;
};

struct repetitions repetitions_of(const struct options *options);
/* Is there another one? Called at the end of each, for (...; repeat(&r);), and before the first. */
bool repeat(struct repetitions *repetitions);
/* Note a sample, unless it is of the first repetition, which is cold. */
void add_warm(struct samples *samples, int repetition, double ns, uint64_t n);
/* What passed between two readings of the clock, less the reading. */
double ns_of(uint64_t ticks);
/* Print what an operation typically costs: an allocator does some work once in a few of them, which
 * the many samples of hardware leave to the tail, and the few of the counted target share out. */
void print_typical(const struct samples *samples, const struct options *options, const char *bench,
                   const char *extra);
/* What the server's CPU has done for this program so far, and for those that it began: on hardware
 * of its threads and of the processes that have ended, their interrupts not included. */
double busy_ns(void);
void sleep_ns(uint64_t ns);
/* Until nothing that was begun is left to do, and no timer tick is near. */
void await_calm(void);
/* Bytes for connections first ... first+n-1, one after the other, so that each interrupts. */
void bytes_come(const struct connections *connections, struct pair *pair, long first, long n);

#endif
