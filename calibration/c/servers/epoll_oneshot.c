/* epoll with EPOLLONESHOT: what was returned is disarmed until the server arms it again.
 *
 *   ADD ──► armed ──event──► returned, disarmed ──served──► MOD ──► armed, or listed at once
 *
 * The listener stays armed. Source: epoll(7); Linux 6.1, fs/eventpoll.c, ep_send_events().
 */
#include "epoll_level.h"
#include "mechanism.h"

#include <sys/epoll.h>

static void *oneshot_open(size_t fds_max)
{
    return epoll_open_with(fds_max, EPOLLONESHOT);
}

const struct mechanism epoll_oneshot = {
    .name = "epoll_oneshot",
    .events_bounded = true,
    .one_shot = true,
    .open = oneshot_open,
    .watch = epoll_watch,
    .unwatch = epoll_unwatch,
    .wait = epoll_level_wait,
    .close = epoll_close,
};
