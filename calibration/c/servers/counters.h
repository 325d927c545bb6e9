/* What the server has done so far, readable by others while it runs.
 *
 * One list gives the layout of the file and the names, so that they cannot diverge. The listener
 * is not a connection: it counts in `events`, but in none of watches, unwatches and closes.
 */
#ifndef CALIBRATION_COUNTERS_H
#define CALIBRATION_COUNTERS_H

#include <stdint.h>

#define COUNTERS(COUNTER)                                                                          \
    COUNTER(waits)            /* calls that asked for events */                                    \
    COUNTER(events)           /* what they returned, the listener's included */                    \
    COUNTER(accepts)          /* accept4 calls that brought a connection */                        \
    COUNTER(accept_again)     /* accept4 calls that found none */                                  \
    COUNTER(accept_no_fd)     /* accept4 calls refused for want of descriptors or memory */        \
    COUNTER(reads)            /* read calls that brought bytes, the end or an error */             \
    COUNTER(read_again)       /* read calls that found nothing */                                  \
    COUNTER(writes)           /* write calls, all of them */                                       \
    COUNTER(write_short)      /* of these: took less than was left, or nothing */                  \
    COUNTER(watches)          /* connections watched */                                            \
    COUNTER(rewatches)        /* changes of interest between reading and writing */                \
    COUNTER(unwatches)        /* connections no longer watched */                                  \
    COUNTER(closes)           /* connections closed */                                             \
    COUNTER(replies)          /* replies written to the last byte */                               \
    COUNTER(connections_open) /* accepted and not yet closed: a level, not a count */              \
    /* Counted by some mechanisms, 0 in the others: */                                             \
    COUNTER(asks)             /* system calls that asked for notices; aio_poll: for events */      \
    COUNTER(notices)          /* what they brought: signals, or epoll's events */                  \
    COUNTER(notices_unwanted) /* of these: of a closed descriptor, or of no interest */            \
    COUNTER(overflows)        /* times that signals were lost and all was polled */                \
    COUNTER(updates)          /* epoll_ctlv, dev_poll, aio_poll: calls that set interest */        \
    COUNTER(spawns)           /* blocking: threads or processes begun for a connection */          \
    COUNTER(spawn_again)      /* blocking: connections closed as there were too many */

struct counters {
#define COUNTER_FIELD(name) uint64_t name;
    COUNTERS(COUNTER_FIELD)
#undef COUNTER_FIELD
};

void counters_print_layout(void);

/* Map *path* (created, all zero), or anonymous memory if it is NULL. */
struct counters *counters_map(const char *path);

#endif
