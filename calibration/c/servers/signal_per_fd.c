/* Queued signals, at most one a descriptor: the kernel reports once that something happened.
 *
 *   event ──► bit of the descriptor clear? ──► queue of signals ──sigwaitinfo(), clears──► one event
 *
 * The queue holds no more signals than there are descriptors, so a bound of that many is never
 * reached. Differs from rt_signals in the kernel and in what a signal means, not in the calls.
 * Needs the kernel of ../../emulated/kernel_mechanisms/signal_per_fd/signal_per_fd.insert.
 * Source: Chandra, Mosberger 2001, "Scalability of Linux event-dispatch mechanisms", section 5.
 */
#include "../../emulated/kernel_mechanisms/signal_per_fd/signal_per_fd.h"
#include "signal_queue.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

static void *signal_per_fd_open(size_t fds_max)
{
    struct signal_queue *queue = rt_signals.open(fds_max);
    if (queue == NULL) {
        return NULL;
    }
    queue->coalesced = true;
    if (fcntl(STDIN_FILENO, F_SIGNAL_PER_FD, (unsigned long)fds_max) != 0) {
        errno = errno == EINVAL ? ENOSYS : errno; /* fcntl returns this for an unknown command */
        rt_signals.close(queue);
        return NULL;
    }
    return queue;
}

static int signal_per_fd_wait(void *opaque, struct event *events, size_t events_max)
{
    return rt_signals.wait(opaque, events, events_max);
}

static void signal_per_fd_close(void *opaque)
{
    rt_signals.close(opaque);
}

const struct mechanism signal_per_fd = {
    .name = "signal_per_fd",
    .events_bounded = true,
    .open = signal_per_fd_open,
    .watch = signal_queue_watch,
    .unwatch = signal_queue_unwatch,
    .wait = signal_per_fd_wait,
    .close = signal_per_fd_close,
    .blocked = signal_queue_blocked,
    .count_into = signal_queue_count_into,
};
