/* Reads a trace file (see ../README.md, "Trace file"): when clients connect, and their requests. */
#ifndef CALIBRATION_TRACE_H
#define CALIBRATION_TRACE_H

#include <stddef.h>
#include <stdint.h>

#define TRACE_NS_MAX 1000000000000000LL /* eleven days: sums of a few of these do not overflow */

enum {
    TRACE_ROWS_MAX = 50000000,
    TRACE_USERS_MAX = 1000000,
    TRACE_REQUESTS_MAX = INT32_MAX, /* of a connection: this number never closes it */
    TRACE_REQUEST_BYTES_MIN = 32, /* the longest request line, some padding, an empty line */
    TRACE_REQUEST_BYTES_MAX = 65536,
    TRACE_REPLY_BYTES_MIN = 64, /* smaller replies are raised to this */
    TRACE_REPLY_BYTES_MAX = 1 << 30,
};

struct trace_row {
    int64_t at_ns;
    int64_t think_ns;
    uint32_t n_requests;
    uint32_t request_bytes;
    uint32_t reply_bytes;
};

enum loop {
    LOOP_OPEN, /* rows begin at their times */
    LOOP_CLOSED, /* a user's next row begins when the last one ends */
    LOOP_KEPT, /* each user keeps a connection, and requests are due at their times */
};

struct trace_request {
    int64_t due_ns;
    int64_t user;
};

struct trace {
    enum loop loop;
    int64_t n_users; /* 0 in an open loop */
    int64_t n_rows;
    struct trace_row *rows;
    int64_t n_requests; /* of kept connections, by due time */
    struct trace_request *requests;
};

/* Read *path*; refuse a bad file with its name, the line, the rule and the value. */
struct trace trace_read(const char *path);

#endif
