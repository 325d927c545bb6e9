/* The kernel's memory for connections, interests, signals and threads: bytes for each of many.
 *
 *   reading ── open n ── reading ── open n of the next kind ── reading ...      in a child process
 *              └ delta / n ┘         repeated; all ends with the child
 *
 * Other processes use memory meanwhile. A cache of the slab allocator counts if it grew by half an
 * object an item or more, which others rarely cause. Without /proc/slabinfo all of Slab counts.
 */
#ifndef CALIBRATION_MEMORY_H
#define CALIBRATION_MEMORY_H

#include <stdbool.h>
#include <stdint.h>

enum {
    CACHES_MAX = 512,
    NAME_MAX_BYTES = 40,
    REPETITIONS_MAX = 32,
    REASON_BYTES = 160,
};

enum item {
    ITEM_SOCKET,    /* socket() */
    ITEM_QUEUED,    /* a connection in an accept queue */
    ITEM_ACCEPTED,  /* the part that accept() adds: file, inode, directory entry */
    ITEM_REQUEST,   /* a segment of REQUEST_BYTES in a receive buffer */
    ITEM_REPLY_KIB, /* a KiB in a send buffer */
    ITEM_EPOLL,     /* a descriptor in an epoll set */
    ITEM_ARMED,     /* a descriptor that signals its events */
    ITEM_SIGNAL,    /* a queued signal */
    ITEM_THREAD,    /* a thread that sleeps: stacks, page tables, its kernel structures */
    ITEM_POLL,      /* a descriptor in a poll that sleeps, the caller's array left out */
    ITEM_SELECT,    /* a descriptor in a select that sleeps, the caller's sets left out */
    ITEM_HALF_OPEN, /* a connection whose handshake is not complete */
    ITEM_TIME_WAIT, /* a connection in TIME_WAIT */
    ITEMS
};

enum { REQUEST_BYTES = 64 };

struct cache {
    char name[NAME_MAX_BYTES];
    int64_t n_active;
    double object_bytes; /* its share of a slab */
};

/* Current memory, in bytes. */
struct reading {
    int n_caches; /* 0: /proc/slabinfo cannot be read */
    struct cache caches[CACHES_MAX];
    int64_t slab, kernel_stack, other; /* other: pages of the kernel that nothing else counts */
    int64_t own_resident, own_tables;  /* of this process */
};

/* The result of an item in one repetition, in bytes for each. */
struct found {
    bool asked;
    double bytes;
    double slab;               /* of a thread: the part in caches of the slab allocator */
    char reason[REASON_BYTES]; /* why it was not measured */
};

void take_reading(struct reading *reading);

/* Bytes of all caches that grew by half an object an item or more. */
double grown_slab(const struct reading *before, const struct reading *after, int64_t n);

/* Open n of each item, one kind after the other, and record the memory of each. */
void ask_connections(struct found *found, int64_t n);
void ask_waits(struct found *found, int64_t n);
void ask_half_open(struct found *found, int64_t n);
void ask_time_wait(struct found *found, int64_t n);

#endif
