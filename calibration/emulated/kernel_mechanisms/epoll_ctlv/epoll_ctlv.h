/* SPDX-License-Identifier: MIT OR GPL-2.0
 *
 * Many epoll_ctl in one system call: the interface of epoll_ctlv.insert.
 */
#ifndef CALIBRATION_EPOLL_CTLV_H
#define CALIBRATION_EPOLL_CTLV_H

#include <stdint.h>

/* epoll_ctlv(epoll_fd, entries, n_entries): the number done, or -1 if the first failed. The number
 * is above all that Linux uses. */
#define SYS_EPOLL_CTLV 600

struct epoll_ctlv_entry {
    int32_t operation; /* EPOLL_CTL_ADD, EPOLL_CTL_MOD, EPOLL_CTL_DEL */
    int32_t fd;
    uint32_t events;
    uint32_t padding;
    uint64_t data;
};

#endif
