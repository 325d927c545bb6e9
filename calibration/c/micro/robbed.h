/* When the other CPU takes time from the server, and whether a send had to interrupt it.
 *
 *     peer      ········ send ─────────┐   (longer with an interrupt than without)
 *     server    spins ················· robbed ···· goes on, or makes a call at `due`
 *
 * The server announces when it will act; the peer sends before, during or after that. */
#ifndef ROBBED_H
#define ROBBED_H

#include "clients.h"

enum {
    AHEAD_NS = 8000,     /* that something is announced */
    EARLIEST_NS = -6000, /* that a request is sent beside it */
    LATEST_NS = 9000,
    SETTLE_NS = 60000,
};

/* All in ticks. */
struct robbery {
    _Alignas(CACHE_LINE) atomic_uint_least64_t due;
    _Alignas(CACHE_LINE) atomic_uint_least64_t robbed; /* the last reading before; 0: not yet */
    atomic_uint_least64_t back;                        /* the first one after */
};

/* Announce what the server does AHEAD_NS from now; return when that is. */
uint64_t announce(struct robbery *robbery);
/* Read the clock until `until`; publish the first robbery. */
void be_robbed_until(struct robbery *robbery, uint64_t until);
void spin_until(uint64_t ticks);
/* From `then` to `now`; negative if now is earlier. */
double since_ns(uint64_t now, uint64_t then);
/* The time of a request of the peer, and when it began. */
double timed_send_ns(const struct pair *pair, int client, uint64_t *begun);

/* Requests at random times beside something that is due. */
struct beside {
    bool nobody_interrupts; /* on loopback the sender's CPU receives */
    uint32_t random;
    double *begun_ns, *taken_ns;
    size_t n;
};

void beside_open(struct beside *beside, const struct options *options);
void beside_close(struct beside *beside);
/* Spin until a random time beside `due`. */
void beside_wait(struct beside *beside, uint64_t due);
void beside_add(struct beside *beside, double begun_ns, double taken_ns);
/* Add to `found` the begins of requests without an interrupt: they took no longer than halfway from
 * the calls `without` to those `with` an interrupt. */
void beside_tell_apart(const struct beside *beside, const struct samples *without,
                       const struct samples *with, struct samples *found);

#endif
