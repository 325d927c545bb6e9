/* The path of a replay's connections to the server: sockets of the kernel (load), or packets of the
 * program's own (far_end). Each program is linked with one of the two.
 *
 * A small number identifies a connection: its descriptor, if it has one. Events on it go to the
 * functions of conversation.c.
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

/* Begin to connect, and note in *record* when. Return the connection, or -1 with errno set;
 * *pending* is set if it is still to be established.
 */
int transport_open(struct replay *replay, struct record *record, bool *pending);

/* From now on, report events of the connection *fd*, whose record is *index*. */
void transport_watch(struct replay *replay, int fd, int64_t index);

/* Send bytes of the request; return how many fit, or -1 with errno set, as send() does. */
ssize_t transport_send(struct replay *replay, int fd, const char *bytes, size_t n_bytes);

/* End a connection at once, by a reset if it is established. */
void transport_close(struct replay *replay, int fd);

/* Send queued packets, if there are any: nothing more is due at this moment. */
void transport_flush(struct replay *replay);

/* Handle events of the connections, without waiting; start due connections between two events.
 */
void transport_handle_events(struct replay *replay);

/* Open connections without a user: transport_prepare opened them. */
int64_t transport_n_idle(const struct replay *replay);

void transport_end(struct replay *replay);

#endif
