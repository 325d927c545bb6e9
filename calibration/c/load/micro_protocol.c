/* Our own server: the request states the length of the reply. */
#include "protocol.h"

#include "request_text.h"

#include <string.h>

static size_t write_request(const struct protocol_options *options, const struct request *request,
                            char *text)
{
    (void)options;
    const struct trace_row *row = request->row;
    request_text(text, row->request_bytes, row->reply_bytes, !request->is_last);
    return row->request_bytes;
}

static enum answer hear(struct answer_state *state, const struct trace_row *row, const char *bytes,
                        size_t n_bytes)
{
    static const char version[] = "HTTP/1.";
    if (n_bytes > row->reply_bytes - state->n_received) {
        return ANSWER_INVALID;
    }
    for (size_t i = 0; i < n_bytes && state->n_received + i < strlen(version); i++) {
        if (bytes[i] != version[state->n_received + i]) {
            return ANSWER_INVALID;
        }
    }
    state->n_received += n_bytes;
    return state->n_received == row->reply_bytes ? ANSWER_COMPLETE : ANSWER_PARTIAL;
}

const struct protocol micro_protocol = {"micro", write_request, hear, close_is_early};
