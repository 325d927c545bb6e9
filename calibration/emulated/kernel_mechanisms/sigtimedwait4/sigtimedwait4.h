/* SPDX-License-Identifier: MIT OR GPL-2.0
 *
 * Take many queued signals at once: the interface of sigtimedwait4.c.
 */
#ifndef CALIBRATION_SIGTIMEDWAIT4_H
#define CALIBRATION_SIGTIMEDWAIT4_H

#include <linux/ioctl.h>
#include <linux/types.h>

#define SIGTIMEDWAIT4_DEVICE "/dev/sigtimedwait4"
#define SIGTIMEDWAIT4_FOREVER (-1)

struct sigtimedwait4_call {
    __u64 awaited;    /* signal s is bit s - 1; SIGKILL and SIGSTOP are never awaited */
    __u64 infos;      /* address of an array of siginfo_t */
    __u64 n_max;      /* its length, at least 1 */
    __s64 timeout_ns; /* 0: do not wait; SIGTIMEDWAIT4_FOREVER */
};

/* Returns the number of signals taken, lowest number first and in order of arrival within a
 * number. Errors: EAGAIN none came in time, EINTR another signal was delivered, EINVAL n_max of 0,
 * EFAULT.
 */
#define SIGTIMEDWAIT4 _IOW('4', 0, struct sigtimedwait4_call)

#endif
