/* Readiness by queued signals: the common part of the mechanisms that read the queue.
 *
 *   fcntl: F_SETSIG, F_SETOWN, O_ASYNC ──► event on fd ──► queue of signals ──► taken ──► readiness
 *                                                          │ full: the event is lost
 *                                                          └─► SIGIO ──► flush, poll all
 *
 * The signal is blocked and only ever taken from the queue, lowest number first: SIGIO overtakes
 * what is queued. A signal may be older than the descriptor it names; it then marks a descriptor
 * ready that is not, which costs one call that would block.
 * Sources: Chandra, Mosberger 2001, "Scalability of Linux event-dispatch mechanisms", sections 3.4
 * and 4.2; Linux 6.1, fs/fcntl.c, send_sigio_to_task().
 */
#ifndef CALIBRATION_SIGNAL_QUEUE_H
#define CALIBRATION_SIGNAL_QUEUE_H

#include "readiness.h"

#include <signal.h>
#include <sys/types.h>

struct signal_queue {
    struct readiness readiness;
    struct counters *counters;
    pid_t owner;        /* this process */
    int signal_number;  /* of all descriptors: the queue is in order of arrival */
    bool coalesced;     /* a signal stands for all that happened to its descriptor */
    sigset_t awaited;   /* the signal and SIGIO */
    struct pollfd *fds; /* what recovery polls */
};

/* 0, or -1 with errno set; may be closed in both cases. */
int signal_queue_open(struct signal_queue *queue, size_t fds_max);
void signal_queue_close(struct signal_queue *queue);

/* The functions of a mechanism whose state begins with its struct signal_queue. */
int signal_queue_watch(void *opaque, int fd, uint32_t interest);
int signal_queue_unwatch(void *opaque, int fd);
void signal_queue_blocked(void *opaque, int fd, uint32_t interest);
void signal_queue_count_into(void *opaque, struct counters *counters);

/* One signal was taken from the queue. Return whether it reports that others were lost. */
bool signal_queue_heard(struct signal_queue *queue, int signal_number, int fd, long band);

/* Discard what is queued and ask each descriptor for its state. 0, or -1 with errno set. */
int signal_queue_recover(struct signal_queue *queue);

#endif
