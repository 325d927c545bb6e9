/* What the benches of the emulated target need beside ../../c/micro/micro.h.
 *
 *        the one CPU                                     no CPU
 *     listener, watched sockets   <-- wire0, delay -->   scripted clients (../wire/wire.h)
 *
 * One instruction is one nanosecond and one tick of the CPU's counter. The clients act at the
 * nanosecond of their order, so the due time of each packet is known. */
#ifndef FAR_END_H
#define FAR_END_H

#include "../../c/micro/repeated.h"
#include "../../c/micro/watched.h"
#include "../wire/wire.h"

enum {
    DELAY_NS = 50000,      /* one way, as in the campaign */
    PACKET_NS_MAX = 14000, /* a bound of what the server does for a packet, its call included */
    REPETITIONS = 13, /* there is no noise, but what comes every 2, 3 or 4 times; the first is
                            * cold and does not count */
    SETTLE_NS = 100000, /* after the last packet that is due */
};

/* ---- far_end.c ---- */

/* As pair_open, with another delay than DELAY_NS. */
void pair_open_delayed(struct pair *pair, const struct options *options, long n_descriptors,
                       uint64_t delay_ns);
uint64_t far_end_delay_ns(void);
struct wire_status far_end_status(void);
/* n clients send SYNs that are due at the server from `due_ns` on; return the first's number. */
uint64_t clients_connect(long n, uint64_t due_ns, uint64_t gap_ns);
/* Requests due from `due_ns` on; `flags` as in wire.h. */
void clients_send(uint64_t first, long n, uint64_t due_ns, uint64_t gap_ns, uint64_t flags,
                  long reply_bytes);
void clients_reset(uint64_t first, long n, uint64_t due_ns, uint64_t gap_ns);
/* Play one trace line from now on; return the record when it is over. */
struct wire_record clients_play(const struct wire_row *row, uint64_t n_connections,
                                void (*serve)(void *context), void *context);
/* When the last play began, which its records count from. */
uint64_t play_begin_ns(void);

/* ---- connections.c, in addition to micro.h ---- */

/* Connections that wait in the listener's queue; and accepting these. */
void connections_queue(struct connections *connections, long n);
void connections_accept(struct connections *connections, const struct pair *pair);

/* ---- clock.c ---- */

uint64_t monotonic_ns(void);
/* The counter's value at a time of CLOCK_MONOTONIC. */
uint64_t ticks_at(uint64_t ns);
void sleep_until(uint64_t ns);
/* Some 300 instructions. Reading the counter is dear for the emulator: the host does it. */
void spend_instructions(void);
/* Learn when ticks come; once, before anything that needs to know it. */
void ticks_learn(void);
uint64_t tick_period_ns(void);
/* Sleep until no tick is due for that time, which leaves no deferred work; a period at most. */
void await_quiet(uint64_t needed_ns);

/* ---- repeated.c, in addition to repeated.h ---- */

/* Print the mean of all: what an allocator does once in a few operations has its share in each. */
void print_mean(const struct samples *samples, const struct options *options, const char *bench,
                const char *extra);

/* ---- gaps.c ---- */

/* What interrupts took from a program that does nothing but read the clock. */
struct gaps {
    uint64_t *begin_ns; /* of CLOCK_MONOTONIC */
    uint64_t *length_ns;
    size_t n;
};

void gaps_open(struct gaps *gaps);
void gaps_close(struct gaps *gaps);
/* Spin until `until_ns`, noting each gap. */
void gaps_record(struct gaps *gaps, uint64_t until_ns);
/* The same, and call `after` after each. */
void gaps_record_doing(struct gaps *gaps, uint64_t until_ns, void (*after)(void *context),
                       void *context);
/* Number and total of the gaps that begin in [from_ns, to_ns). */
struct theft {
    double ns, n;
};
struct theft gaps_between(const struct gaps *gaps, uint64_t from_ns, uint64_t to_ns);

/* ---- thefts.c ---- */

struct window {
    uint64_t from_ns, to_ns;
};

/* What repetitions of a burst took, per operation. */
struct thefts {
    struct samples stolen, gaps, polls, packets, answers; /* answers: packets that went back */
};

void thefts_open(struct thefts *thefts);
/* Spin through the window and note what was taken for each of n operations, as add_warm does. */
void be_robbed(struct gaps *gaps, struct window window, long n, int repetition,
               struct thefts *thefts);
/* Print the line of a result, and forget it. */
void thefts_print(struct thefts *thefts, const struct options *options, const char *bench);

/* ---- the benches of this folder ---- */

void bench_far_recheck(const struct options *options);
void bench_far_interrupt(const struct options *options);
void bench_far_connect(const struct options *options);
void bench_far_answered(const struct options *options);
void bench_far_serve(const struct options *options);
void bench_far_block(const struct options *options);
void bench_far_handshake(const struct options *options);
void bench_far_deferred_tick(const struct options *options);
void bench_far_deferred_again(const struct options *options);
void bench_far_deferred_sleep(const struct options *options);
void bench_far_asleep(const struct options *options);
void bench_far_write_leaves(const struct options *options);
void bench_far_accept_looks(const struct options *options);
void bench_far_wait_looks(const struct options *options);
void bench_far_dropped(const struct options *options);
void bench_far_changed(const struct options *options);
void bench_far_sleeps(const struct options *options);
void bench_far_polls(const struct options *options);
void bench_far_polls_sleep(const struct options *options);
void bench_far_flights(const struct options *options);
void bench_far_ring_sleeps(const struct options *options);

#endif
