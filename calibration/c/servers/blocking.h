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

#include "service.h"

extern const struct service blocking_service;

#endif
