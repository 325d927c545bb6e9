/* Queued signals, one taken by each call: the kernel reports events, not states.
 *
 *   event ──► queue of signals, bounded by RLIMIT_SIGPENDING ──sigwaitinfo()──► one event
 *
 * Source: Provos, Lever 2000, "Scalable network I/O in Linux", section 5; signal_queue.h.
 */
#include "counters.h"
#include "signal_queue.h"

#include <errno.h>
#include <stdlib.h>

static void rt_signals_close(void *opaque)
{
    signal_queue_close(opaque);
    free(opaque);
}

static void *rt_signals_open(size_t fds_max)
{
    struct signal_queue *queue = calloc(1, sizeof *queue);
    if (queue != NULL && signal_queue_open(queue, fds_max) != 0) {
        rt_signals_close(queue);
        return NULL;
    }
    return queue;
}

static int ask(void *opaque, bool block, size_t events_max)
{
    static const struct timespec now;
    struct signal_queue *queue = opaque;
    siginfo_t info;
    (void)events_max;
    queue->counters->asks++;
    int signal_number =
        block ? sigwaitinfo(&queue->awaited, &info) : sigtimedwait(&queue->awaited, &info, &now);
    if (signal_number < 0) {
        return errno == EAGAIN ? 0 : -1;
    }
    bool lost = signal_queue_heard(queue, signal_number, info.si_fd, info.si_band);
    return lost ? signal_queue_recover(queue) : 0;
}

static int rt_signals_wait(void *opaque, struct event *events, size_t events_max)
{
    struct signal_queue *queue = opaque;
    return readiness_wait(&queue->readiness, ask, queue, events, events_max);
}

const struct mechanism rt_signals = {
    .name = "rt_signals",
    .events_bounded = true,
    .open = rt_signals_open,
    .watch = signal_queue_watch,
    .unwatch = signal_queue_unwatch,
    .wait = rt_signals_wait,
    .close = rt_signals_close,
    .blocked = signal_queue_blocked,
    .count_into = signal_queue_count_into,
};
