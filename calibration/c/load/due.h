/* Due times: a binary heap of users, of pauses between requests and before retries. */
#ifndef CALIBRATION_DUE_H
#define CALIBRATION_DUE_H

#include <stddef.h>
#include <stdint.h>

#define DUE_USER (-1)  /* fd of an entry that is a user's turn, not a pause of a connection */
#define DUE_RETRY (-2) /* the record's connection has failed and is tried again */
#define DUE_AGAIN (-3) /* a kept connection is reopened: the record is its user's number */

struct due {
    int64_t due_ns;
    int64_t sequence; /* equal times fall due in the order they were added */
    int64_t record;   /* the connection that pauses: a descriptor alone may have been reused */
    int fd;
};

struct due_heap {
    struct due *entries;
    size_t n;
    size_t n_room;
    int64_t n_added;
};

void due_add(struct due_heap *heap, int64_t due_ns, int fd, int64_t record);

/* The heap must not be empty: its first entry is entries[0]. */
struct due due_take(struct due_heap *heap);

#endif
