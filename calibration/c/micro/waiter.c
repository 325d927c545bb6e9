/* select, poll and epoll behind one interface, so that the benches differ in nothing else. */
#include "micro.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

enum { WORD_BITS = sizeof(unsigned long) * CHAR_BIT };

static void select_open(struct waiter *waiter, const int *fds)
{
    int highest = 0;
    for (long i = 0; i < waiter->n; i++) {
        highest = fds[i] > highest ? fds[i] : highest;
    }
    waiter->fd_limit = highest + 1;
    size_t words = (size_t)highest / WORD_BITS + 1;
    waiter->bytes = words * sizeof(unsigned long);
    waiter->wanted = allocate(words, sizeof(unsigned long));
    waiter->found = allocate(words, sizeof(unsigned long));
    for (long i = 0; i < waiter->n; i++) {
        waiter->wanted[(unsigned)fds[i] / WORD_BITS] |= 1ul << ((unsigned)fds[i] % WORD_BITS);
    }
}

static void poll_open(struct waiter *waiter, const int *fds)
{
    waiter->entries = allocate((size_t)waiter->n, sizeof *waiter->entries);
    for (long i = 0; i < waiter->n; i++) {
        waiter->entries[i] = (struct pollfd){.fd = fds[i], .events = POLLIN};
    }
}

int epoll_open(void)
{
    int epoll = epoll_create1(EPOLL_CLOEXEC);
    if (epoll < 0) {
        fail_errno("epoll_create1");
    }
    return epoll;
}

void epoll_control(int epoll, int operation, int fd, uint32_t events)
{
    struct epoll_event event = {.events = events, .data.fd = fd};
    if (epoll_ctl(epoll, operation, fd, &event) != 0) {
        fail_errno("epoll_ctl");
    }
}

void waiter_open(struct waiter *waiter, enum mechanism mechanism, const int *fds, long n)
{
    *waiter = (struct waiter){.mechanism = mechanism, .n = n, .epoll = -1};
    if (mechanism == MECHANISM_SELECT) {
        select_open(waiter, fds);
    } else if (mechanism == MECHANISM_POLL) {
        poll_open(waiter, fds);
    } else {
        waiter->epoll = epoll_open();
        waiter->events = allocate(EVENTS_MAX, sizeof(struct epoll_event));
        for (long i = 0; i < n; i++) {
            epoll_control(waiter->epoll, EPOLL_CTL_ADD, fds[i], EPOLLIN);
        }
    }
}

void waiter_close(struct waiter *waiter)
{
    if (waiter->epoll >= 0) {
        close_fd(waiter->epoll);
    }
    free(waiter->entries);
    free(waiter->wanted);
    free(waiter->found);
    free(waiter->events);
}

/* The raw call: fd_set ends at 1024 descriptors, the kernel's bitmaps do not. The copy is
 * part of the cost, because the call overwrites its arguments. */
static int select_wait(struct waiter *waiter, int timeout_ms)
{
    memcpy(waiter->found, waiter->wanted, waiter->bytes);
#ifdef SYS_select
    struct timeval timeout = {.tv_sec = timeout_ms / 1000, .tv_usec = timeout_ms % 1000 * 1000};
    return (int)syscall(SYS_select, waiter->fd_limit, waiter->found, NULL, NULL, &timeout);
#else
    struct timespec timeout = {.tv_sec = timeout_ms / 1000, .tv_nsec = timeout_ms % 1000 * 1000000};
    return (int)syscall(SYS_pselect6, waiter->fd_limit, waiter->found, NULL, NULL, &timeout, NULL);
#endif
}

int waiter_wait(struct waiter *waiter, int timeout_ms)
{
    int n;
    if (waiter->mechanism == MECHANISM_SELECT) {
        n = select_wait(waiter, timeout_ms);
    } else if (waiter->mechanism == MECHANISM_POLL) {
        n = poll(waiter->entries, (nfds_t)waiter->n, timeout_ms);
    } else {
        n = epoll_wait(waiter->epoll, waiter->events, EVENTS_MAX, timeout_ms);
    }
    if (n < 0 && errno == EINTR) {
        return 0;
    }
    if (n < 0) {
        fail_errno("%s", mechanism_name(waiter->mechanism));
    }
    return n;
}

void waiter_check(void *context)
{
    struct waiter *waiter = context;
    int n = waiter_wait(waiter, waiter->timeout_ms);
    if (n != waiter->expected) {
        fail("%s found %d ready descriptors instead of %d", mechanism_name(waiter->mechanism), n,
             waiter->expected);
    }
}
