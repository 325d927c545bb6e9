#include "retry.h"

enum { DOUBLINGS_MAX = 20 /* beyond that no run is long enough */ };

bool retry_follows(const struct retry_options *options, enum status status, uint32_t number)
{
    /* An open connection has not failed, and a lack of descriptors is the client's own fault. */
    bool failed = status == STATUS_TIMEOUT || status == STATUS_REFUSED || status == STATUS_RESET;
    return failed && number < options->n_max;
}

int64_t retry_pause_ns(const struct retry_options *options, uint32_t number)
{
    if (!options->doubles) {
        return options->pause_ns;
    }
    return options->pause_ns << (number < DOUBLINGS_MAX ? number : DOUBLINGS_MAX);
}
