/* Changes of interest that the kernel has not been told yet, at most one a descriptor.
 *
 *   watch ──► list of descriptors, in order of their first change ──before the wait──► one call
 */
#ifndef CALIBRATION_CHANGES_H
#define CALIBRATION_CHANGES_H

#include <stdbool.h>
#include <stddef.h>

struct changes {
    size_t n_fds;
    int *fds;
    int *position; /* of each descriptor in fds */
};

/* 0, or -1 with errno set if out of memory; may be closed in both cases. */
int changes_open(struct changes *changes, size_t fds_max);
void changes_close(struct changes *changes);

void changes_add(struct changes *changes, int fd);

/* Forget the change of *fd*, if there is one: it will not be told. */
void changes_drop(struct changes *changes, int fd);

/* All have been told. */
void changes_clear(struct changes *changes);

#endif
