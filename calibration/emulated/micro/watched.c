/* The server's own calls, where a failure ends the program. */
#include "far_end.h"

struct served *watched_open(const struct options *options, long fds_max)
{
    const char *name = options->mechanism == MECHANISM_EPOLL ? "epoll_level"
                                                             : mechanism_name(options->mechanism);
    struct served *served = served_open(name, (size_t)fds_max);
    if (served == NULL)
        fail_errno("the server's %s", name);
    return served;
}

void watch(struct served *served, int fd)
{
    if (served_watch(served, fd) != 0)
        fail_errno("cannot watch descriptor %d", fd);
}

void unwatch(struct served *served, int fd)
{
    if (served_unwatch(served, fd) != 0)
        fail_errno("cannot unwatch descriptor %d", fd);
}

void wait_for(struct served *served, long n)
{
    int n_ready = served_wait(served);
    if (n_ready != n)
        fail("a wait found %d ready descriptors instead of %ld", n_ready, n);
}

void take_request(int fd)
{
    size_t n = receive_bytes(fd, REQUEST_BYTES);
    if (n != REQUEST_BYTES)
        fail("%zu bytes of a request came instead of %d", n, REQUEST_BYTES);
}

void reply(int fd, long reply_bytes)
{
    if (!served_reply(fd, (size_t)reply_bytes))
        fail_errno("a reply of %ld bytes", reply_bytes);
}
