#include "changes.h"

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
