/* How connections of a replay reach the server: sockets of the kernel (load), or packets of the
 * program's own (far_end). Each program is linked with one of the two.
 *
 * A connection is known by a small number, its descriptor where it has one. What happens on it goes
 * to the functions of conversation.c.
 */
#ifndef CALIBRATION_TRANSPORT_H
#define CALIBRATION_TRANSPORT_H

#include "records.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct replay;

/* Prepare for `options->fds_max` connections at once. */
void transport_prepare(struct replay *replay);

/* Begin to connect, and note in *record* when. Return the connection, or -1 with errno set; whether
 * it is still to be established in *pending*.
 */
int transport_open(struct replay *replay, struct record *record, bool *pending);

/* What becomes of the connection *fd*, whose record is *index*, may be told from now on. */
void transport_watch(struct replay *replay, int fd, int64_t index);

/* Send bytes of the request; return how many were taken, or -1 with errno set, as send() does. */
ssize_t transport_send(struct replay *replay, int fd, const char *bytes, size_t n_bytes);

/* End a connection at once, by a reset where it is established. */
void transport_close(struct replay *replay, int fd);

/* Send what has been put off, if anything has: nothing more is due at this moment. */
void transport_flush(struct replay *replay);

/* Handle what has happened on the connections, without waiting; between two of them start what has
 * fallen due.
 */
void transport_handle_events(struct replay *replay);

/* Connections that are open and belong to no user: they were opened by transport_prepare. */
int64_t transport_n_idle(const struct replay *replay);

void transport_end(struct replay *replay);

#endif
