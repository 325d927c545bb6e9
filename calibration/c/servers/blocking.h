/* The micro web server without a mechanism: threads that sleep in accept, read and write.
 *
 *   pool        accept4 ─► read ─► write ─► close ─┐ each thread for itself
 *                  ▲───────────────────────────────┘
 *   on demand   accept4 ─► begin a thread, or a process ─► accept4 ...
 *
 * Its model is ../../models/thread_per_connection.py.
 */
#ifndef CALIBRATION_BLOCKING_H
#define CALIBRATION_BLOCKING_H

#include "connection_thread.h"

/* The name of this server among the mechanisms. */
extern const char blocking_name[];

/* Find out which threads *word* means: pool, on-demand or processes. */
bool blocking_threads(const char *word, enum threads *threads);

/* Serve until a stop is requested, then close every connection and end every thread. */
void blocking_serve(struct blocking *server);

#endif
