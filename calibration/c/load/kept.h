/* Connections that stay open, with requests at due times that do not depend on the server.
 *
 *   a request is due ──► its user's connection is free ──► sent ──► reply ──► the next that waits
 *            └─────────► it is busy, or lost ──► waits at its user, in order of due times
 *
 * All connections are opened before time zero. A lost connection is reopened at once, or after a
 * second if it was refused or had no reply. The time-out of a request counts from its due time: it
 * also ends the connection, and a request that still waits is never sent.
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
    int64_t n_waited;         /* of all: requests that found their connection busy or lost */
    int64_t next_expiring;    /* all requests before it have ended */
    int64_t n_settled;        /* users whose first connection is open or has failed */
    bool has_begun;           /* time zero is over */
};

/* Prepare for *trace*, whose requests go to *requests*. */
struct kept kept_prepare(const struct trace *trace, struct records *requests);

void kept_free(struct kept *kept);

/* Open the connection of each user, a few at a time. Afterwards open connections have all times
 * 0 in their records.
 */
void kept_open_all(struct replay *replay);

/* Schedule the reopening of connections that kept_open_all could not open; time zero is set. */
void kept_begin(struct replay *replay);

/* Open a connection of *user*, due at *due_ns*. */
void kept_start(struct replay *replay, int64_t due_ns, int64_t user);

/* The next request of the trace is due: send it, or queue it. */
void kept_request_due(struct replay *replay);

/* The connection on *fd* is open, or has received a reply at *done_ns*. */
void kept_connected(struct replay *replay, int fd);
void kept_replied(struct replay *replay, int fd, int64_t done_ns);

/* Send the oldest queued request on the connection on *fd*, which is free. */
void kept_send_next(struct replay *replay, int fd);

/* The connection of the record *index* has ended, with its request: schedule another one. */
void kept_ended(struct replay *replay, int64_t index, enum status status);

/* End requests whose time-out has passed. */
void kept_expire(struct replay *replay);

#endif
