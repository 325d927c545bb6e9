/* Level-triggered epoll: the kernel keeps the list, the server pays only for what is ready.
 *
 *   epoll_ctl() per change ──► interest in the kernel ──epoll_wait()──► events, oldest first,
 *                                                                       at most events_max
 *
 * Source: Linux 6.8, fs/eventpoll.c, ep_send_events().
 */
#include "epoll_level.h"
#include "mechanism.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

struct epoll_state {
    size_t fds_max;
    uint32_t flags; /* of connections */
    int epoll_fd;
    int first_fd;              /* the listener; -1: nothing was watched yet */
    uint8_t *interest;         /* of each descriptor, 0 if not watched: selects ADD or MOD */
    struct epoll_event *ready; /* what the kernel fills */
};

void *epoll_open_with(size_t fds_max, uint32_t flags)
{
    struct epoll_state *state = calloc(1, sizeof *state);
    if (state == NULL) {
        return NULL;
    }
    *state = (struct epoll_state){
        .fds_max = fds_max,
        .flags = flags,
        .first_fd = -1,
        .epoll_fd = epoll_create1(EPOLL_CLOEXEC),
        .interest = calloc(fds_max, sizeof *state->interest),
        .ready = calloc(fds_max, sizeof *state->ready),
    };
    if (state->epoll_fd < 0 || !state->interest || !state->ready) {
        epoll_close(state);
        return NULL;
    }
    return state;
}

static void *epoll_open(size_t fds_max)
{
    return epoll_open_with(fds_max, 0);
}

int epoll_watch(void *opaque, int fd, uint32_t interest)
{
    struct epoll_state *state = opaque;
    if (fd < 0 || (size_t)fd >= state->fds_max) {
        errno = EBADF;
        return -1;
    }
    if (state->first_fd < 0) {
        state->first_fd = fd;
    }
    uint32_t flags = fd == state->first_fd ? 0 : state->flags;
    if (state->interest[fd] == interest && !(flags & EPOLLONESHOT)) {
        return 0;
    }
    uint32_t read = (interest & INTEREST_READ) ? EPOLLIN : 0;
    uint32_t write = (interest & INTEREST_WRITE) ? EPOLLOUT : 0;
    struct epoll_event wanted = {.events = read | write | flags, .data.fd = fd};
    int operation = state->interest[fd] == 0 ? EPOLL_CTL_ADD : EPOLL_CTL_MOD;
    state->interest[fd] = (uint8_t)interest;
    return epoll_ctl(state->epoll_fd, operation, fd, &wanted);
}

int epoll_unwatch(void *opaque, int fd)
{
    struct epoll_state *state = opaque;
    if (fd < 0 || (size_t)fd >= state->fds_max || state->interest[fd] == 0) {
        errno = EBADF;
        return -1;
    }
    state->interest[fd] = 0;
    return epoll_ctl(state->epoll_fd, EPOLL_CTL_DEL, fd, NULL);
}

int epoll_leave_to_close(void *opaque, int fd)
{
    struct epoll_state *state = opaque;
    if (fd < 0 || (size_t)fd >= state->fds_max || state->interest[fd] == 0) {
        errno = EBADF;
        return -1;
    }
    state->interest[fd] = 0;
    return 0;
}

int epoll_level_wait(void *opaque, struct event *events, size_t events_max)
{
    struct epoll_state *state = opaque;
    size_t bound = events_max < state->fds_max ? events_max : state->fds_max;
    int n_events = epoll_wait(state->epoll_fd, state->ready, (int)bound, -1);
    if (n_events < 0) {
        return errno == EINTR ? 0 : -1;
    }
    for (int i = 0; i < n_events; i++) {
        uint32_t revents = state->ready[i].events;
        uint32_t broken = revents & (EPOLLERR | EPOLLHUP);
        uint32_t read = (broken || (revents & EPOLLIN)) ? INTEREST_READ : 0;
        uint32_t write = (broken || (revents & EPOLLOUT)) ? INTEREST_WRITE : 0;
        events[i] = (struct event){.fd = state->ready[i].data.fd, .ready = read | write};
    }
    return n_events;
}

void epoll_close(void *opaque)
{
    struct epoll_state *state = opaque;
    if (state->epoll_fd >= 0) {
        (void)close(state->epoll_fd); /* nothing is left to do with an error here */
    }
    free(state->interest);
    free(state->ready);
    free(state);
}

const struct mechanism epoll_level = {
    .name = "epoll_level",
    .events_bounded = true,
    .open = epoll_open,
    .watch = epoll_watch,
    .unwatch = epoll_unwatch,
    .wait = epoll_level_wait,
    .close = epoll_close,
};
