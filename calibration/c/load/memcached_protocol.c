/* memcached's text protocol: `get KEY`, and its value or none. Source: doc/protocol.txt. */
#include "protocol.h"

#include <stdio.h>
#include <string.h>

enum part { FIRST_LINE, VALUE, LAST_LINE };

static size_t write_request(const struct protocol_options *options, const struct request *request,
                            char *text)
{
    uint64_t key = request->number % (uint64_t)options->n_keys;
    int n = snprintf(text, TRACE_REQUEST_BYTES_MAX, "get %s%llu\r\n", options->key_prefix,
                     (unsigned long long)key);
    return (size_t)n;
}

/* `VALUE KEY FLAGS BYTES`: the number of bytes that follow, including the line end. */
static bool hear_value(struct answer_state *state)
{
    const char *length = strrchr(state->line, ' ');
    if (strncmp(state->line, "VALUE ", 6) != 0 || length == NULL || state->is_cut ||
        !parse_length(length + 1, 10, '\0', &state->n_body)) {
        return false;
    }
    state->n_body += 2;
    state->part = VALUE;
    return true;
}

static bool is_error(const char *line)
{
    return strcmp(line, "ERROR") == 0 || strncmp(line, "CLIENT_ERROR", 12) == 0 ||
           strncmp(line, "SERVER_ERROR", 12) == 0;
}

static enum answer hear(struct answer_state *state, const struct trace_row *row, const char *bytes,
                        size_t n_bytes)
{
    (void)row;
    size_t at = 0;
    while (at < n_bytes) {
        if (state->part == VALUE) {
            at += skip_body(state, n_bytes - at);
            state->part = state->n_body == 0 ? LAST_LINE : VALUE;
            continue;
        }
        if (!hear_line(state, bytes[at++])) {
            continue;
        }
        bool is_end = strcmp(state->line, "END") == 0;
        if (is_end || is_error(state->line)) {
            if (at < n_bytes) {
                return ANSWER_INVALID;
            }
            /* END without a value: the key does not exist. */
            return is_end && state->part == LAST_LINE ? ANSWER_COMPLETE : ANSWER_ERROR;
        }
        if (state->part != FIRST_LINE || !hear_value(state)) {
            return ANSWER_INVALID;
        }
        begin_line(state);
    }
    return ANSWER_PARTIAL;
}

const struct protocol memcached_protocol = {"memcached", write_request, hear, close_is_early};
