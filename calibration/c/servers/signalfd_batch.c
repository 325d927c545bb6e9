/* Queued signals, taken many a call through a descriptor.
 *
 *   event ──► queue of signals, bounded by RLIMIT_SIGPENDING ──read(signalfd)──► up to SIGNALS_MAX
 *
 * Source: Linux 6.1, fs/signalfd.c, signalfd_read(); signal_queue.h.
 */
#include "counters.h"
#include "signal_queue.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/signalfd.h>
#include <unistd.h>

/* What one call of the literature took: Provos, Lever, Tweedie 2000, section 5. */
enum { SIGNALS_MAX = 500 };

struct signalfd_state {
    struct signal_queue queue; /* first: the functions of signal_queue.h take the state for it */
    /* Two of the same signals: whether read blocks is a property of the descriptor. */
    int blocking_fd;
    int nonblocking_fd;
    struct signalfd_siginfo infos[SIGNALS_MAX];
};

static void close_if_open(int fd)
{
    if (fd >= 0) {
        (void)close(fd); /* nothing is left to do with an error here */
    }
}

static void signalfd_close(void *opaque)
{
    struct signalfd_state *state = opaque;
    close_if_open(state->blocking_fd);
    close_if_open(state->nonblocking_fd);
    signal_queue_close(&state->queue);
    free(state);
}

static void *signalfd_open(size_t fds_max)
{
    struct signalfd_state *state = calloc(1, sizeof *state);
    if (state == NULL) {
        return NULL;
    }
    bool opened = signal_queue_open(&state->queue, fds_max) == 0;
    state->blocking_fd = opened ? signalfd(-1, &state->queue.awaited, SFD_CLOEXEC) : -1;
    state->nonblocking_fd =
        opened ? signalfd(-1, &state->queue.awaited, SFD_CLOEXEC | SFD_NONBLOCK) : -1;
    if (state->blocking_fd < 0 || state->nonblocking_fd < 0) {
        signalfd_close(state);
        return NULL;
    }
    return state;
}

static int ask(void *opaque, bool block, size_t events_max)
{
    struct signalfd_state *state = opaque;
    size_t n_max = events_max < SIGNALS_MAX ? events_max : SIGNALS_MAX;
    int fd = block ? state->blocking_fd : state->nonblocking_fd;
    state->queue.counters->asks++;
    ssize_t n_bytes = read(fd, state->infos, n_max * sizeof *state->infos);
    if (n_bytes < 0) {
        return errno == EAGAIN ? 0 : -1;
    }
    bool lost = false;
    for (size_t i = 0; i < (size_t)n_bytes / sizeof *state->infos; i++) {
        struct signalfd_siginfo *info = &state->infos[i];
        lost |= signal_queue_heard(&state->queue, (int)info->ssi_signo, info->ssi_fd,
                                   (long)info->ssi_band);
    }
    return lost ? signal_queue_recover(&state->queue) : 0;
}

static int signalfd_wait(void *opaque, struct event *events, size_t events_max)
{
    struct signalfd_state *state = opaque;
    return readiness_wait(&state->queue.readiness, ask, state, events, events_max);
}

const struct mechanism signalfd_batch = {
    .name = "signalfd",
    .events_bounded = true,
    .open = signalfd_open,
    .watch = signal_queue_watch,
    .unwatch = signal_queue_unwatch,
    .wait = signalfd_wait,
    .close = signalfd_close,
    .blocked = signal_queue_blocked,
    .count_into = signal_queue_count_into,
};
