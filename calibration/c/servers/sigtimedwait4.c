/* Queued signals, taken many a call by sigtimedwait4.
 *
 *   event ──► queue of signals, bounded by RLIMIT_SIGPENDING ──sigtimedwait4()──► up to SIGNALS_MAX
 *
 * Needs the module ../../emulated/kernel_mechanisms/sigtimedwait4/sigtimedwait4.c.
 * Source: Provos, Lever, Tweedie 2000, "Analyzing the overload behavior of a simple web server",
 * section 3; signal_queue.h.
 */
#include "../../emulated/kernel_mechanisms/sigtimedwait4/sigtimedwait4.h"

#include "counters.h"
#include "signal_queue.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

/* Section 5 of the source. */
enum { SIGNALS_MAX = 500 };

struct sigtimedwait4_state {
    struct signal_queue queue; /* first: the functions of signal_queue.h take the state for it */
    int device_fd;
    uint64_t awaited; /* signal s is bit s - 1 */
    siginfo_t infos[SIGNALS_MAX];
};

static void sigtimedwait4_close(void *opaque)
{
    struct sigtimedwait4_state *state = opaque;
    if (state->device_fd >= 0) {
        (void)close(state->device_fd); /* nothing is left to do with an error here */
    }
    signal_queue_close(&state->queue);
    free(state);
}

static void *sigtimedwait4_open(size_t fds_max)
{
    struct sigtimedwait4_state *state = calloc(1, sizeof *state);
    if (state == NULL) {
        return NULL;
    }
    state->device_fd = -1;
    if (signal_queue_open(&state->queue, fds_max) == 0) {
        state->device_fd = open(SIGTIMEDWAIT4_DEVICE, O_RDONLY | O_CLOEXEC);
    }
    state->awaited = 1ULL << (SIGIO - 1) | 1ULL << (state->queue.signal_number - 1);
    if (state->device_fd < 0) {
        sigtimedwait4_close(state);
        return NULL;
    }
    return state;
}

static int ask(void *opaque, bool block, size_t events_max)
{
    struct sigtimedwait4_state *state = opaque;
    struct sigtimedwait4_call call = {
        .awaited = state->awaited,
        .infos = (uintptr_t)state->infos,
        .n_max = events_max < SIGNALS_MAX ? events_max : SIGNALS_MAX,
        .timeout_ns = block ? SIGTIMEDWAIT4_FOREVER : 0,
    };
    state->queue.counters->asks++;
    int n_infos = ioctl(state->device_fd, SIGTIMEDWAIT4, &call);
    if (n_infos < 0) {
        return errno == EAGAIN ? 0 : -1;
    }
    bool lost = false;
    for (int i = 0; i < n_infos; i++) {
        siginfo_t *info = &state->infos[i];
        lost |= signal_queue_heard(&state->queue, info->si_signo, info->si_fd, info->si_band);
    }
    return lost ? signal_queue_recover(&state->queue) : 0;
}

static int sigtimedwait4_wait(void *opaque, struct event *events, size_t events_max)
{
    struct sigtimedwait4_state *state = opaque;
    return readiness_wait(&state->queue.readiness, ask, state, events, events_max);
}

const struct mechanism sigtimedwait4 = {
    .name = "sigtimedwait4",
    .events_bounded = true,
    .open = sigtimedwait4_open,
    .watch = signal_queue_watch,
    .unwatch = signal_queue_unwatch,
    .wait = sigtimedwait4_wait,
    .close = sigtimedwait4_close,
    .blocked = signal_queue_blocked,
    .count_into = signal_queue_count_into,
};
