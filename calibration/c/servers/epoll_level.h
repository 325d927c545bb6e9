/* Level-triggered epoll, for the mechanisms that differ from it in one thing each. */
#ifndef CALIBRATION_EPOLL_LEVEL_H
#define CALIBRATION_EPOLL_LEVEL_H

#include "mechanism.h"

/* The functions of `struct mechanism`. `flags` go with every epoll_event but the listener's, which
 * is what is watched first; with EPOLLONESHOT a descriptor is armed again by each watch. */
void *epoll_open_with(size_t fds_max, uint32_t flags);
int epoll_watch(void *opaque, int fd, uint32_t interest);
int epoll_unwatch(void *opaque, int fd);
/* Instead of epoll_unwatch: the descriptor leaves the set when it is closed. */
int epoll_leave_to_close(void *opaque, int fd);
int epoll_level_wait(void *opaque, struct event *events, size_t events_max);
void epoll_close(void *opaque);

#endif
