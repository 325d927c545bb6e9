/* The protocols of servers: how a request reads, and when its reply is complete.
 *
 *   micro       our own server: GET /REPLY_BYTES, and a reply of exactly as many bytes
 *   http/1.0    one request a connection, unless the client asks to keep it open (RFC 1945)
 *   http/1.1    connections that stay open until a request with `Connection: close` (RFC 9112)
 *   memcached   `get KEY` (memcached doc/protocol.txt, the text protocol)
 *   resp        GET KEY as an array of bulk strings (Redis serialization protocol, version 2)
 *
 * Requests are not pipelined: bytes after a complete reply break the protocol.
 */
#ifndef CALIBRATION_PROTOCOL_H
#define CALIBRATION_PROTOCOL_H

#include "trace.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    ANSWER_LINE_BYTES = 190, /* of a line: `VALUE KEY FLAGS BYTES` of a whole key fits */
    KEY_PREFIX_BYTES_MAX = 100,
};

enum answer {
    ANSWER_PARTIAL, /* more has to come */
    ANSWER_COMPLETE,
    ANSWER_ERROR,   /* complete, and reports an error of the server */
    ANSWER_INVALID, /* not of this protocol */
};

/* The reply that a connection is receiving; all zero before its first byte. */
struct answer_state {
    uint64_t n_received;
    uint64_t n_body;  /* bytes still to come of a part with a length */
    uint8_t part;     /* the next part, by the protocol's own count */
    bool is_error;
    bool is_chunked;
    bool has_length;
    bool has_no_body; /* even if its headers have a length */
    bool is_interim;  /* another reply follows */
    bool is_cut;      /* the line is longer than the stored part */
    uint8_t n_line;
    char line[ANSWER_LINE_BYTES + 1];
};

struct request {
    const struct trace_row *row;
    bool is_last;    /* of its connection */
    uint64_t number; /* chooses the key */
};

struct protocol_options {
    const char *path; /* of http */
    const char *host;
    const char *key_prefix; /* of memcached and resp: keys are PREFIX0 ... */
    int64_t n_keys;
};

struct protocol {
    const char *name;

    /* Write a request into *text*, which holds TRACE_REQUEST_BYTES_MAX, and return its length. */
    size_t (*write_request)(const struct protocol_options *options, const struct request *request,
                            char *text);

    /* Parse the next *n_bytes*, at least one, of the reply to a request of *row*. */
    enum answer (*hear)(struct answer_state *state, const struct trace_row *row, const char *bytes,
                        size_t n_bytes);

    /* The server has closed its side: does that end the reply? */
    enum answer (*hear_close)(const struct answer_state *state);
};

extern const struct protocol micro_protocol;
extern const struct protocol http_1_0_protocol;
extern const struct protocol http_1_1_protocol;
extern const struct protocol memcached_protocol;
extern const struct protocol resp_protocol;

/* The protocol of that name; refuse unknown names. */
const struct protocol *find_protocol(const char *name);

/* Take one byte of a line; true if it was its end, and then *line* has it without its CR LF. */
bool hear_line(struct answer_state *state, char byte);

/* Begin the next line. */
void begin_line(struct answer_state *state);

/* Skip the available bytes of a part with a length; return their number. */
size_t skip_body(struct answer_state *state, size_t n_bytes);

/* The number at *text* in that base, or false if there is none of at most 15 digits before *end*. */
bool parse_length(const char *text, int base, char end, uint64_t *length);

/* A reply that must be complete before the server closes. */
enum answer close_is_early(const struct answer_state *state);

#endif
