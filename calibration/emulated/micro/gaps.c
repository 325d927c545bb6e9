/* Gaps between readings of the clock: nothing but interrupts makes them.
 *
 *     reads, reads, reads ....gap.... reads, reads ....gap.... reads
 *                         ^ begin_ns  ^ begin_ns + length_ns
 *
 * What a reading itself takes is subtracted, so a gap is what was stolen to the instruction. */
#include "far_end.h"

#include <stdlib.h>
#include <string.h>

enum { GAPS_MAX = 65536, GAP_NS_MIN = 800 /* a reading takes some 300 */ };

void gaps_open(struct gaps *gaps)
{
    *gaps = (struct gaps){
        .begin_ns = allocate(GAPS_MAX, sizeof(uint64_t)),
        .length_ns = allocate(GAPS_MAX, sizeof(uint64_t)),
    };
    /* A page touched for the first time while recording would look like an interrupt. */
    memset(gaps->begin_ns, 1, GAPS_MAX * sizeof(uint64_t));
    memset(gaps->length_ns, 1, GAPS_MAX * sizeof(uint64_t));
    gaps_record(gaps, monotonic_ns() + 1000);
}

void gaps_close(struct gaps *gaps)
{
    free(gaps->begin_ns);
    free(gaps->length_ns);
}

void gaps_record(struct gaps *gaps, uint64_t until_ns)
{
    gaps_record_doing(gaps, until_ns, NULL, NULL);
}

void gaps_record_doing(struct gaps *gaps, uint64_t until_ns, void (*after)(void *context),
                       void *context)
{
    uint64_t end = ticks_at(until_ns);
    uint64_t offset = ticks_at(0);
    uint64_t reading = UINT64_MAX;
    size_t n = 0;
    uint64_t last = ticks_now();
    while (last < end) {
        uint64_t now = ticks_now();
        uint64_t gap = now - last;
        if (gap > GAP_NS_MIN && n < GAPS_MAX) {
            gaps->begin_ns[n] = last - offset;
            gaps->length_ns[n++] = gap;
            if (after != NULL) {
                after(context);
            }
            now = ticks_now(); /* neither is the noting, nor what was done, part of the next */
        } else if (gap < reading) {
            reading = gap;
        }
        last = now;
        spend_instructions();
    }
    if (n == GAPS_MAX) {
        fail("more than %d interrupts in one window", GAPS_MAX);
    }
    gaps->n = n;
    for (size_t i = 0; i < n; i++) {
        gaps->length_ns[i] -= reading;
    }
}

struct theft gaps_between(const struct gaps *gaps, uint64_t from_ns, uint64_t to_ns)
{
    struct theft theft = {0.0, 0.0};
    for (size_t i = 0; i < gaps->n; i++) {
        if (gaps->begin_ns[i] < from_ns || gaps->begin_ns[i] >= to_ns) {
            continue;
        }
        theft.ns += (double)gaps->length_ns[i];
        theft.n += 1.0;
    }
    return theft;
}
