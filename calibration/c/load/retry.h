/* When a failed connection is retried: at once, after a pause, or after increasing pauses.
 *
 * Source: Bronson, Aghayev, Charapko and Zhu 2021, "Metastable failures in distributed systems",
 * section 2: immediate retries keep a server overloaded after the cause of the overload is gone.
 */
#ifndef CALIBRATION_RETRY_H
#define CALIBRATION_RETRY_H

#include "records.h"

#include <stdbool.h>
#include <stdint.h>

struct retry_options {
    int64_t n_max;    /* retries of a connection; 0: none */
    int64_t pause_ns; /* before the first retry */
    bool doubles;     /* each further pause is twice as long */
};

/* Is a connection that ended with *status*, the try *number* (0: the first), tried again? */
bool retry_follows(const struct retry_options *options, enum status status, uint32_t number);

/* The pause between the end of the try *number* and the next. */
int64_t retry_pause_ns(const struct retry_options *options, uint32_t number);

#endif
