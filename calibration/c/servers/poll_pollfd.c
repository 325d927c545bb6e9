/* poll: the server keeps one dense array, the kernel looks at every entry of it.
 *
 *   fds[0..n_fds) ──poll()──► revents ──scan until all are found──► events, by array position
 *
 * The array has no holes: the last entry moves into the place of a removed one, so the order is
 * that of arrival only until the first removal. What is watched first (the listener) stays at 0.
 * Source: Linux 6.8, fs/select.c, do_sys_poll().
 */
#include "mechanism.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>

enum { NOWHERE = -1 /* position of a descriptor that is not watched */ };

struct poll_state {
    size_t fds_max;
    size_t n_fds;
    struct pollfd *fds;
    int *position; /* of each descriptor in fds */
};

static void poll_close(void *opaque);

static void *poll_open(size_t fds_max)
{
    struct poll_state *state = calloc(1, sizeof *state);
    if (state == NULL) {
        return NULL;
    }
    *state = (struct poll_state){
        .fds_max = fds_max,
        .fds = calloc(fds_max, sizeof *state->fds),
        .position = calloc(fds_max, sizeof *state->position),
    };
    if (!state->fds || !state->position) {
        poll_close(state);
        return NULL;
    }
    for (size_t fd = 0; fd < fds_max; fd++) {
        state->position[fd] = NOWHERE;
    }
    return state;
}

static int poll_watch(void *opaque, int fd, uint32_t interest)
{
    struct poll_state *state = opaque;
    if (fd < 0 || (size_t)fd >= state->fds_max) {
        errno = EBADF;
        return -1;
    }
    if (state->position[fd] == NOWHERE) {
        state->position[fd] = (int)state->n_fds++;
    }
    int read = (interest & INTEREST_READ) ? POLLIN : 0;
    int write = (interest & INTEREST_WRITE) ? POLLOUT : 0;
    state->fds[state->position[fd]] = (struct pollfd){.fd = fd, .events = (short)(read | write)};
    return 0;
}

static int poll_unwatch(void *opaque, int fd)
{
    struct poll_state *state = opaque;
    if (fd < 0 || (size_t)fd >= state->fds_max || state->position[fd] == NOWHERE) {
        errno = EBADF;
        return -1;
    }
    struct pollfd last = state->fds[--state->n_fds];
    state->fds[state->position[fd]] = last;
    state->position[last.fd] = state->position[fd];
    state->position[fd] = NOWHERE;
    return 0;
}

static int poll_wait(void *opaque, struct event *events, size_t events_max)
{
    struct poll_state *state = opaque;
    int n_ready = poll(state->fds, state->n_fds, -1);
    if (n_ready < 0) {
        return errno == EINTR ? 0 : -1;
    }
    int n_events = 0;
    for (size_t i = 0; n_events < n_ready && (size_t)n_events < events_max; i++) {
        int revents = state->fds[i].revents;
        if (revents == 0) {
            continue;
        }
        int broken = revents & (POLLERR | POLLHUP | POLLNVAL);
        uint32_t read = (broken || (revents & POLLIN)) ? INTEREST_READ : 0;
        uint32_t write = (broken || (revents & POLLOUT)) ? INTEREST_WRITE : 0;
        events[n_events++] = (struct event){.fd = state->fds[i].fd, .ready = read | write};
    }
    return n_events;
}

static void poll_close(void *opaque)
{
    struct poll_state *state = opaque;
    free(state->fds);
    free(state->position);
    free(state);
}

const struct mechanism poll_pollfd = {
    .name = "poll",
    .events_bounded = false,
    .open = poll_open,
    .watch = poll_watch,
    .unwatch = poll_unwatch,
    .wait = poll_wait,
    .close = poll_close,
};
