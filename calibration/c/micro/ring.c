#include "ring.h"

#include <fcntl.h>

void ring_begin(struct ring *ring, long fds_max)
{
    if (ring_open(ring, (size_t)fds_max) != 0) {
        fail_errno("io_uring");
    }
}

void ring_go(struct ring *ring, enum ring_wait wait)
{
    if (ring_enter(ring, wait) != 0) {
        fail_errno("io_uring_enter");
    }
}

long ring_see(struct ring *ring, int *results, long n)
{
    struct ring_completion completion;
    long n_seen = 0;
    while (n_seen < n && ring_completed(ring, &completion)) {
        if (completion.result < 0) {
            fail("operation %d of a ring failed with %d", (int)completion.operation,
                 -completion.result);
        }
        if (completion.operation == RING_RECEIVE) {
            ring_give_back(ring, completion.buffer);
        }
        results[n_seen++] = completion.result;
    }
    return n_seen;
}

void let_block(int fd)
{
    if (fcntl(fd, F_SETFL, 0) != 0) {
        fail_errno("fcntl");
    }
}
