/* Level-triggered epoll whose removal is left to close(): a call less for each connection.
 *
 * Nobody else holds the descriptor open, so closing it takes it out of the set.
 * Source: epoll(7); Linux 6.1, fs/eventpoll.c, eventpoll_release_file(); Gammo and others 2004,
 * section 2.
 */
#include "epoll_level.h"
#include "mechanism.h"

static void *close_open(size_t fds_max)
{
    return epoll_open_with(fds_max, 0);
}

const struct mechanism epoll_close_only = {
    .name = "epoll_close",
    .events_bounded = true,
    .open = close_open,
    .watch = epoll_watch,
    .unwatch = epoll_leave_to_close,
    .wait = epoll_level_wait,
    .close = epoll_close,
};
