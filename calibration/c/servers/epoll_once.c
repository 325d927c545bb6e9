/* Level-triggered epoll, registered once for both directions: no call per change of interest.
 *
 *   epoll_ctl() at open and close ──► kernel ──epoll_wait()──► events ──interest now?──► events
 *                                                                     └── no: discarded
 *
 * A connection without a reply to write is writable, so nearly every wait returns at once with
 * events to discard: this is the cost of the saved calls. Called epoll2 in the source.
 * Source: Gammo, Brecht, Shukla, Pariag 2004, section 3.3.
 */
#include "counters.h"
#include "mechanism.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

struct once_state {
    size_t fds_max;
    struct counters *counters;
    int epoll_fd;
    uint8_t *interest;        /* of each descriptor, 0 if not watched */
    struct epoll_event *told; /* what the kernel fills */
};

static void once_close(void *opaque)
{
    struct once_state *state = opaque;
    if (state->epoll_fd >= 0) {
        (void)close(state->epoll_fd); /* nothing is left to do with an error here */
    }
    free(state->interest);
    free(state->told);
    free(state);
}

static void *once_open(size_t fds_max)
{
    struct once_state *state = calloc(1, sizeof *state);
    if (state == NULL) {
        return NULL;
    }
    *state = (struct once_state){
        .fds_max = fds_max,
        .epoll_fd = epoll_create1(EPOLL_CLOEXEC),
        .interest = calloc(fds_max, sizeof *state->interest),
        .told = calloc(fds_max, sizeof *state->told),
    };
    if (state->epoll_fd < 0 || !state->interest || !state->told) {
        once_close(state);
        return NULL;
    }
    return state;
}

static int once_watch(void *opaque, int fd, uint32_t interest)
{
    struct once_state *state = opaque;
    if (fd < 0 || (size_t)fd >= state->fds_max) {
        errno = EBADF;
        return -1;
    }
    bool is_new = state->interest[fd] == 0;
    struct epoll_event both = {.events = EPOLLIN | EPOLLOUT, .data.fd = fd};
    state->interest[fd] = (uint8_t)interest;
    return is_new ? epoll_ctl(state->epoll_fd, EPOLL_CTL_ADD, fd, &both) : 0;
}

static int once_unwatch(void *opaque, int fd)
{
    struct once_state *state = opaque;
    if (fd < 0 || (size_t)fd >= state->fds_max || state->interest[fd] == 0) {
        errno = EBADF;
        return -1;
    }
    state->interest[fd] = 0;
    return epoll_ctl(state->epoll_fd, EPOLL_CTL_DEL, fd, NULL);
}

/* May return no event though it was not interrupted: nothing of interest happened. */
static int once_wait(void *opaque, struct event *events, size_t events_max)
{
    struct once_state *state = opaque;
    size_t bound = events_max < state->fds_max ? events_max : state->fds_max;
    state->counters->asks++;
    int n_told = epoll_wait(state->epoll_fd, state->told, (int)bound, -1);
    if (n_told < 0) {
        return errno == EINTR ? 0 : -1;
    }
    int n_events = 0;
    for (int i = 0; i < n_told; i++) {
        int fd = state->told[i].data.fd;
        uint32_t revents = state->told[i].events;
        uint32_t broken = revents & (EPOLLERR | EPOLLHUP);
        uint32_t read = (broken || (revents & EPOLLIN)) ? INTEREST_READ : 0;
        uint32_t write = (broken || (revents & EPOLLOUT)) ? INTEREST_WRITE : 0;
        uint32_t wanted = (read | write) & state->interest[fd];
        if (wanted != 0) {
            events[n_events++] = (struct event){.fd = fd, .ready = wanted};
        }
    }
    state->counters->notices += (uint64_t)n_told;
    state->counters->notices_unwanted += (uint64_t)(n_told - n_events);
    return n_events;
}

static void once_count_into(void *opaque, struct counters *counters)
{
    struct once_state *state = opaque;
    state->counters = counters;
}

const struct mechanism epoll_once = {
    .name = "epoll_once",
    .events_bounded = true,
    .open = once_open,
    .watch = once_watch,
    .unwatch = once_unwatch,
    .wait = once_wait,
    .close = once_close,
    .count_into = once_count_into,
};
