/* Edge-triggered epoll: registered once, reports changes only; the server remembers the states.
 *
 *   change of a descriptor ──► ready list ──epoll_wait()──► readiness ──► events until it blocks
 *
 * Sources: Gammo, Brecht, Shukla, Pariag 2004, section 3.2; Linux 6.8, fs/eventpoll.c,
 * ep_send_events(); readiness.h.
 */
#include "counters.h"
#include "readiness.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

struct edge_state {
    struct readiness readiness;
    struct counters *counters;
    int epoll_fd;
    struct epoll_event *told; /* what the kernel fills */
};

static void edge_close(void *opaque)
{
    struct edge_state *state = opaque;
    if (state->epoll_fd >= 0) {
        (void)close(state->epoll_fd); /* nothing is left to do with an error here */
    }
    readiness_close(&state->readiness);
    free(state->told);
    free(state);
}

static void *edge_open(size_t fds_max)
{
    struct edge_state *state = calloc(1, sizeof *state);
    if (state == NULL) {
        return NULL;
    }
    *state = (struct edge_state){
        .epoll_fd = epoll_create1(EPOLL_CLOEXEC),
        .told = calloc(fds_max, sizeof *state->told),
    };
    if (readiness_open(&state->readiness, fds_max) != 0 || state->epoll_fd < 0 || !state->told) {
        edge_close(state);
        return NULL;
    }
    return state;
}

/* Both directions are registered at once, so that a change of interest needs no call. */
static int edge_watch(void *opaque, int fd, uint32_t interest)
{
    struct edge_state *state = opaque;
    if (!readiness_accepts(&state->readiness, fd)) {
        errno = EBADF;
        return -1;
    }
    struct epoll_event both = {.events = EPOLLIN | EPOLLOUT | EPOLLET, .data.fd = fd};
    bool is_new = !readiness_watches(&state->readiness, fd);
    readiness_watch(&state->readiness, fd, interest, 0); /* the kernel reports the current state */
    return is_new ? epoll_ctl(state->epoll_fd, EPOLL_CTL_ADD, fd, &both) : 0;
}

static int edge_unwatch(void *opaque, int fd)
{
    struct edge_state *state = opaque;
    if (!readiness_watches(&state->readiness, fd)) {
        errno = EBADF;
        return -1;
    }
    readiness_unwatch(&state->readiness, fd);
    return epoll_ctl(state->epoll_fd, EPOLL_CTL_DEL, fd, NULL);
}

static int ask(void *opaque, bool block, size_t events_max)
{
    struct edge_state *state = opaque;
    size_t fds_max = state->readiness.fds_max;
    size_t bound = events_max < fds_max ? events_max : fds_max;
    state->counters->asks++;
    int n_told = epoll_wait(state->epoll_fd, state->told, (int)bound, block ? -1 : 0);
    for (int i = 0; i < n_told; i++) {
        uint32_t revents = state->told[i].events;
        uint32_t broken = revents & (EPOLLERR | EPOLLHUP);
        uint32_t read = (broken || (revents & EPOLLIN)) ? INTEREST_READ : 0;
        uint32_t write = (broken || (revents & EPOLLOUT)) ? INTEREST_WRITE : 0;
        state->counters->notices++;
        if (!readiness_mark(&state->readiness, state->told[i].data.fd, read | write)) {
            state->counters->notices_unwanted++;
        }
    }
    return n_told < 0 ? -1 : 0;
}

static int edge_wait(void *opaque, struct event *events, size_t events_max)
{
    struct edge_state *state = opaque;
    return readiness_wait(&state->readiness, ask, state, events, events_max);
}

static void edge_blocked(void *opaque, int fd, uint32_t interest)
{
    struct edge_state *state = opaque;
    readiness_blocked(&state->readiness, fd, interest);
}

static void edge_count_into(void *opaque, struct counters *counters)
{
    struct edge_state *state = opaque;
    state->counters = counters;
}

const struct mechanism epoll_edge = {
    .name = "epoll_edge",
    .events_bounded = true,
    .open = edge_open,
    .watch = edge_watch,
    .unwatch = edge_unwatch,
    .wait = edge_wait,
    .close = edge_close,
    .blocked = edge_blocked,
    .count_into = edge_count_into,
};
