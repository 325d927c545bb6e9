/* A service: the part of the server that replies to clients, with or without a mechanism.
 *
 *   options ──► prepare ──► listener ──► open ──► `ready` ──► serve ──► close
 *
 * server.c goes through these steps and has the table; a service uses neither.
 */
#ifndef CALIBRATION_SERVICE_H
#define CALIBRATION_SERVICE_H

#include "mechanism.h"
#include "work.h"

#include <stdbool.h>
#include <stdint.h>

/* The command line; `server --help` explains each option. */
struct options {
    const char *mechanism;
    const char *address;
    int64_t port;
    int64_t backlog;
    int64_t accept_limit;
    const char *listener;
    bool read_after_accept;
    int64_t events_max;
    int64_t fds_max;
    int64_t send_buffer_bytes;
    int64_t signals_max;
    const char *threads;
    int64_t workers;
    int64_t request_us;
    struct work work; /* what that is on this CPU; set by server.c */
    const char *counters;
    int64_t run_ns;
    bool list;
    bool layout;
};

struct service {
    const char *name;                  /* among the mechanisms */
    const struct mechanism *mechanism; /* NULL: none */
    /* Threads, and the kernel for a ring, wait for what they are asked to do. */
    bool listener_blocks;
    /* Refuse what its own options cannot mean; return the server, without what holds a descriptor. */
    void *(*prepare)(const struct service *service, const struct options *options);
    void (*open)(void *server, const struct options *options, int listener_fd);
    /* Serve until a stop is requested, then close every connection. */
    void (*serve)(void *server);
    /* Free the server; the listener is not its own. */
    void (*close)(void *server);
};

#endif
