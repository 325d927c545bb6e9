/* SPDX-License-Identifier: MIT OR GPL-2.0
 *
 * How a process asks for at most one queued signal a descriptor: see signal_per_fd.insert.
 */
#ifndef CALIBRATION_SIGNAL_PER_FD_REQUEST_H
#define CALIBRATION_SIGNAL_PER_FD_REQUEST_H

/* fcntl command; the argument is the number of descriptors. The same value as in the kernel. */
#define F_SIGNAL_PER_FD 1088

#endif
