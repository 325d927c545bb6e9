/* Operations of a server through io_uring, in batches of one kind.
 *
 *     connect x B | accept: ring_accept | tick | receive x B: ring_arm | request x B |
 *     ring_receive_armed | send, close linked x B: ring_reply
 *     the same again, until requests are there | receive x B: ring_receive | write x B |
 *     close x B: ring_close
 *
 * No call here sleeps. Linux executes 20 due items at a time since 6.13, so B is at most that. On
 * the counted target the clients are so far away that their reactions come after the end. */
#include "callers.h"
#include "repeated.h"
#include "ring.h"
#include "watched.h"

#include "../servers/reply.h"

#include <stdlib.h>
#include <sys/uio.h>

enum { DUE_AT_ONCE = 20 };

enum step {
    RING_ENTER,
    RING_ACCEPTS,
    RING_ARMS,
    RING_RECEIVES_ARMED,
    RING_REPLIES,
    RING_RECEIVES,
    RING_CLOSES,
    N_STEPS
};

static const char *const step_names[N_STEPS] = {
    [RING_ENTER] = "ring_enter",   [RING_ACCEPTS] = "ring_accept",
    [RING_ARMS] = "ring_arm",      [RING_RECEIVES_ARMED] = "ring_receive_armed",
    [RING_REPLIES] = "ring_reply", [RING_RECEIVES] = "ring_receive",
    [RING_CLOSES] = "ring_close",
};

struct rings {
    struct callers callers;
    struct ring ring;
    int *fds;
    struct iovec parts[2];
    struct msghdr message;
    int repetition;
    struct samples samples[N_STEPS];
};

/* Submit *operation* for each connection, enter, and see n_completed. */
static void time_step(struct rings *rings, enum step step, void (*operation)(struct rings *, int),
                      long n_completed)
{
    int results[DUE_AT_ONCE];
    long n = rings->callers.n, n_results = n_completed > 0 ? n_completed : 1;
    await_calm();
    uint64_t first = ticks_now();
    for (long i = 0; operation != NULL && i < n; i++) {
        operation(rings, rings->fds[i]);
    }
    ring_go(&rings->ring, RING_NO_WAIT);
    long n_seen = ring_see(&rings->ring, results, n_results);
    uint64_t ticks = ticks_now() - first;
    if (n_seen != n_completed) {
        fail("%s: %ld were completed instead of %ld", step_names[step], n_seen, n_completed);
    }
    if (step == RING_ACCEPTS) {
        for (long i = 0; i < n_seen; i++) {
            rings->fds[i] = results[i];
        }
    }
    add_warm(&rings->samples[step], rings->repetition, ns_of(ticks), (uint64_t)n);
}

static void receive(struct rings *rings, int fd)
{
    ring_receive(&rings->ring, fd);
}

static char header[REPLY_HEADER_BYTES];

static void answer(struct rings *rings, int fd)
{
    reply_header(header, REPLY_BYTES);
    ring_send(&rings->ring, fd, &rings->message, true);
    ring_close(&rings->ring, fd);
}

static void end(struct rings *rings, int fd)
{
    ring_close(&rings->ring, fd);
}

static void come(struct rings *rings)
{
    callers_come(&rings->callers);
    time_step(rings, RING_ACCEPTS, NULL, rings->callers.n);
}

static void serve_armed(struct rings *rings)
{
    come(rings);
    time_step(rings, RING_ENTER, NULL, 0);
    time_step(rings, RING_ARMS, receive, 0);
    callers_ask(&rings->callers);
    time_step(rings, RING_RECEIVES_ARMED, NULL, rings->callers.n);
    time_step(rings, RING_REPLIES, answer, 0);
    callers_go(&rings->callers);
}

static void serve_at_once(struct rings *rings)
{
    come(rings);
    callers_ask(&rings->callers);
    time_step(rings, RING_RECEIVES, receive, rings->callers.n);
    for (long i = 0; i < rings->callers.n; i++) {
        reply(rings->fds[i], REPLY_BYTES);
    }
    time_step(rings, RING_CLOSES, end, 0);
    callers_go(&rings->callers);
}

/* ring_calls */
void bench_rings(const struct options *options)
{
    static char letters[REPLY_BYTES - REPLY_HEADER_BYTES];
    long n = options->batch;
    struct rings rings = {
        .fds = allocate((size_t)n, sizeof(int)),
        .parts = {{header, sizeof header}, {letters, sizeof letters}},
    };
    if (n > DUE_AT_ONCE) {
        fail_usage("--batch must be at most %d, got %ld", DUE_AT_ONCE, n);
    }
    rings.message = (struct msghdr){.msg_iov = rings.parts, .msg_iovlen = 2};
    callers_open(&rings.callers, options, n, REPLY_BYTES, N_STEPS);
    ring_begin(&rings.ring, n + SPARE_DESCRIPTORS);
    let_block(rings.callers.pair.listener);
    for (int step = 0; step < N_STEPS; step++) {
        samples_open(&rings.samples[step]);
    }
    ring_accept(&rings.ring, rings.callers.pair.listener);
    ring_go(&rings.ring, RING_NO_WAIT);
    for (struct repetitions r = repetitions_of(options); repeat(&r);) {
        rings.repetition = r.n;
        serve_armed(&rings);
        serve_at_once(&rings);
    }
    for (int step = 0; step < N_STEPS; step++) {
        print_typical(&rings.samples[step], options, step_names[step], "");
        samples_close(&rings.samples[step]);
    }
    ring_close_all(&rings.ring);
    free(rings.fds);
    callers_close(&rings.callers);
}
