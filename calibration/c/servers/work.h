/* The application's work for a request: user code that keeps the CPU and makes no calls.
 *
 *   read, whole request ──► work_do() ──► write
 *
 * The work is a number of steps, not a time: interrupts and other programs that take the CPU
 * meanwhile make it end later, as in an application. A clock would count their time as work: the
 * monotonic clock all of it, the thread's clock the interrupts (Linux charges them to the
 * interrupted thread, unless CONFIG_IRQ_TIME_ACCOUNTING is set).
 */
#ifndef CALIBRATION_WORK_H
#define CALIBRATION_WORK_H

#include <stdint.h>

struct work {
    uint64_t n_steps; /* of one request */
};

/* Return the work that takes *us* microseconds of this undisturbed CPU. Measures how
 * long a step takes, for some 10 ms, unless *us* is 0. */
struct work work_of(int64_t us);

void work_do(const struct work *work);

#endif
