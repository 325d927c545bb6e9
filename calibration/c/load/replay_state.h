/* The state of a replay, shared by its parts: replay.c begins and ends connections, conversation.c
 * exchanges requests and replies on them, kept.c sends the requests of kept connections, and a
 * transport connects them to the server.
 */
#ifndef CALIBRATION_REPLAY_STATE_H
#define CALIBRATION_REPLAY_STATE_H

#include "../servers/program.h"
#include "due.h"
#include "gaps.h"
#include "kept.h"
#include "replay.h"
#include "transport.h"

struct far;

enum { NONE = -1 /* no descriptor */, RECEIVE_BYTES = 65536 };

enum phase {
    PHASE_FREE, /* there is no connection */
    PHASE_CONNECTING,
    PHASE_SENDING,
    PHASE_RECEIVING,
    PHASE_THINKING,
    PHASE_AT_REST, /* kept, and no request is due */
};

struct connection {
    enum phase phase;
    uint32_t n_requests_done;
    uint32_t n_sent; /* bytes of the request */
    struct answer_state answer;
    int64_t record;
    int64_t due_ns; /* when its request was due */
    const struct trace_row *row;
    int older; /* neighbours in the order of start, which is the order of time-outs */
    int newer;
};

/* The try that a record belongs to. */
struct attempt {
    const struct trace_row *row;
    uint32_t number; /* 0: the first */
    int64_t user;    /* of kept connections */
};

struct replay {
    const struct trace *trace;
    const struct replay_options *options;
    struct records *records;
    struct replies *replies;
    struct gaps *gaps;
    struct replay_result result;
    int64_t zero_ns; /* time zero on CLOCK_MONOTONIC_RAW; until `has_begun`, of preparing */
    bool has_begun;
    int epoll_fd;      /* of sockets */
    struct far *far;   /* of packets */
    int64_t n_fds;     /* numbers of connections are below this */
    int64_t n_open;
    int64_t next_row;         /* of the next connection's first try */
    struct attempt *attempts; /* by record */
    struct due_heap due;
    int64_t n_retries_due; /* retries among the entries of `due` */
    struct kept kept;
    struct connection *connections; /* by descriptor */
    int oldest;
    int newest;
    char request[TRACE_REQUEST_BYTES_MAX];
    char received[RECEIVE_BYTES];
};

static inline int64_t now_ns(const struct replay *replay)
{
    return clock_ns(CLOCK_MONOTONIC_RAW) - replay->zero_ns;
}

/* A piece of the loop with *n_done* pieces of work has ended. */
static inline void piece_ends(struct replay *replay, enum piece piece, int64_t n_done)
{
    if (replay->gaps->rows != NULL) {
        gaps_see(replay->gaps, piece, n_done, now_ns(replay));
    }
}

enum status status_of_error(int error);

/* Begin a connection that was due at *intended_ns*; return its descriptor, or NONE if it failed. */
int connection_start(struct replay *replay, int64_t intended_ns, struct attempt attempt);

/* Start due connections and requests, a limited number, in the order of their times. */
void start_due(struct replay *replay);

/* Close the connection on *fd* and record how it ended. */
void connection_finish(struct replay *replay, int fd, enum status status);

/* The connection is established: send the first request. */
void conversation_open(struct replay *replay, int fd);

/* Send the next request of a connection, which was due at *due_ns*. */
void conversation_ask(struct replay *replay, int fd, int64_t due_ns);

/* Write the text of the connection's current request to replay->request; return its length. */
size_t conversation_request(struct replay *replay, int fd);

/* More of a request can be sent. */
void conversation_go_on(struct replay *replay, int fd);

/* Read the received bytes; return whether more may come on this connection now. */
bool conversation_hear(struct replay *replay, int fd, const char *bytes, size_t n_bytes);

/* No more bytes will come, with or without an error: either the reply ends here, or it stays
 * incomplete.
 */
void conversation_close(struct replay *replay, int fd, int error);

#endif
