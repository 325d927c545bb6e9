/* Changes of interest that the kernel has not received yet, at most one a descriptor.
 *
 *   watch ──► list of descriptors, in order of their first change ──before the wait──► one call
 */
#ifndef CALIBRATION_CHANGES_H
#define CALIBRATION_CHANGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct changes {
    size_t n_fds;
    int *fds;
    int *position; /* of each descriptor in fds */
};

/* 0, or -1 with errno set if out of memory; may be closed in both cases. */
int changes_open(struct changes *changes, size_t fds_max);
void changes_close(struct changes *changes);

void changes_add(struct changes *changes, int fd);

/* Forget the change of *fd*, if there is one: it will not reach the kernel. */
void changes_drop(struct changes *changes, int fd);

/* The kernel has received all changes. */
void changes_clear(struct changes *changes);

/* A server's interests, in mechanisms that pass all changes to the kernel before a wait. */
struct interests {
    size_t fds_max;
    uint8_t *wanted;  /* of each descriptor, 0 if not watched */
    bool *registered; /* is it known to the kernel? */
    struct changes changes;
};

/* 0, or -1 with errno set if out of memory; may be closed in both cases. */
int interests_open(struct interests *interests, size_t fds_max);
void interests_close(struct interests *interests);

/* 0, or -1 with errno set to EBADF. */
int interests_watch(struct interests *interests, int fd, uint32_t wanted);

/* Whether the kernel needs the change, 0 or 1; or -1 with errno set to EBADF. */
int interests_unwatch(struct interests *interests, int fd);

#endif
