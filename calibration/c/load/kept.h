/* Connections that stay open, with requests that are due whatever the server does.
 *
 *   a request is due ──► its user's connection is free ──► sent ──► reply ──► the next that waits
 *            └─────────► it is busy, or lost ──► waits at its user, in order of due times
 *
 * All connections are opened before time zero. One that is lost is opened again at once; where it
 * was refused, or nobody replied, after a second. A request is patient from when it was due: its
 * connection ends with it, and one that still waits is never sent.
 *
 * Source: wrk2, -R ("latency is measured from when each transmission should have occurred").
 */
#ifndef CALIBRATION_KEPT_H
#define CALIBRATION_KEPT_H

#include "records.h"

#include <stdbool.h>
#include <stdint.h>

struct replay;
struct trace;

struct kept_user {
    int fd;
    int64_t under_way; /* requests by number: the one on the connection, */
    int64_t first;     /* and those that wait */
    int64_t last;
};

struct kept {
    struct kept_user *users;
    int64_t *behind;          /* by request: the one that waits behind it at the same user */
    struct records *requests; /* one each, in order of due times */
    int64_t n_unfinished;     /* of those that were due */
    int64_t n_waited;         /* of all: found their connection busy or lost */
    int64_t next_expiring;    /* all before it have ended */
    int64_t n_settled;        /* users whose first connection is open or has failed */
    bool has_begun;           /* time zero is over */
};

/* Prepare for *trace*, whose requests go to *requests*. */
struct kept kept_prepare(const struct trace *trace, struct records *requests);

void kept_free(struct kept *kept);

/* Open the connection of each user, a few at a time. Afterwards those that are open have all times
 * 0 in their records.
 */
void kept_open_all(struct replay *replay);

/* Plan to open again what kept_open_all could not; time zero is set. */
void kept_begin(struct replay *replay);

/* Open a connection of *user*, due at *due_ns*. */
void kept_start(struct replay *replay, int64_t due_ns, int64_t user);

/* The next request of the trace is due: send it, or let it wait. */
void kept_request_due(struct replay *replay);

/* The connection on *fd* is open, or has had a reply at *done_ns*. */
void kept_connected(struct replay *replay, int fd);
void kept_replied(struct replay *replay, int fd, int64_t done_ns);

/* Send what waits longest at the user of the connection on *fd*, which is free. */
void kept_send_next(struct replay *replay, int fd);

/* The connection of the record *index* has ended, with its request: plan another one. */
void kept_ended(struct replay *replay, int64_t index, enum status status);

/* End what has lost its patience. */
void kept_expire(struct replay *replay);

#endif
