/* A server's record of its descriptors, for kernels that report changes and not states.
 *
 *   kernel: fd became ready ──► mark ──► pending, in order of arrival ──► take ──► events
 *   server: fd would block  ──► blocked: not pending until the kernel reports it again
 *
 * The kernel reports a change once. So a descriptor stays pending until a call on it would have
 * blocked, and each wait returns it until then: no report is lost, whether the server accepts one
 * connection an event or all.
 * Source: Gammo, Brecht, Shukla, Pariag 2004, section 3.2 (edge-triggered epoll).
 */
#ifndef CALIBRATION_READINESS_H
#define CALIBRATION_READINESS_H

#include "mechanism.h"

#include <stdbool.h>

struct readiness {
    size_t fds_max;
    size_t fds_end;    /* no watched descriptor is as high */
    bool ask_first;    /* the kernel's turn: what is pending was given out in the last wait */
    uint8_t *interest; /* of each descriptor, 0 if not watched */
    uint8_t *ready;
    bool *listed;
    int *next; /* the list of pending descriptors; may hold some that are no longer pending */
    int first;
    int last;
    size_t n_listed;
};

/* How a mechanism asks the kernel and marks the reported descriptors; -1 with errno on failure. */
typedef int readiness_ask(void *state, bool block, size_t events_max);

/* 0, or -1 with errno set if out of memory; may be closed in both cases. */
int readiness_open(struct readiness *readiness, size_t fds_max);
void readiness_close(struct readiness *readiness);

bool readiness_accepts(const struct readiness *readiness, int fd);
bool readiness_watches(const struct readiness *readiness, int fd);

/* Set the interest; a descriptor not yet watched is taken to be ready for *at_first*. */
void readiness_watch(struct readiness *readiness, int fd, uint32_t interest, uint32_t at_first);
void readiness_unwatch(struct readiness *readiness, int fd);

/* The kernel reports that *fd* is ready. Return whether that is of interest now. */
bool readiness_mark(struct readiness *readiness, int fd, uint32_t ready);
void readiness_blocked(struct readiness *readiness, int fd, uint32_t interest);

/* The wait of a mechanism: return pending descriptors, but ask the kernel at least every second
 * time, so that a descriptor that never blocks cannot hide the others. */
int readiness_wait(struct readiness *readiness, readiness_ask *ask, void *state,
                   struct event *events, size_t events_max);

#endif
