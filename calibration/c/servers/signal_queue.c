#include "signal_queue.h"

#include "counters.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <unistd.h>

int signal_queue_open(struct signal_queue *queue, size_t fds_max)
{
    queue->owner = getpid();
    queue->signal_number = SIGRTMIN;
    queue->fds = calloc(fds_max, sizeof *queue->fds);
    if (readiness_open(&queue->readiness, fds_max) != 0 || queue->fds == NULL) {
        return -1;
    }
    if (sigemptyset(&queue->awaited) != 0 || sigaddset(&queue->awaited, SIGIO) != 0 ||
        sigaddset(&queue->awaited, queue->signal_number) != 0) {
        return -1;
    }
    return sigprocmask(SIG_BLOCK, &queue->awaited, NULL);
}

void signal_queue_close(struct signal_queue *queue)
{
    readiness_close(&queue->readiness);
    free(queue->fds);
}

int signal_queue_watch(void *opaque, int fd, uint32_t interest)
{
    struct signal_queue *queue = opaque;
    if (!readiness_accepts(&queue->readiness, fd)) {
        errno = EBADF;
        return -1;
    }
    /* The owner before O_ASYNC: without one the kernel would drop the first signals. */
    if (!readiness_watches(&queue->readiness, fd) &&
        (fcntl(fd, F_SETSIG, queue->signal_number) != 0 || fcntl(fd, F_SETOWN, queue->owner) != 0 ||
         fcntl(fd, F_SETFL, O_NONBLOCK | O_ASYNC) != 0)) {
        return -1;
    }
    /* What happened before O_ASYNC was not queued, so the descriptor may be ready unheard. */
    readiness_watch(&queue->readiness, fd, interest, INTEREST_READ | INTEREST_WRITE);
    return 0;
}

/* Signals of a descriptor that stays open still come, and are ignored. */
int signal_queue_unwatch(void *opaque, int fd)
{
    struct signal_queue *queue = opaque;
    if (!readiness_watches(&queue->readiness, fd)) {
        errno = EBADF;
        return -1;
    }
    readiness_unwatch(&queue->readiness, fd);
    return 0;
}

void signal_queue_blocked(void *opaque, int fd, uint32_t interest)
{
    struct signal_queue *queue = opaque;
    readiness_blocked(&queue->readiness, fd, interest);
}

void signal_queue_count_into(void *opaque, struct counters *counters)
{
    struct signal_queue *queue = opaque;
    queue->counters = counters;
}

static uint32_t ready_of(long band)
{
    long broken = band & (POLLERR | POLLHUP | POLLNVAL);
    uint32_t read = (broken || (band & POLLIN)) ? INTEREST_READ : 0;
    uint32_t write = (broken || (band & POLLOUT)) ? INTEREST_WRITE : 0;
    return read | write;
}

bool signal_queue_heard(struct signal_queue *queue, int signal_number, int fd, long band)
{
    if (signal_number == SIGIO) {
        return true;
    }
    /* The band of a coalesced signal is that of the first event it stands for. */
    uint32_t ready = queue->coalesced ? INTEREST_READ | INTEREST_WRITE : ready_of(band);
    queue->counters->notices++;
    if (!readiness_mark(&queue->readiness, fd, ready)) {
        queue->counters->notices_unwanted++;
    }
    return false;
}

/* To ignore a signal discards what is queued of it; to block it keeps what comes from then on. */
static int flush(int signal_number)
{
    struct sigaction ignored = {.sa_handler = SIG_IGN};
    struct sigaction usual = {.sa_handler = SIG_DFL};
    return sigaction(signal_number, &ignored, NULL) == 0 ? sigaction(signal_number, &usual, NULL)
                                                         : -1;
}

int signal_queue_recover(struct signal_queue *queue)
{
    nfds_t n_fds = 0;
    queue->counters->overflows++;
    /* First flush, then poll: an event in between is reported twice instead of lost. */
    if (flush(queue->signal_number) != 0 || flush(SIGIO) != 0) {
        return -1;
    }
    for (size_t fd = 0; fd < queue->readiness.fds_end; fd++) {
        if (readiness_watches(&queue->readiness, (int)fd)) {
            queue->fds[n_fds++] = (struct pollfd){.fd = (int)fd, .events = POLLIN | POLLOUT};
        }
    }
    if (poll(queue->fds, n_fds, 0) < 0) {
        return -1;
    }
    for (nfds_t i = 0; i < n_fds; i++) {
        if (queue->fds[i].revents != 0) {
            (void)readiness_mark(&queue->readiness, queue->fds[i].fd,
                                 ready_of(queue->fds[i].revents));
        }
    }
    return 0;
}
