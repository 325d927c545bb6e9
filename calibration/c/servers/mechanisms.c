#include "mechanism.h"

#include <string.h>

const struct mechanism *const mechanisms[] = {
    &select_fdset,  &poll_pollfd,   &epoll_level, &epoll_oneshot, &epoll_close_only,
    &epoll_once,    &epoll_edge,    &epoll_ctlv,  &rt_signals,    &signalfd_batch,
    &signal_per_fd, &sigtimedwait4, &dev_poll,    &aio_poll,      NULL,
};

const struct mechanism *mechanism_find(const char *name)
{
    for (size_t i = 0; mechanisms[i] != NULL; i++) {
        if (strcmp(mechanisms[i]->name, name) == 0) {
            return mechanisms[i];
        }
    }
    return NULL;
}
