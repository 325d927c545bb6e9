#include "changes.h"

#include <errno.h>
#include <stdlib.h>

enum { NOWHERE = -1 /* position of a descriptor without a change */ };

int changes_open(struct changes *changes, size_t fds_max)
{
    *changes = (struct changes){
        .fds = calloc(fds_max, sizeof *changes->fds),
        .position = calloc(fds_max, sizeof *changes->position),
    };
    if (changes->fds == NULL || changes->position == NULL) {
        return -1;
    }
    for (size_t fd = 0; fd < fds_max; fd++) {
        changes->position[fd] = NOWHERE;
    }
    return 0;
}

void changes_close(struct changes *changes)
{
    free(changes->fds);
    free(changes->position);
}

void changes_add(struct changes *changes, int fd)
{
    if (changes->position[fd] == NOWHERE) {
        changes->position[fd] = (int)changes->n_fds;
        changes->fds[changes->n_fds++] = fd;
    }
}

void changes_drop(struct changes *changes, int fd)
{
    if (changes->position[fd] == NOWHERE) {
        return;
    }
    int last = changes->fds[--changes->n_fds];
    changes->fds[changes->position[fd]] = last;
    changes->position[last] = changes->position[fd];
    changes->position[fd] = NOWHERE;
}

void changes_clear(struct changes *changes)
{
    while (changes->n_fds > 0) {
        changes->position[changes->fds[--changes->n_fds]] = NOWHERE;
    }
}

int interests_open(struct interests *interests, size_t fds_max)
{
    *interests = (struct interests){
        .fds_max = fds_max,
        .wanted = calloc(fds_max, sizeof *interests->wanted),
        .registered = calloc(fds_max, sizeof *interests->registered),
    };
    if (changes_open(&interests->changes, fds_max) != 0 || interests->wanted == NULL ||
        interests->registered == NULL) {
        return -1;
    }
    return 0;
}

void interests_close(struct interests *interests)
{
    changes_close(&interests->changes);
    free(interests->wanted);
    free(interests->registered);
}

int interests_watch(struct interests *interests, int fd, uint32_t wanted)
{
    if (fd < 0 || (size_t)fd >= interests->fds_max) {
        errno = EBADF;
        return -1;
    }
    if (interests->wanted[fd] != wanted) {
        interests->wanted[fd] = (uint8_t)wanted;
        changes_add(&interests->changes, fd);
    }
    return 0;
}

int interests_unwatch(struct interests *interests, int fd)
{
    if (fd < 0 || (size_t)fd >= interests->fds_max || interests->wanted[fd] == 0) {
        errno = EBADF;
        return -1;
    }
    bool registered = interests->registered[fd];
    interests->wanted[fd] = 0;
    interests->registered[fd] = false;
    changes_drop(&interests->changes, fd);
    return registered ? 1 : 0;
}
