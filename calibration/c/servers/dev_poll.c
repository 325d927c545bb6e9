/* /dev/poll: the kernel keeps the list, and looks at those it was given a hint about.
 *
 *   changes ──write()──► interest in the kernel ──ioctl(DP_POLL)──► events, at most events_max
 *
 * Needs the module ../../emulated/kernel_mechanisms/dev_poll/dev_poll.c.
 * Source: Provos, Lever 2000, "Scalable network I/O in Linux", section 3.
 */
#include "../../emulated/kernel_mechanisms/dev_poll/dev_poll.h"

#include "changes.h"
#include "counters.h"
#include "mechanism.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

struct dev_poll_state {
    struct counters *counters;
    int device_fd;
    struct interests interests;
    struct pollfd *fds; /* what is written, and what the kernel fills */
};

static void dev_poll_close(void *opaque)
{
    struct dev_poll_state *state = opaque;
    if (state->device_fd >= 0) {
        (void)close(state->device_fd); /* nothing is left to do with an error here */
    }
    interests_close(&state->interests);
    free(state->fds);
    free(state);
}

static void *dev_poll_open(size_t fds_max)
{
    struct dev_poll_state *state = calloc(1, sizeof *state);
    if (state == NULL) {
        return NULL;
    }
    *state = (struct dev_poll_state){
        .fds = calloc(fds_max, sizeof *state->fds),
        .device_fd = open(DEV_POLL_DEVICE, O_RDWR | O_CLOEXEC),
    };
    int error = state->device_fd < 0 ? errno : ENOMEM;
    if (interests_open(&state->interests, fds_max) != 0 || !state->fds || state->device_fd < 0) {
        dev_poll_close(state);
        errno = error;
        return NULL;
    }
    return state;
}

static int dev_poll_watch(void *opaque, int fd, uint32_t interest)
{
    struct dev_poll_state *state = opaque;
    return interests_watch(&state->interests, fd, interest);
}

static int tell(struct dev_poll_state *state, size_t n_fds)
{
    size_t n_bytes = n_fds * sizeof *state->fds;
    state->counters->updates++;
    ssize_t n_written = write(state->device_fd, state->fds, n_bytes);
    if (n_written >= 0 && (size_t)n_written != n_bytes) {
        errno = EIO;
        return -1;
    }
    return n_written < 0 ? -1 : 0;
}

/* At once: until then the kernel's list would keep the connection open. */
static int dev_poll_unwatch(void *opaque, int fd)
{
    struct dev_poll_state *state = opaque;
    int has_to_be_told = interests_unwatch(&state->interests, fd);
    if (has_to_be_told <= 0) {
        return has_to_be_told;
    }
    state->fds[0] = (struct pollfd){.fd = fd, .events = DEV_POLL_REMOVE};
    return tell(state, 1);
}

static int tell_changes(struct dev_poll_state *state)
{
    size_t n_fds = state->interests.changes.n_fds;
    for (size_t i = 0; i < n_fds; i++) {
        int fd = state->interests.changes.fds[i];
        int read = (state->interests.wanted[fd] & INTEREST_READ) ? POLLIN : 0;
        int write = (state->interests.wanted[fd] & INTEREST_WRITE) ? POLLOUT : 0;
        state->fds[i] = (struct pollfd){.fd = fd, .events = (short)(read | write)};
        state->interests.registered[fd] = true;
    }
    changes_clear(&state->interests.changes);
    return n_fds > 0 ? tell(state, n_fds) : 0;
}

static int dev_poll_wait(void *opaque, struct event *events, size_t events_max)
{
    struct dev_poll_state *state = opaque;
    size_t bound = events_max < state->interests.fds_max ? events_max : state->interests.fds_max;
    if (tell_changes(state) != 0) {
        return -1;
    }
    struct dvpoll call = {
        .dp_fds = (uintptr_t)state->fds,
        .dp_nfds = (int32_t)bound,
        .dp_timeout = -1,
    };
    int n_events = ioctl(state->device_fd, DP_POLL, &call);
    if (n_events < 0) {
        return errno == EINTR ? 0 : -1;
    }
    for (int i = 0; i < n_events; i++) {
        int revents = state->fds[i].revents;
        int broken = revents & (POLLERR | POLLHUP | POLLNVAL);
        uint32_t read = (broken || (revents & POLLIN)) ? INTEREST_READ : 0;
        uint32_t write = (broken || (revents & POLLOUT)) ? INTEREST_WRITE : 0;
        events[i] = (struct event){.fd = state->fds[i].fd, .ready = read | write};
    }
    return n_events;
}

static void dev_poll_count_into(void *opaque, struct counters *counters)
{
    struct dev_poll_state *state = opaque;
    state->counters = counters;
}

const struct mechanism dev_poll = {
    .name = "dev_poll",
    .events_bounded = true,
    .open = dev_poll_open,
    .watch = dev_poll_watch,
    .unwatch = dev_poll_unwatch,
    .wait = dev_poll_wait,
    .close = dev_poll_close,
    .count_into = dev_poll_count_into,
};
