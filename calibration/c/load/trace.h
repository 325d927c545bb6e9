/* Reads a trace file (see ../README.md, "Trace file"): who connects when, and asks for what. */
#ifndef CALIBRATION_TRACE_H
#define CALIBRATION_TRACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TRACE_NS_MAX 1000000000000000LL /* eleven days: sums of a few of these do not overflow */

enum {
    TRACE_ROWS_MAX = 50000000,
    TRACE_USERS_MAX = 1000000,
    TRACE_REQUESTS_MAX = 1000000000,
    TRACE_REQUEST_BYTES_MIN = 32, /* the longest request line, some padding, an empty line */
    TRACE_REQUEST_BYTES_MAX = 65536,
    TRACE_REPLY_BYTES_MIN = 64, /* smaller ones are taken as this */
    TRACE_REPLY_BYTES_MAX = 1 << 30,
};

struct trace_row {
    int64_t at_ns;
    int64_t think_ns;
    uint32_t n_requests;
    uint32_t request_bytes;
    uint32_t reply_bytes;
};

struct trace {
    bool closed;
    int64_t n_users; /* 0 in an open loop */
    int64_t n_rows;
    struct trace_row *rows;
};

/* Read *path*, or refuse it with its name, the line, the rule and the value. */
struct trace trace_read(const char *path);

#endif
