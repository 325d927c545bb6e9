/* Waits of a server that submits polls by AIO before them.
 *
 *     B are readable    | watch x (B + 1) | polls_ready: B + 1 submitted, all ready, B + 1 events
 *     all are read      | watch x (B + 1) | polls_quiet: B are armed, 1 event
 *     B become readable | watch           | polls_posted: 1 submitted, B + 1 events
 *
 * One more connection is readable all the time, so that no wait blocks. */
#include "armed.h"

enum step { WATCH, READY, QUIET, POSTED, N_STEPS };

static const char *const step_names[N_STEPS] = {
    [WATCH] = "polls_watch",
    [READY] = "polls_ready",
    [QUIET] = "polls_quiet",
    [POSTED] = "polls_posted",
};

struct polls {
    long n; /* the last but one connections, and one that is always ready */
    struct connections all;
    struct served *served;
    struct samples samples[N_STEPS];
};

static void watch_all(struct polls *polls, int repetition)
{
    await_quiet(tick_period_ns() / 2);
    uint64_t first = ticks_now();
    for (long i = 0; i < polls->n; i++) {
        watch(polls->served, polls->all.server_fds[i]);
    }
    uint64_t ticks = ticks_now() - first;
    add_warm(&polls->samples[WATCH], repetition, (double)ticks / (double)polls->n,
             (uint64_t)polls->n);
}

static void time_wait(struct polls *polls, int repetition, enum step step, long n_events)
{
    watch(polls->served, polls->all.server_fds[polls->n]);
    await_quiet(tick_period_ns() / 2);
    add_warm(&polls->samples[step], repetition, (double)ticks_of_wait(polls->served, n_events), 1);
}

static void read_all(const struct polls *polls)
{
    for (long i = 0; i < polls->n; i++) {
        if (receive_bytes(polls->all.server_fds[i], 1) != 1) {
            fail("a connection lost its byte");
        }
    }
}

void bench_far_polls(const struct options *options)
{
    struct pair pair;
    long n = options->batch;
    struct polls polls = {.n = n};
    pair_open(&pair, options, n + 1 + SPARE_DESCRIPTORS);
    connections_open(&polls.all, &pair, n + 1);
    polls.served = watched_open(options, n + 1 + SPARE_DESCRIPTORS);
    /* The first to be watched is taken for the listener, which is watched for good. */
    watch(polls.served, pair.listener);
    for (int step = 0; step < N_STEPS; step++) {
        samples_open(&polls.samples[step]);
    }
    connections_ready(&polls.all, &pair, n, 1);
    for (int i = 0; i < REPETITIONS; i++) {
        connections_ready(&polls.all, &pair, 0, n);
        watch_all(&polls, i);
        time_wait(&polls, i, READY, n + 1);
        read_all(&polls);
        watch_all(&polls, i);
        time_wait(&polls, i, QUIET, 1);
        connections_ready(&polls.all, &pair, 0, n);
        time_wait(&polls, i, POSTED, n + 1);
        read_all(&polls);
    }
    for (int step = 0; step < N_STEPS; step++) {
        samples_print(&polls.samples[step], options, step_names[step], "");
        samples_close(&polls.samples[step]);
    }
    served_close(polls.served);
    connections_close(&polls.all, &pair);
    pair_close(&pair);
}

static void note(struct armed *armed)
{
    watch(armed->served, armed_fd(armed));
}

static void see(struct armed *armed, long n_events)
{
    watch(armed->served, armed->connections.server_fds[1]);
    wait_for(armed->served, n_events);
}

static void arm(struct armed *armed)
{
    note(armed);
    see(armed, 1);
}

static void take(struct armed *armed)
{
    take_request(armed_fd(armed));
}

static void take_armed(struct armed *armed)
{
    see(armed, 2);
    take(armed);
}

static void wait_for_one(struct armed *armed)
{
    wait_for(armed->served, 1);
}

/* polls_sleep: of a connection; another one is readable all the time. */
void bench_far_polls_sleep(const struct options *options)
{
    struct armed armed = {
        .note = note, .arm = arm, .take_armed = take_armed, .wait = wait_for_one, .take = take};
    armed_open(&armed, options, 2);
    armed.served = watched_open(options, 2 + SPARE_DESCRIPTORS);
    watch(armed.served, armed.pair.listener);
    connections_ready(&armed.connections, &armed.pair, 1, 1);
    see(&armed, 1);
    armed_sleeps(&armed, options);
    served_close(armed.served);
    armed_close(&armed);
}
