/* One connection in the hands of a thread that sleeps in its calls, and how such a thread begins.
 *
 *   read ─► request ─► write ─► read ... close        a thread of a pool, for itself
 *   begin ─► thread or process ─► the same ─► end     one for each connection
 *
 * Sources: Chandra and Mosberger 2001, "Scalability of Linux event-dispatch mechanisms", section 1;
 * pthread_create(3), fork(2).
 */
#ifndef CALIBRATION_CONNECTION_THREAD_H
#define CALIBRATION_CONNECTION_THREAD_H

#include "counters.h"
#include "reply.h"
#include "work.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum threads { THREADS_POOL, THREADS_ON_DEMAND, THREADS_PROCESSES };

/* A connection needs a buffer and what writes a reply needs; 8 MiB each, the default, would not be
 * kept for the next thread (glibc keeps 40 MiB of stacks). */
enum { THREAD_STACK_BYTES = 65536 };

struct blocking {
    /* -- constant -- */
    enum threads threads;
    size_t workers_max; /* of the pool; or at once, the one that accepts among them */
    size_t fds_max;
    int listener_fd;
    struct work work; /* of a request */
    pthread_attr_t attributes;
    /* -- state, of which threads change what is atomic -- */
    struct counters *counters; /* processes share them */
    atomic_uchar *is_open;     /* by descriptor: a thread has it in hand */
    atomic_size_t n_begun;     /* threads or processes for a connection that have not ended */
    atomic_bool stopping;
    struct reply_pattern pattern;
};

/* Add one to a counter: threads, or processes, count together. */
#define COUNT(server, name)                                                                        \
    ((void)__atomic_fetch_add(&(server)->counters->name, 1, __ATOMIC_RELAXED))

/* Set the attributes of threads: little stack, no signals, and nobody waits for them to end if
 * they begin for a connection. */
void connection_threads_prepare(struct blocking *server);

/* Serve the connection *fd*, which was accepted, until it is over; close it. */
void connection_serve(struct blocking *server, int fd);

/* Begin a thread or a process that serves *fd*; close it if there are too many already. */
void connection_begin(struct blocking *server, int fd);

/* Forget the processes that have ended. */
void connections_reap(struct blocking *server);

#endif
