/* Level-triggered epoll; one call passes all of a loop's changes of interest.
 *
 *   changes ──epoll_ctlv() before the wait──► interest in the kernel ──epoll_wait()──► events
 *
 * Needs the kernel of ../../emulated/kernel_mechanisms/epoll_ctlv/epoll_ctlv.insert.
 * Source: Gammo, Brecht, Shukla, Pariag 2004, section 3.4.
 */
#include "../../emulated/kernel_mechanisms/epoll_ctlv/epoll_ctlv.h"

#include "changes.h"
#include "counters.h"
#include "mechanism.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <unistd.h>

struct ctlv_state {
    struct counters *counters;
    int epoll_fd;
    struct interests interests; /* registered or not decides between MOD and ADD */
    struct epoll_ctlv_entry *entries;
    struct epoll_event *ready; /* what the kernel fills */
};

static void ctlv_close(void *opaque)
{
    struct ctlv_state *state = opaque;
    if (state->epoll_fd >= 0) {
        (void)close(state->epoll_fd); /* nothing is left to do with an error here */
    }
    interests_close(&state->interests);
    free(state->entries);
    free(state->ready);
    free(state);
}

/* Without entries the call fails either because it is there or because it is not. */
static bool kernel_has_epoll_ctlv(int epoll_fd)
{
    return syscall(SYS_EPOLL_CTLV, epoll_fd, NULL, 0) < 0 && errno == EINVAL;
}

static void *ctlv_open(size_t fds_max)
{
    struct ctlv_state *state = calloc(1, sizeof *state);
    if (state == NULL) {
        return NULL;
    }
    *state = (struct ctlv_state){
        .epoll_fd = epoll_create1(EPOLL_CLOEXEC),
        .entries = calloc(fds_max, sizeof *state->entries),
        .ready = calloc(fds_max, sizeof *state->ready),
    };
    bool allocated =
        interests_open(&state->interests, fds_max) == 0 && state->entries && state->ready;
    if (!allocated || state->epoll_fd < 0 || !kernel_has_epoll_ctlv(state->epoll_fd)) {
        int error = errno;
        ctlv_close(state);
        errno = error;
        return NULL;
    }
    return state;
}

static int ctlv_watch(void *opaque, int fd, uint32_t interest)
{
    struct ctlv_state *state = opaque;
    return interests_watch(&state->interests, fd, interest);
}

/* The kernel forgets a descriptor by itself when it is closed; deleting it first, at once, is what
 * the source does, too, since its close cannot wait for the others. */
static int ctlv_unwatch(void *opaque, int fd)
{
    struct ctlv_state *state = opaque;
    int has_to_be_told = interests_unwatch(&state->interests, fd);
    if (has_to_be_told <= 0) {
        return has_to_be_told;
    }
    state->counters->updates++;
    return epoll_ctl(state->epoll_fd, EPOLL_CTL_DEL, fd, NULL);
}

static int tell_changes(struct ctlv_state *state)
{
    size_t n_entries = state->interests.changes.n_fds;
    for (size_t i = 0; i < n_entries; i++) {
        int fd = state->interests.changes.fds[i];
        uint32_t read = (state->interests.wanted[fd] & INTEREST_READ) ? EPOLLIN : 0;
        uint32_t write = (state->interests.wanted[fd] & INTEREST_WRITE) ? EPOLLOUT : 0;
        state->entries[i] = (struct epoll_ctlv_entry){
            .operation = state->interests.registered[fd] ? EPOLL_CTL_MOD : EPOLL_CTL_ADD,
            .fd = fd,
            .events = read | write,
            .data = (uint64_t)fd,
        };
        state->interests.registered[fd] = true;
    }
    changes_clear(&state->interests.changes);
    for (size_t n_told = 0; n_told < n_entries;) {
        state->counters->updates++;
        long n = syscall(SYS_EPOLL_CTLV, state->epoll_fd, state->entries + n_told,
                         (int)(n_entries - n_told));
        if (n < 0) {
            return -1;
        }
        n_told += (size_t)n;
    }
    return 0;
}

static int ctlv_wait(void *opaque, struct event *events, size_t events_max)
{
    struct ctlv_state *state = opaque;
    size_t bound = events_max < state->interests.fds_max ? events_max : state->interests.fds_max;
    if (tell_changes(state) != 0) {
        return -1;
    }
    int n_events = epoll_wait(state->epoll_fd, state->ready, (int)bound, -1);
    if (n_events < 0) {
        return errno == EINTR ? 0 : -1;
    }
    for (int i = 0; i < n_events; i++) {
        uint32_t revents = state->ready[i].events;
        uint32_t broken = revents & (EPOLLERR | EPOLLHUP);
        uint32_t read = (broken || (revents & EPOLLIN)) ? INTEREST_READ : 0;
        uint32_t write = (broken || (revents & EPOLLOUT)) ? INTEREST_WRITE : 0;
        events[i] = (struct event){.fd = (int)state->ready[i].data.u64, .ready = read | write};
    }
    return n_events;
}

static void ctlv_count_into(void *opaque, struct counters *counters)
{
    struct ctlv_state *state = opaque;
    state->counters = counters;
}

const struct mechanism epoll_ctlv = {
    .name = "epoll_ctlv",
    .events_bounded = true,
    .open = ctlv_open,
    .watch = ctlv_watch,
    .unwatch = ctlv_unwatch,
    .wait = ctlv_wait,
    .close = ctlv_close,
    .count_into = ctlv_count_into,
};
