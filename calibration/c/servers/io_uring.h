/* A ring of submissions and one of completions, shared with the kernel: io_uring without a library.
 *
 *   ring_accept, ring_receive, ring_send, ring_close ──► submissions ──ring_enter()──► kernel
 *   ring_completed ◄── completions ◄───────────────────────────────────────────────────┘
 *
 * The kernel works for this ring inside ring_enter and nowhere else (DEFER_TASKRUN): what becomes
 * ready is done by the server's own thread when it asks, and never interrupts its code. So a batch
 * of completions is fixed before it is served, as with every other mechanism here.
 * Sources: io_uring_setup(2), io_uring_enter(2), io_uring_register(2); Linux 6.1, io_uring/.
 */
#ifndef CALIBRATION_IO_URING_H
#define CALIBRATION_IO_URING_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

struct io_uring_sqe;
struct io_uring_cqe;
struct io_uring_buf_ring;

enum {
    RING_BUFFER_BYTES = 4096,
    RING_BUFFERS = 1024, /* what is received and not looked at yet; a power of two */
    RING_CHAIN_MAX = 2, /* submissions that are linked to one another */
};

enum ring_wait { RING_NO_WAIT, RING_WAIT_A_LITTLE /* 10 ms */, RING_WAIT };

enum ring_operation { RING_ACCEPT, RING_RECEIVE, RING_SEND, RING_CLOSE };

struct ring {
    /* -- constant -- */
    int fd;
    void *rings; /* both, as the kernel maps them */
    size_t rings_bytes;
    struct io_uring_sqe *submissions;
    size_t submissions_bytes;
    uint32_t n_submissions_max; /* a power of two, as the next */
    uint32_t n_completions_max;
    _Atomic uint32_t *submission_tail;
    _Atomic uint32_t *completion_head;
    _Atomic uint32_t *completion_tail;
    struct io_uring_cqe *completions;
    struct io_uring_buf_ring *free_buffers;
    char (*buffers)[RING_BUFFER_BYTES];
    /* -- state -- */
    uint32_t n_submitted; /* ever, by position in the ring */
    uint32_t n_entered; /* of these, passed to the kernel */
    uint32_t n_seen; /* completions, ever */
    uint16_t n_given; /* buffers, ever */
};

/* What was done, and of which descriptor. */
struct ring_completion {
    enum ring_operation operation;
    int fd; /* of RING_ACCEPT: the listener */
    int result; /* as the call would return; minus an error */
    bool more; /* the same submission will be completed again */
    uint16_t buffer; /* RING_RECEIVE: where it is, if the result is positive */
};

/* 0, or -1 with errno set; may be closed in both cases. Each descriptor below *fds_max* may have one
 * completion that was not seen, and the listener another one. */
int ring_open(struct ring *ring, size_t fds_max);
void ring_close_all(struct ring *ring);

/* Make room for a chain, submitting entries if necessary. 0, or -1 with errno set. */
int ring_make_room(struct ring *ring);

/* Submit with the next ring_enter. A submission that is *linked* is followed by the next one when it
 * has succeeded, and not done otherwise. Only accept and receive complete when they succeed, and
 * send if it is not linked. */
void ring_accept(struct ring *ring, int listener_fd);
void ring_receive(struct ring *ring, int fd);
void ring_send(struct ring *ring, int fd, const struct msghdr *message, bool linked);
void ring_close(struct ring *ring, int fd);

/* Execute all submissions, and sleep until there is a completion if requested. 0, or -1 with errno
 * set; neither a signal nor the end of a little time is an error. */
int ring_enter(struct ring *ring, enum ring_wait wait);

/* Take the oldest completion; false: there is none. */
bool ring_completed(struct ring *ring, struct ring_completion *completion);

/* Give a buffer back: another receive may fill it. */
void ring_give_back(struct ring *ring, uint16_t buffer);

#endif
