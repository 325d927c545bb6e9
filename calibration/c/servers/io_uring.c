#include "io_uring.h"

#include <errno.h>
#include <linux/io_uring.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

enum {
    SUBMISSIONS = 4096, /* at once: what does not fit is submitted earlier */
    BUFFER_GROUP = 0,
    OPERATION_SHIFT = 32, /* of user_data: the operation, above the descriptor */
    A_LITTLE_NS = 10000000,
    NO_FD = -1,
};

static _Atomic uint32_t *number_at(void *rings, uint32_t offset)
{
    return (_Atomic uint32_t *)(void *)((char *)rings + offset);
}

static uint32_t power_of_two_from(size_t least)
{
    uint32_t power = 1;
    while (power < least && power < 1u << 31) {
        power <<= 1;
    }
    return power;
}

static void *map(int fd, size_t bytes, off_t offset)
{
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, offset);
    return memory == MAP_FAILED ? NULL : memory;
}

/* All there: no request is to wait for a page. */
static void *pages(size_t bytes)
{
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    return memory == MAP_FAILED ? NULL : memory;
}

static void unmap(void *memory, size_t bytes)
{
    if (memory != NULL) {
        (void)munmap(memory, bytes);
    }
}

static size_t free_buffers_bytes(void)
{
    return RING_BUFFERS * sizeof(struct io_uring_buf);
}

void ring_close_all(struct ring *ring)
{
    if (ring->fd >= 0) {
        (void)close(ring->fd); /* nothing is left to do with an error here */
    }
    unmap(ring->rings, ring->rings_bytes);
    unmap(ring->submissions, ring->submissions_bytes);
    unmap(ring->free_buffers, free_buffers_bytes());
    unmap(ring->buffers, RING_BUFFERS * sizeof *ring->buffers);
}

/* The kernel takes the buffer of a receive when there is something to receive, so few of them do for
 * many connections that wait. */
static int register_buffers(struct ring *ring)
{
    ring->free_buffers = pages(free_buffers_bytes());
    ring->buffers = pages(RING_BUFFERS * sizeof *ring->buffers);
    if (ring->free_buffers == NULL || ring->buffers == NULL) {
        return -1;
    }
    struct io_uring_buf_reg wanted = {
        .ring_addr = (uint64_t)(uintptr_t)ring->free_buffers,
        .ring_entries = RING_BUFFERS,
        .bgid = BUFFER_GROUP,
    };
    if (syscall(SYS_io_uring_register, ring->fd, IORING_REGISTER_PBUF_RING, &wanted, 1) != 0) {
        return -1;
    }
    for (unsigned i = 0; i < RING_BUFFERS; i++) {
        ring_give_back(ring, (uint16_t)i);
    }
    return 0;
}

static int map_rings(struct ring *ring, const struct io_uring_params *params)
{
    size_t submissions_end = params->sq_off.array + params->sq_entries * sizeof(uint32_t);
    size_t completions_end = params->cq_off.cqes + params->cq_entries * sizeof(struct io_uring_cqe);
    ring->rings_bytes = submissions_end > completions_end ? submissions_end : completions_end;
    ring->rings = map(ring->fd, ring->rings_bytes, IORING_OFF_SQ_RING);
    ring->submissions_bytes = params->sq_entries * sizeof(struct io_uring_sqe);
    ring->submissions = map(ring->fd, ring->submissions_bytes, IORING_OFF_SQES);
    if (ring->rings == NULL || ring->submissions == NULL) {
        return -1;
    }
    ring->n_submissions_max = params->sq_entries;
    ring->n_completions_max = params->cq_entries;
    ring->submission_tail = number_at(ring->rings, params->sq_off.tail);
    ring->completion_head = number_at(ring->rings, params->cq_off.head);
    ring->completion_tail = number_at(ring->rings, params->cq_off.tail);
    ring->completions = (struct io_uring_cqe *)(void *)((char *)ring->rings + params->cq_off.cqes);
    uint32_t *order = (uint32_t *)(void *)((char *)ring->rings + params->sq_off.array);
    for (uint32_t i = 0; i < params->sq_entries; i++) {
        order[i] = i; /* submissions always keep their order */
    }
    return 0;
}

/* A descriptor has one submission under way, which completes once, so the completions of all fit;
 * where there are more descriptors than the kernel lets a ring have (65536), it keeps the rest. */
int ring_open(struct ring *ring, size_t fds_max)
{
    struct io_uring_params params = {
        .flags = IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN | IORING_SETUP_SUBMIT_ALL |
                 IORING_SETUP_CQSIZE | IORING_SETUP_CLAMP,
        .cq_entries = power_of_two_from(fds_max + 2 > SUBMISSIONS ? fds_max + 2 : SUBMISSIONS),
    };
    *ring = (struct ring){.fd = NO_FD};
    ring->fd = (int)syscall(SYS_io_uring_setup, SUBMISSIONS, &params);
    if (ring->fd < 0) {
        return -1;
    }
    if (!(params.features & IORING_FEAT_SINGLE_MMAP) || !(params.features & IORING_FEAT_NODROP)) {
        errno = ENOSYS; /* every kernel with the flags has these */
        return -1;
    }
    return map_rings(ring, &params) != 0 ? -1 : register_buffers(ring);
}

