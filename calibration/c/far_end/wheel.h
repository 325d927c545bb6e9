/* Timers of connections: lists by millisecond, so that setting and cancelling a timer cost the same
 * for any number of timers.
 *
 * Source: Varghese and Lauck 1987, "Hashed and hierarchical timing wheels", scheme 6.
 */
#ifndef CALIBRATION_WHEEL_H
#define CALIBRATION_WHEEL_H

#include <stdint.h>

enum { WHEEL_NONE = -1, WHEEL_LISTS = 1024 };

struct wheel_entry {
    int64_t due_ms; /* 0: not set */
    int32_t before; /* neighbours in its list */
    int32_t after;
};

struct wheel {
    struct wheel_entry *entries; /* by connection */
    int64_t now_ms; /* all timers until then have ended */
    int32_t first[WHEEL_LISTS];
};

void wheel_prepare(struct wheel *wheel, int64_t n_entries, int64_t now_ms);

/* Set the timer of *index*, which may run, to a time after now; or cancel it. */
void wheel_set(struct wheel *wheel, int32_t index, int64_t due_ms);
void wheel_clear(struct wheel *wheel, int32_t index);

/* A timer that has ended by *now_ms*, removed from the wheel; WHEEL_NONE if none has. */
int32_t wheel_take(struct wheel *wheel, int64_t now_ms);

#endif
