/* A mechanism: how a server learns which of its descriptors are ready.
 *
 *   watch(fd, interest) ──► what the mechanism keeps ──► wait() ──► events, in its own order
 *   unwatch(fd)             bitmap, array, kernel list
 *
 * One mechanism a file, named as its model in ../../models/ where it has one; the functions stand in
 * the order of the struct, so that two files differ by the mechanism only. Some need a kernel of
 * ../../emulated/kernel_mechanisms/; elsewhere they cannot be opened.
 */
#ifndef CALIBRATION_MECHANISM_H
#define CALIBRATION_MECHANISM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct counters;

#define INTEREST_READ 1u
#define INTEREST_WRITE 2u

struct event {
    int fd;
    uint32_t ready; /* INTEREST_READ, INTEREST_WRITE; an error or a hang-up makes both ready */
};

struct mechanism {
    const char *name;
    /* Does the kernel take a bound on the events of one wait? select and poll return them all. */
    bool events_bounded;
    /* Is a connection that was returned watched no longer, until it is watched again? */
    bool one_shot;
    /* Descriptors will be below `fds_max`. Return NULL with errno set if out of memory. */
    void *(*open)(size_t fds_max);
    /* Begin to watch, or change the interest of a watched descriptor. 0, or -1 with errno set. */
    int (*watch)(void *state, int fd, uint32_t interest);
    int (*unwatch)(void *state, int fd);
    /* Block until something is ready; fill at most `events_max` of `events`.
     * Return their number, or -1 with errno set. EINTR is not an error: 0. */
    int (*wait)(void *state, struct event *events, size_t events_max);
    void (*close)(void *state);
    /* Optional: the last call on `fd` for `interest` would have blocked. A mechanism that reports
     * changes needs this call; one that reports states does not. */
    void (*blocked)(void *state, int fd, uint32_t interest);
    /* Optional, before the first wait: where to count what only this mechanism does. */
    void (*count_into)(void *state, struct counters *counters);
};

extern const struct mechanism select_fdset;
extern const struct mechanism poll_pollfd;
extern const struct mechanism epoll_level;
extern const struct mechanism epoll_oneshot;
extern const struct mechanism epoll_close_only;
extern const struct mechanism epoll_once;
extern const struct mechanism epoll_edge;
extern const struct mechanism epoll_ctlv;
extern const struct mechanism rt_signals;
extern const struct mechanism signalfd_batch;
extern const struct mechanism signal_per_fd;
extern const struct mechanism sigtimedwait4;
extern const struct mechanism dev_poll;
extern const struct mechanism aio_poll;

/* The table, ended by NULL. */
extern const struct mechanism *const mechanisms[];

const struct mechanism *mechanism_find(const char *name);

#endif
