/* The micro web server of completions: one thread that is notified of finished operations.
 *
 *   ring_enter() ──► accepted: receive                                ─┐
 *               ├──► received: reply, and linked to it what is next   ─┼──► ring_enter()
 *               └──► send failed, end of the connection: close        ─┘
 *
 * Accept is armed once. Receive is armed for one request, and not for all of a connection: an armed
 * one holds the socket, so that closing its descriptor would end nothing before it is cancelled, and
 * a cancelled one completes once more. So each connection has one chain under way, and what the
 * server need not know, that a reply was sent and a connection closed, does not complete.
 * Sources: io_uring(7); Linux 6.1, io_uring/net.c, io_accept(), io_recv(), io_sendmsg().
 * Its model is ../../../models/programs/completions.py.
 */
#ifndef CALIBRATION_COMPLETION_LOOP_H
#define CALIBRATION_COMPLETION_LOOP_H

#include "counters.h"
#include "io_uring.h"
#include "reply.h"
#include "request.h"
#include "service.h"

#include <sys/uio.h>

struct ring_connection {
    bool open;
    struct request request;
    uint32_t reply_sent; /* with the part that is under way */
    uint32_t part_bytes;
    bool part_is_last; /* it completes only if it fails */
    struct msghdr message;
    struct iovec parts[2];
    char header[REPLY_HEADER_BYTES];
};

struct completion_server {
    /* -- constant -- */
    size_t fds_max;
    size_t events_max;
    int listener_fd; /* blocking, so that the kernel waits for it */
    struct work work; /* of a request */
    /* -- state -- */
    struct ring ring;
    struct ring_connection *connections; /* by descriptor */
    bool starved; /* nothing is accepted: there were no descriptors */
    struct counters *counters;
    struct reply_pattern pattern;
};

extern const struct service completion_service;

#endif
