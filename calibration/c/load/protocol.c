#include "protocol.h"

#include "../servers/program.h"

#include <string.h>

static const struct protocol *const protocols[] = {
    &micro_protocol, &http_1_0_protocol, &http_1_1_protocol, &memcached_protocol, &resp_protocol,
};

const struct protocol *find_protocol(const char *name)
{
    for (size_t i = 0; i < sizeof protocols / sizeof *protocols; i++) {
        if (strcmp(protocols[i]->name, name) == 0) {
            return protocols[i];
        }
    }
    refuse("--protocol must be micro, http/1.0, http/1.1, memcached or resp, got \"%s\"", name);
}

bool hear_line(struct answer_state *state, char byte)
{
    if (byte == '\n') {
        if (state->n_line > 0 && state->line[state->n_line - 1] == '\r') {
            state->n_line--;
        }
        state->line[state->n_line] = '\0';
        return true;
    }
    if (state->n_line < ANSWER_LINE_BYTES) {
        state->line[state->n_line++] = byte;
    } else {
        state->is_cut = true;
    }
    return false;
}

void begin_line(struct answer_state *state)
{
    state->n_line = 0;
    state->is_cut = false;
}

size_t skip_body(struct answer_state *state, size_t n_bytes)
{
    size_t n_skipped = n_bytes < state->n_body ? n_bytes : (size_t)state->n_body;
    state->n_body -= n_skipped;
    return n_skipped;
}

static int digit_of(char character)
{
    if (character >= '0' && character <= '9') {
        return character - '0';
    }
    char lower = (char)(character | 0x20);
    return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : 16;
}

bool parse_length(const char *text, int base, char end, uint64_t *length)
{
    enum { DIGITS_MAX = 15 };
    *length = 0;
    int n_digits = 0;
    for (; n_digits <= DIGITS_MAX && digit_of(text[n_digits]) < base; n_digits++) {
        *length = *length * (uint64_t)base + (uint64_t)digit_of(text[n_digits]);
    }
    char next = text[n_digits];
    return n_digits > 0 && n_digits <= DIGITS_MAX && (next == '\0' || next == end);
}

enum answer close_is_early(const struct answer_state *state)
{
    (void)state;
    return ANSWER_PARTIAL;
}
