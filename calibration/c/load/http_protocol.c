/* HTTP/1.0 and 1.1: status line, headers, and a body by Content-Length, in chunks, or until the
 * server closes; before it, interim answers (100 Continue). Sources: RFC 1945; RFC 9110, 15.2; RFC
 * 9112, sections 4, 5, 6.3 and 7.1.
 */
#include "protocol.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

enum part { STATUS_LINE, HEADERS, BODY, CHUNK_SIZE, CHUNK, CHUNK_END, TRAILER };

static size_t write_request(const struct protocol_options *options, const char *version,
                            const char *connection, char *text)
{
    /* The lengths of path and host are bounded where they are parsed, so all of it fits. */
    int n = snprintf(text, TRACE_REQUEST_BYTES_MAX, "GET %s HTTP/%s\r\nHost: %s\r\n%s\r\n",
                     options->path, version, options->host, connection);
    return (size_t)n;
}

static size_t write_1_0(const struct protocol_options *options, const struct request *request,
                        char *text)
{
    const char *connection = request->is_last ? "" : "Connection: keep-alive\r\n";
    return write_request(options, "1.0", connection, text);
}

static size_t write_1_1(const struct protocol_options *options, const struct request *request,
                        char *text)
{
    const char *connection = request->is_last ? "Connection: close\r\n" : "";
    return write_request(options, "1.1", connection, text);
}

/* HTTP/1.x NNN: its status decides whether there is a body. */
static bool hear_status(struct answer_state *state)
{
    static const char version[] = "HTTP/1.";
    uint64_t status;
    if (strncmp(state->line, version, strlen(version)) != 0 || state->n_line < 12 ||
        state->line[8] != ' ' || !parse_length(state->line + 9, 10, ' ', &status) || status < 100 ||
        status > 599) {
        return false;
    }
    state->is_error = status >= 400;
    state->is_interim = status < 200;
    state->has_no_body = status == 204 || status == 304;
    return true;
}

static const char *value_of(const char *line, const char *name)
{
    size_t n = strlen(name);
    if (strncasecmp(line, name, n) != 0 || line[n] != ':') {
        return NULL;
    }
    const char *value = line + n + 1;
    return value + strspn(value, " \t");
}

static bool hear_header(struct answer_state *state)
{
    const char *length = value_of(state->line, "Content-Length");
    const char *coding = value_of(state->line, "Transfer-Encoding");
    if (length != NULL) {
        state->has_length = true;
        return parse_length(length, 10, ' ', &state->n_body);
    }
    if (coding != NULL) {
        state->is_chunked = true;
        return strcasecmp(coding, "chunked") == 0;
    }
    return true;
}

/* The headers are complete: which part follows, and its length. */
static void end_headers(struct answer_state *state)
{
    if (state->is_interim) {
        *state = (struct answer_state){.part = STATUS_LINE};
        return;
    }
    if (state->has_no_body) {
        state->n_body = 0;
        state->has_length = true;
        state->is_chunked = false;
    }
    state->part = state->is_chunked ? CHUNK_SIZE : BODY;
}

/* Parse a whole line; false if it breaks the protocol. */
static bool hear_whole_line(struct answer_state *state)
{
    bool good = true;
    switch ((enum part)state->part) {
    case STATUS_LINE:
        good = hear_status(state);
        state->part = HEADERS;
        break;
    case HEADERS:
        if (state->n_line == 0) {
            end_headers(state);
        } else {
            good = hear_header(state);
        }
        break;
    case CHUNK_SIZE:
        good = parse_length(state->line, 16, ';', &state->n_body);
        state->part = state->n_body > 0 ? CHUNK : TRAILER;
        break;
    case CHUNK_END:
        good = state->n_line == 0;
        state->part = CHUNK_SIZE;
        break;
    default: /* TRAILER: the empty line is the end, which the caller sees */
        break;
    }
    return good;
}

static bool is_over(const struct answer_state *state, bool ended_trailer)
{
    return ended_trailer || (state->part == BODY && state->has_length && state->n_body == 0);
}

static enum answer hear(struct answer_state *state, const struct trace_row *row, const char *bytes,
                        size_t n_bytes)
{
    (void)row;
    bool ended_trailer = false;
    size_t at = 0;
    while (at < n_bytes && !is_over(state, ended_trailer)) {
        if (state->part == BODY || state->part == CHUNK) {
            bool is_endless = state->part == BODY && !state->has_length;
            at += is_endless ? n_bytes - at : skip_body(state, n_bytes - at);
            if (state->part == CHUNK && state->n_body == 0) {
                state->part = CHUNK_END;
            }
        } else if (hear_line(state, bytes[at++])) {
            ended_trailer = state->part == TRAILER && state->n_line == 0;
            if (!hear_whole_line(state)) {
                return ANSWER_INVALID;
            }
            begin_line(state);
        }
    }
    if (!is_over(state, ended_trailer)) {
        return ANSWER_PARTIAL;
    }
    if (at < n_bytes) {
        return ANSWER_INVALID;
    }
    return state->is_error ? ANSWER_ERROR : ANSWER_COMPLETE;
}

static enum answer hear_close(const struct answer_state *state)
{
    if (state->part != BODY || state->has_length) {
        return ANSWER_PARTIAL;
    }
    return state->is_error ? ANSWER_ERROR : ANSWER_COMPLETE;
}

const struct protocol http_1_0_protocol = {"http/1.0", write_1_0, hear, hear_close};
const struct protocol http_1_1_protocol = {"http/1.1", write_1_1, hear, hear_close};
