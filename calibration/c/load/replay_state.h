/* The state of a replay, shared by its parts: replay.c says when a connection begins and ends,
 * conversation.c what is said on it in between, kept.c when requests of kept connections are sent,
 * and a transport how it all reaches the server.
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
    int64_t due_ns; /* when its request was to be sent */
    const struct trace_row *row;
    int older; /* neighbours in the order of start, which is the order of timing out */
    int newer;
};

/* What a record is a try of. */
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
    int64_t zero_ns; /* time zero on CLOCK_MONOTONIC_RAW; before `has_begun` that of preparing */
    bool has_begun;
    int epoll_fd;      /* of sockets */
    struct far *far;   /* of packets */
    int64_t n_fds;     /* connections are known by numbers below this */
    int64_t n_open;
    int64_t next_row;         /* the next connection's, whose first try it will be */
    struct attempt *attempts; /* by record */
    struct due_heap due;
    int64_t n_retries_due; /* of its entries */
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

/* A piece of the loop has ended, in which *n_done* things were done. */
static inline void piece_ends(struct replay *replay, enum piece piece, int64_t n_done)
{
    if (replay->gaps->rows != NULL) {
        gaps_see(replay->gaps, piece, n_done, now_ns(replay));
    }
}

enum status status_of_error(int error);

/* Begin a connection that was due at *intended_ns*; return its descriptor, or NONE if it failed. */
int connection_start(struct replay *replay, int64_t intended_ns, struct attempt attempt);

/* Start what has fallen due, not too much of it, in the order of its times. */
void start_due(struct replay *replay);

/* Close the connection on *fd* and write down how it ended. */
void connection_finish(struct replay *replay, int fd, enum status status);

/* The connection is established: send the first request. */
void conversation_open(struct replay *replay, int fd);

/* Send the next request of a connection, which was to be sent at *due_ns*. */
void conversation_ask(struct replay *replay, int fd, int64_t due_ns);

/* The text of the request that the connection is at goes to replay->request; return its length. */
size_t conversation_request(struct replay *replay, int fd);

/* More of a request can be sent. */
void conversation_go_on(struct replay *replay, int fd);

/* Take what came; return whether more may come on this connection now. */
bool conversation_hear(struct replay *replay, int fd, const char *bytes, size_t n_bytes);

/* Nothing comes any more, for an error or for none: either that was the end of the answer, or it
 * will never be whole.
 */
void conversation_close(struct replay *replay, int fd, int error);

#endif
