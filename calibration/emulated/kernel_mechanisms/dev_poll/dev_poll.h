/* SPDX-License-Identifier: MIT OR GPL-2.0
 *
 * /dev/poll: the interface of dev_poll.c.
 */
#ifndef CALIBRATION_DEV_POLL_H
#define CALIBRATION_DEV_POLL_H

#include <linux/ioctl.h>
#include <linux/types.h>

#define DEV_POLL_DEVICE "/dev/poll"

/* write() takes an array of struct pollfd: `events` replaces the interest in `fd`, or removes it.
 * As long as a descriptor is not removed its file stays open, closed or not. */
#define DEV_POLL_REMOVE 0x1000

struct dvpoll {
    __u64 dp_fds;     /* address of an array of struct pollfd, for what is ready */
    __s32 dp_nfds;    /* its length, at least 1 */
    __s32 dp_timeout; /* ms; 0: do not wait, negative: without end */
};

/* Returns how many are ready. Errors: EINTR, EINVAL dp_nfds below 1, EFAULT. */
#define DP_POLL _IOW('D', 1, struct dvpoll)

#endif
