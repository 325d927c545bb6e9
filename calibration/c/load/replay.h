/* Replays a trace against a server, spinning: the load generator never sleeps.
 *
 *   rows or users fall due ──► connect ──► send ──► receive ──┬──► think ──► send ...
 *          intended_ns      started_ns  connected_ns          └──► close with a reset: done_ns
 *
 * Sources: Banga and Druschel 1999, "Measuring the capacity of a web server under realistic
 * loads" (why the generator must not wait for the server); Mosberger and Jin 1998, "httperf".
 */
#ifndef CALIBRATION_REPLAY_H
#define CALIBRATION_REPLAY_H

#include "gaps.h"
#include "protocol.h"
#include "records.h"
#include "replies.h"
#include "retry.h"
#include "trace.h"

#include <netinet/in.h>
#include <stdbool.h>

struct far_options;

struct replay_options {
    struct sockaddr_in address;
    int64_t run_ns;
    int64_t timeout_ns; /* from the intended start of a connection to its last byte; of kept
                         * connections from when a request was due */
    int64_t fds_max;    /* connections open at once */
    bool held;          /* once all are open, a line of standard input starts the run */
    struct retry_options retry;
    const struct protocol *protocol;
    struct protocol_options protocol_options;
    const struct far_options *far; /* to use packets; NULL: sockets */
};

struct outputs {
    struct records records;
    struct replies replies;
    struct records requests; /* of kept connections */
    struct gaps gaps;
};

/* Counters of a client machine without sockets. */
struct packet_counts {
    int64_t n_sent;
    int64_t n_flushes; /* calls that sent them */
    int64_t n_received;
    int64_t n_dropped; /* packets that found no room in the receive ring */
    int64_t n_syn_repeated;
    int64_t n_data_repeated;
    int64_t n_idle;
    int64_t n_idle_lost; /* closed or reset by the server */
};

struct replay_result {
    int64_t n_replies;  /* of all requests; a connection may have many */
    int64_t n_error_replies; /* of these: replies that report an error */
    int64_t n_ports;    /* of STATUS_DESCRIPTORS: no local port was free */
    int64_t n_protocol; /* of STATUS_RESET: the reply broke the protocol */
    int64_t n_retries;  /* of all records: connections that replace a failed one */
    int64_t n_given_up; /* failed without a try left */
    int64_t n_waited;   /* requests of kept connections that found theirs busy or lost */
    bool truncated;     /* the records were full before the run ended */
    int64_t wall_ns;
    int64_t cpu_ns;
    int64_t start_monotonic_ns; /* time zero of the records on CLOCK_MONOTONIC */
    bool has_packets;
    struct packet_counts packets;
};

/* Print `start CLOCK_MONOTONIC_NS` and replay *trace* until its end or the time limit. Kept
 * connections are opened before that, and held if requested; outputs->requests has room for their
 * requests.
 */
struct replay_result replay(const struct trace *trace, const struct replay_options *options,
                            struct outputs *outputs);

#endif
