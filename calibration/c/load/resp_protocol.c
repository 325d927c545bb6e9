/* Redis: GET KEY as an array of bulk strings. Source: Redis serialization protocol (RESP2). */
#include "protocol.h"

#include <stdio.h>
#include <string.h>

enum part { FIRST_LINE, VALUE };

static size_t write_request(const struct protocol_options *options, const struct request *request,
                            char *text)
{
    enum { DIGITS = 24 };
    char number[DIGITS];
    uint64_t key = request->number % (uint64_t)options->n_keys;
    int n_digits = snprintf(number, sizeof number, "%llu", (unsigned long long)key);
    int n = snprintf(text, TRACE_REQUEST_BYTES_MAX, "*2\r\n$3\r\nGET\r\n$%zu\r\n%s%s\r\n",
                     strlen(options->key_prefix) + (size_t)n_digits, options->key_prefix, number);
    return (size_t)n;
}

static enum answer hear(struct answer_state *state, const struct trace_row *row, const char *bytes,
                        size_t n_bytes)
{
    (void)row;
    size_t at = 0;
    enum answer answer = ANSWER_PARTIAL;
    while (at < n_bytes && answer == ANSWER_PARTIAL) {
        if (state->part == VALUE) {
            at += skip_body(state, n_bytes - at);
            answer = state->n_body == 0 ? ANSWER_COMPLETE : ANSWER_PARTIAL;
            continue;
        }
        if (!hear_line(state, bytes[at++])) {
            continue;
        }
        if (state->line[0] == '+' || state->line[0] == ':') {
            answer = ANSWER_COMPLETE;
        } else if (state->line[0] == '-' || strcmp(state->line, "$-1") == 0) {
            answer = ANSWER_ERROR; /* an error reply, or the key does not exist */
        } else if (state->line[0] == '$' && !state->is_cut &&
                   parse_length(state->line + 1, 10, '\0', &state->n_body)) {
            state->n_body += 2;
            state->part = VALUE;
        } else {
            return ANSWER_INVALID;
        }
    }
    return at < n_bytes ? ANSWER_INVALID : answer;
}

const struct protocol resp_protocol = {"resp", write_request, hear, close_is_early};
