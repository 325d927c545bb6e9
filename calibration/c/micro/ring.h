/* io_uring as the benches use it: what fails ends the program. */
#ifndef RING_H
#define RING_H

#include "micro.h"

#include "../servers/io_uring.h"

void ring_begin(struct ring *ring, long fds_max);
/* Submit what there is, and do what is due. */
void ring_go(struct ring *ring, enum ring_wait wait);
/* See what was completed, as the server does: at most n, whose results are noted. */
long ring_see(struct ring *ring, int *results, long n);
/* Of a listener, or a connection: io_uring does not wait for one that does not block. */
void let_block(int fd);

#endif
