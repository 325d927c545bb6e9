/* Waits of a server that delays changes of interest until the wait, and passes them by one call.
 *
 *     B are readable | watch x B | wait_adds: B added, B + 1 events | wait_stays: the same again
 *     all are read | wait_rechecks: B checked, not ready, 1 event | wait_idle: 1 event
 *     change_rewatch x B | wait_modifies: B modified, 1 event
 *     change_unwatch x B
 *
 * One more connection is readable all the time, so that no wait blocks. */
#include "far_end.h"

enum step { WATCH, ADDS, STAYS, RECHECKS, IDLE, REWATCH, MODIFIES, UNWATCH, N_STEPS };

static const char *const step_names[N_STEPS] = {
    [WATCH] = "change_watch",     [ADDS] = "wait_adds",         [STAYS] = "wait_stays",
    [RECHECKS] = "wait_rechecks", [IDLE] = "wait_idle",         [REWATCH] = "change_rewatch",
    [MODIFIES] = "wait_modifies", [UNWATCH] = "change_unwatch",
};

struct changed {
    long n;
    const int *fds;
    struct served *served;
    struct samples samples[N_STEPS];
};

static void time_changes(struct changed *changed, int repetition, enum step step,
                         void (*change)(struct served *served, int fd))
{
    await_quiet(tick_period_ns() / 2);
    uint64_t first = ticks_now();
    for (long i = 0; i < changed->n; i++) {
        change(changed->served, changed->fds[i]);
    }
    uint64_t ticks = ticks_now() - first;
    add_warm(&changed->samples[step], repetition, (double)ticks / (double)changed->n,
             (uint64_t)changed->n);
}

static void time_wait(struct changed *changed, int repetition, enum step step, long n_events)
{
    await_quiet(tick_period_ns() / 2);
    add_warm(&changed->samples[step], repetition, (double)ticks_of_wait(changed->served, n_events),
             1);
}

void bench_far_changed(const struct options *options)
{
    struct pair pair;
    struct connections all;
    long n = options->batch;
    pair_open(&pair, options, n + 1 + SPARE_DESCRIPTORS);
    connections_open(&all, &pair, n + 1);
    struct changed changed = {
        .n = n, .fds = all.server_fds, .served = watched_open(options, n + 1 + SPARE_DESCRIPTORS)};
    for (int step = 0; step < N_STEPS; step++) {
        samples_open(&changed.samples[step]);
    }
    watch(changed.served, all.server_fds[n]);
    connections_ready(&all, &pair, n, 1);
    for (int i = 0; i < REPETITIONS; i++) {
        connections_ready(&all, &pair, 0, n);
        time_changes(&changed, i, WATCH, watch);
        time_wait(&changed, i, ADDS, n + 1);
        time_wait(&changed, i, STAYS, n + 1);
        for (long k = 0; k < n; k++) {
            if (receive_bytes(all.server_fds[k], 1) != 1) {
                fail("a connection lost its byte");
            }
        }
        time_wait(&changed, i, RECHECKS, 1);
        time_wait(&changed, i, IDLE, 1);
        time_changes(&changed, i, REWATCH, want_to_write);
        for (long k = 0; k < n; k++) {
            want_to_read(changed.served, all.server_fds[k]); /* passed once, without a change */
        }
        time_wait(&changed, i, MODIFIES, 1);
        time_changes(&changed, i, UNWATCH, unwatch);
    }
    for (int step = 0; step < N_STEPS; step++) {
        samples_print(&changed.samples[step], options, step_names[step], "");
        samples_close(&changed.samples[step]);
    }
    served_close(changed.served);
    connections_close(&all, &pair);
    pair_close(&pair);
}
