/* What is done for a server through io_uring, by batches, each of one kind alone.
 *
 *     connect x B | accept: ring_accept | tick | receive x B: ring_arm | request x B |
 *     ring_receive_armed | send, close linked x B: ring_reply
 *     the same again, until requests are there | receive x B: ring_receive | write x B |
 *     close x B: ring_close
 *
 * The clients are so far away that what they answer comes when all is over. No call here sleeps. */
#include "armed.h"

#include "../../servers/reply.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/uio.h>

enum step {
    RING_ENTER, RING_ACCEPTS, RING_ARMS, RING_RECEIVES_ARMED, RING_REPLIES, RING_RECEIVES,
    RING_CLOSES,
    N_STEPS
};

static const char *const step_names[N_STEPS] = {
    [RING_ENTER] = "ring_enter",
    [RING_ACCEPTS] = "ring_accept",
    [RING_ARMS] = "ring_arm",
    [RING_RECEIVES_ARMED] = "ring_receive_armed",
    [RING_REPLIES] = "ring_reply",
    [RING_RECEIVES] = "ring_receive",
    [RING_CLOSES] = "ring_close",
};

struct rings {
    const struct options *options;
    struct pair pair;
    struct ring ring;
    long n;
    int *fds;
    struct iovec parts[2];
    struct msghdr message;
    int repetition;
    struct samples samples[N_STEPS];
};

static void block_in(int fd)
{
    if (fcntl(fd, F_SETFL, 0) != 0)
        fail_errno("fcntl");
}

static void ring_of(struct ring *ring, long fds_max)
{
    if (ring_open(ring, (size_t)fds_max) != 0)
        fail_errno("io_uring");
}

static void enter(struct ring *ring, enum ring_wait wait)
{
    if (ring_enter(ring, wait) != 0)
        fail_errno("io_uring_enter");
}

/* See what was completed, as the server does: at most n, whose results are noted. */
static long see(struct ring *ring, int *results, long n)
{
    struct ring_completion completion;
    long n_seen = 0;
    while (n_seen < n && ring_completed(ring, &completion)) {
        if (completion.result < 0)
            fail("operation %d of a ring failed with %d", (int)completion.operation,
                 -completion.result);
        if (completion.operation == RING_RECEIVE)
            ring_give_back(ring, completion.buffer);
        results[n_seen++] = completion.result;
    }
    return n_seen;
}

/* Submit *operation* for each connection, enter, and see n_completed. */
static void time_step(struct rings *rings, enum step step, void (*operation)(struct rings *, int),
                      long n_completed)
{
    int results[EVENTS_MAX];
    long n_results = n_completed > 0 ? n_completed : 1;
    await_quiet((uint64_t)rings->n * 2 * PACKET_NS_MAX);
    uint64_t first = ticks_now();
    for (long i = 0; operation != NULL && i < rings->n; i++)
        operation(rings, rings->fds[i]);
    enter(&rings->ring, RING_NO_WAIT);
    long n_seen = see(&rings->ring, results, n_results);
    uint64_t ticks = ticks_now() - first;
    if (n_seen != n_completed)
        fail("%s: %ld were completed instead of %ld", step_names[step], n_seen, n_completed);
    if (step == RING_ACCEPTS)
        for (long i = 0; i < n_seen; i++)
            rings->fds[i] = results[i];
    add_warm(&rings->samples[step], rings->repetition, (double)ticks, (uint64_t)rings->n);
}

static void receive(struct rings *rings, int fd) { ring_receive(&rings->ring, fd); }

static char header[REPLY_HEADER_BYTES];

static void answer(struct rings *rings, int fd)
{
    reply_header(header, REPLY_BYTES);
    ring_send(&rings->ring, fd, &rings->message, true);
    ring_close(&rings->ring, fd);
}

static void end(struct rings *rings, int fd) { ring_close(&rings->ring, fd); }

static uint64_t flight_ns(const struct rings *rings)
{
    return far_end_delay_ns() + (uint64_t)rings->n * PACKET_NS_MAX + SETTLE_NS;
}