static uint32_t n_waiting(const struct ring *ring)
{
    return ring->n_submitted - ring->n_entered;
}

int ring_make_room(struct ring *ring)
{
    bool fits = n_waiting(ring) + RING_CHAIN_MAX <= ring->n_submissions_max;
    return fits ? 0 : ring_enter(ring, RING_NO_WAIT);
}

static struct io_uring_sqe *submit(struct ring *ring, enum ring_operation operation, int fd)
{
    uint32_t position = ring->n_submitted++ & (ring->n_submissions_max - 1);
    struct io_uring_sqe *submission = &ring->submissions[position];
    memset(submission, 0, sizeof *submission);
    submission->fd = fd;
    submission->user_data = (uint64_t)operation << OPERATION_SHIFT | (uint32_t)fd;
    return submission;
}

/* Armed once for all connections. They must block: a descriptor that does not is never waited for by
 * the kernel. */
void ring_accept(struct ring *ring, int listener_fd)
{
    struct io_uring_sqe *submission = submit(ring, RING_ACCEPT, listener_fd);
    submission->opcode = IORING_OP_ACCEPT;
    submission->ioprio = IORING_ACCEPT_MULTISHOT;
    submission->accept_flags = SOCK_CLOEXEC;
}

void ring_receive(struct ring *ring, int fd)
{
    struct io_uring_sqe *submission = submit(ring, RING_RECEIVE, fd);
    submission->opcode = IORING_OP_RECV;
    submission->flags = IOSQE_BUFFER_SELECT;
    submission->buf_group = BUFFER_GROUP;
    submission->len = RING_BUFFER_BYTES;
}

/* MSG_WAITALL: the kernel goes on by itself where not all of it fits. */
void ring_send(struct ring *ring, int fd, const struct msghdr *message, bool linked)
{
    struct io_uring_sqe *submission = submit(ring, RING_SEND, fd);
    submission->opcode = IORING_OP_SENDMSG;
    submission->flags = linked ? IOSQE_IO_LINK | IOSQE_CQE_SKIP_SUCCESS : 0;
    submission->addr = (uint64_t)(uintptr_t)message;
    submission->len = 1;
    submission->msg_flags = MSG_WAITALL;
}

void ring_close(struct ring *ring, int fd)
{
    struct io_uring_sqe *submission = submit(ring, RING_CLOSE, fd);
    submission->opcode = IORING_OP_CLOSE;
    submission->flags = IOSQE_CQE_SKIP_SUCCESS;
}

static long enter(const struct ring *ring, enum ring_wait wait)
{
    struct __kernel_timespec a_little = {.tv_nsec = A_LITTLE_NS};
    struct io_uring_getevents_arg until = {.ts = (uint64_t)(uintptr_t)&a_little};
    bool bounded = wait == RING_WAIT_A_LITTLE;
    unsigned flags = IORING_ENTER_GETEVENTS | (bounded ? IORING_ENTER_EXT_ARG : 0);
    return syscall(SYS_io_uring_enter, ring->fd, n_waiting(ring), wait == RING_NO_WAIT ? 0 : 1,
                   flags, bounded ? &until : NULL, bounded ? sizeof until : 0);
}

int ring_enter(struct ring *ring, enum ring_wait wait)
{
    atomic_store_explicit(ring->submission_tail, ring->n_submitted, memory_order_release);
    do {
        long n_taken = enter(ring, wait);
        if (n_taken < 0) {
            /* EBUSY: completions that did not fit wait for those that did to be seen. */
            return errno == EINTR || errno == ETIME || errno == EBUSY ? 0 : -1;
        }
        ring->n_entered += (uint32_t)n_taken;
    } while (n_waiting(ring) > 0);
    return 0;
}

bool ring_completed(struct ring *ring, struct ring_completion *completion)
{
    if (ring->n_seen == atomic_load_explicit(ring->completion_tail, memory_order_acquire)) {
        return false;
    }
    const struct io_uring_cqe *found =
        &ring->completions[ring->n_seen & (ring->n_completions_max - 1)];
    *completion = (struct ring_completion){
        .operation = (enum ring_operation)(found->user_data >> OPERATION_SHIFT),
        .fd = (int)(uint32_t)found->user_data,
        .result = found->res,
        .more = (found->flags & IORING_CQE_F_MORE) != 0,
        .buffer = (uint16_t)(found->flags >> IORING_CQE_BUFFER_SHIFT),
    };
    atomic_store_explicit(ring->completion_head, ++ring->n_seen, memory_order_release);
    return true;
}

/* The last field of the ring of buffers lies in its first entry, where the kernel looks for it. */
void ring_give_back(struct ring *ring, uint16_t buffer)
{
    struct io_uring_buf *slot = &ring->free_buffers->bufs[ring->n_given & (RING_BUFFERS - 1)];
    slot->addr = (uint64_t)(uintptr_t)ring->buffers[buffer];
    slot->len = RING_BUFFER_BYTES;
    slot->bid = buffer;
    _Atomic uint16_t *tail = (_Atomic uint16_t *)(void *)&ring->free_buffers->tail;
    atomic_store_explicit(tail, ++ring->n_given, memory_order_release);
}
