/* The micro web server: one thread, one loop, one mechanism.
 *
 *   mechanism.wait() ──► listener: accept4, watch        ─┐
 *                   └──► connection: read, write, close  ─┴──► mechanism.wait()
 *
 * Source: Gammo, Brecht, Shukla, Pariag 2004, "Comparing and evaluating epoll, select, and poll
 * event mechanisms", section 2 (the userver's loop and its accept strategies).
 */
#ifndef CALIBRATION_SERVER_H
#define CALIBRATION_SERVER_H

#include "counters.h"
#include "mechanism.h"
#include "reply.h"
#include "request.h"
#include "service.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { READ_BYTES_MAX = 4096 };

struct connection {
    struct request request;
    uint32_t reply_sent;
    uint32_t interest; /* 0: no connection here */
};

struct server {
    /* -- constant -- */
    const struct mechanism *mechanism;
    int64_t accept_limit; /* connections accepted per notification; 0: until none is left */
    bool listener_first;
    bool read_after_accept;
    size_t fds_max;
    size_t events_max;
    int listener_fd;
    struct work work; /* of a request */
    /* -- state -- */
    void *watched;
    struct event *events;
    struct connection *connections; /* by descriptor */
    struct counters *counters;
    char received[READ_BYTES_MAX];
    struct reply_pattern pattern;
};

/* Return the service that is this loop with *mechanism*. */
struct service loop_with(const struct mechanism *mechanism);

#endif