/* Connections come, and are accepted; return the first client's number. */
static uint64_t come(struct rings *rings)
{
    uint64_t due_ns = monotonic_ns() + flight_ns(rings);
    uint64_t first = clients_connect(rings->n, due_ns, 0);
    sleep_until(due_ns + 2 * flight_ns(rings));
    time_step(rings, RING_ACCEPTS, NULL, rings->n);
    return first;
}

static void ask(const struct rings *rings, uint64_t first)
{
    uint64_t due_ns = monotonic_ns() + flight_ns(rings);
    clients_send(first, rings->n, due_ns, 0, 0, rings->options->reply);
    sleep_until(due_ns + flight_ns(rings));
}

/* The resets that answer the replies; sockets and timers are gone after them. */
static void go(const struct rings *rings)
{
    sleep_until(monotonic_ns() + 2 * far_end_delay_ns() + flight_ns(rings));
}

static void serve_armed(struct rings *rings)
{
    uint64_t first = come(rings);
    time_step(rings, RING_ENTER, NULL, 0);
    time_step(rings, RING_ARMS, receive, 0);
    ask(rings, first);
    time_step(rings, RING_RECEIVES_ARMED, NULL, rings->n);
    time_step(rings, RING_REPLIES, answer, 0);
    go(rings);
}

static void serve_at_once(struct rings *rings)
{
    uint64_t first = come(rings);
    ask(rings, first);
    time_step(rings, RING_RECEIVES, receive, rings->n);
    for (long i = 0; i < rings->n; i++)
        reply(rings->fds[i], rings->options->reply);
    time_step(rings, RING_CLOSES, end, 0);
    go(rings);
}

/* ring_calls */
void bench_far_rings(const struct options *options)
{
    static char letters[REPLY_BYTES - REPLY_HEADER_BYTES];
    long n = options->batch;
    struct rings rings = {
        .options = options,
        .n = n,
        .fds = allocate((size_t)n, sizeof(int)),
        .parts = {{header, sizeof header}, {letters, sizeof letters}},
    };
    if (n > EVENTS_MAX)
        fail_usage("--batch must be at most %d, got %ld", EVENTS_MAX, n);
    rings.message = (struct msghdr){.msg_iov = rings.parts, .msg_iovlen = 2};
    pair_open_delayed(&rings.pair, options, n + SPARE_DESCRIPTORS,
                      DELAY_NS + N_STEPS * tick_period_ns());
    ring_of(&rings.ring, n + SPARE_DESCRIPTORS);
    block_in(rings.pair.listener);
    for (int step = 0; step < N_STEPS; step++)
        samples_open(&rings.samples[step]);
    ring_accept(&rings.ring, rings.pair.listener);
    enter(&rings.ring, RING_NO_WAIT);
    for (rings.repetition = 0; rings.repetition < REPETITIONS; rings.repetition++) {
        serve_armed(&rings);
        serve_at_once(&rings);
    }
    for (int step = 0; step < N_STEPS; step++) {
        print_mean(&rings.samples[step], options, step_names[step], "");
        samples_close(&rings.samples[step]);
    }
    ring_close_all(&rings.ring);
    free(rings.fds);
    pair_close(&rings.pair);
}

static void note(struct armed *armed) { ring_receive(&armed->ring, armed_fd(armed)); }

static void arm(struct armed *armed)
{
    note(armed);
    enter(&armed->ring, RING_NO_WAIT);
}

static void wait_for_one(struct armed *armed)
{
    int n_bytes;
    enter(&armed->ring, RING_WAIT);
    if (see(&armed->ring, &n_bytes, 1) != 1 || n_bytes != REQUEST_BYTES)
        fail("a request did not come whole");
}

static void take_nothing(struct armed *armed) { (void)armed; }

/* ring_sleeps */
void bench_far_ring_sleeps(const struct options *options)
{
    struct armed armed = {.note = note, .arm = arm, .take_armed = wait_for_one,
                          .wait = wait_for_one, .take = take_nothing};
    armed_open(&armed, options, 1);
    block_in(armed_fd(&armed));
    ring_of(&armed.ring, SPARE_DESCRIPTORS);
    armed_sleeps(&armed, options);
    ring_close_all(&armed.ring);
    armed_close(&armed);
}
