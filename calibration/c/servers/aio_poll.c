/* Polls through Linux AIO: each for one event, all of a loop's submitted by one call.
 *
 *   changes ──io_submit() before the wait──► armed ──event──► ring in own memory ──► events
 *      ▲                                              └─ empty: io_getevents(), which blocks
 *      └── returned, and still watched
 *
 * A poll is over with its event, so what is returned has to be watched again; the listener, which
 * the server watches once and for all, is submitted again here. The kernel maps its ring into the
 * process: what is in it is read without a call, where its layout is the known one.
 * Source: io_submit(2), IOCB_CMD_POLL; Linux 6.1, fs/aio.c, aio_poll(), aio_poll_wake().
 */
#include "changes.h"
#include "counters.h"
#include "mechanism.h"

#include <errno.h>
#include <linux/aio_abi.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define AIO_RING_MAGIC 0xa10a10a1u

enum { GENERATION_SHIFT = 32 };

/* What the kernel maps at the address that is the context (fs/aio.c, struct aio_ring). */
struct aio_ring {
    uint32_t id;
    uint32_t n_slots;
    _Atomic uint32_t head; /* the reader's */
    _Atomic uint32_t tail; /* the kernel's */
    uint32_t magic;
    uint32_t compatible_features;
    uint32_t incompatible_features;
    uint32_t header_bytes;
    struct io_event slots[];
};

struct aio_poll_state {
    size_t fds_max;
    struct counters *counters;
    aio_context_t context;
    struct aio_ring *ring;   /* NULL: it cannot be read without a call */
    uint8_t *interest;       /* of each descriptor, 0 if not watched */
    bool *armed;             /* has the kernel a poll of it? */
    uint32_t *generation;    /* of each descriptor's polls: marks those that were cancelled */
    struct changes changes;
    int listener_fd;         /* what was watched first */
    struct iocb *polls;      /* by descriptor */
    struct iocb **submitted;
    struct io_event *called; /* what io_getevents fills */
};

enum { NO_FD = -1 };

static int io_setup(size_t n_events, aio_context_t *context)
{
    return (int)syscall(SYS_io_setup, (unsigned)n_events, context);
}

static void aio_poll_close(void *opaque)
{
    struct aio_poll_state *state = opaque;
    if (state->context != 0) {
        (void)syscall(SYS_io_destroy,
                      state->context); /* nothing is left to do with an error here */
    }
    changes_close(&state->changes);
    free(state->interest);
    free(state->armed);
    free(state->generation);
    free(state->polls);
    free(state->submitted);
    free(state->called);
    free(state);
}

/* The ring that is mapped at *context*, NULL if this is not the layout that is known here. */
static struct aio_ring *readable_ring(aio_context_t context)
{
    struct aio_ring *ring = (struct aio_ring *)context;
    bool known = ring->magic == AIO_RING_MAGIC && ring->incompatible_features == 0 &&
                 ring->header_bytes == sizeof *ring;
    return known ? ring : NULL;
}

/* No descriptor has more than one poll, so the ring, which the kernel makes twice as large, holds
 * all events there can be. */
static void *aio_poll_open(size_t fds_max)
{
    struct aio_poll_state *state = calloc(1, sizeof *state);
    if (state == NULL) {
        return NULL;
    }
    *state = (struct aio_poll_state){
        .fds_max = fds_max,
        .interest = calloc(fds_max, sizeof *state->interest),
        .armed = calloc(fds_max, sizeof *state->armed),
        .generation = calloc(fds_max, sizeof *state->generation),
        .listener_fd = NO_FD,
        .polls = calloc(fds_max, sizeof *state->polls),
        .submitted = calloc(fds_max, sizeof(struct iocb *)),
        .called = calloc(fds_max, sizeof *state->called),
    };
    bool allocated = changes_open(&state->changes, fds_max) == 0 && state->interest &&
                     state->armed && state->generation && state->polls && state->submitted &&
                     state->called;
    if (!allocated || io_setup(fds_max, &state->context) != 0) {
        int error = errno;
        aio_poll_close(state);
        errno = error;
        return NULL;
    }
    state->ring = readable_ring(state->context);
    return state;
}

static int aio_poll_watch(void *opaque, int fd, uint32_t interest)
{
    struct aio_poll_state *state = opaque;
    if (fd < 0 || (size_t)fd >= state->fds_max) {
        errno = EBADF;
        return -1;
    }
    if (state->armed[fd]) {
        errno = EBUSY; /* a poll cannot be changed */
        return -1;
    }
    if (state->listener_fd == NO_FD) {
        state->listener_fd = fd;
    }
    state->interest[fd] = (uint8_t)interest;
    changes_add(&state->changes, fd);
    return 0;
}

/* A descriptor whose event was returned has no poll: no call is needed. A server that stops closes
 * what is armed, too. */
static int aio_poll_unwatch(void *opaque, int fd)
{
    struct aio_poll_state *state = opaque;
    if (fd < 0 || (size_t)fd >= state->fds_max || state->interest[fd] == 0) {
        errno = EBADF;
        return -1;
    }
    state->interest[fd] = 0;
    changes_drop(&state->changes, fd);
    if (fd == state->listener_fd) {
        state->listener_fd = NO_FD;
    }
    if (!state->armed[fd]) {
        return 0;
    }
    struct io_event result;
    state->armed[fd] = false;
    state->generation[fd]++;
    long cancelled = syscall(SYS_io_cancel, state->context, &state->polls[fd], &result);
    /* It ends by an event that is ignored; or it has had its event already. */
    return cancelled == 0 || errno == EINPROGRESS || errno == EINVAL ? 0 : -1;
}

static int submit_polls(struct aio_poll_state *state)
{
    size_t n_polls = state->changes.n_fds;
    for (size_t i = 0; i < n_polls; i++) {
        int fd = state->changes.fds[i];
        uint32_t read = (state->interest[fd] & INTEREST_READ) ? POLLIN : 0;
        uint32_t write = (state->interest[fd] & INTEREST_WRITE) ? POLLOUT : 0;
        state->polls[fd] = (struct iocb){
            .aio_data = (uint64_t)state->generation[fd] << GENERATION_SHIFT | (uint32_t)fd,
            .aio_lio_opcode = IOCB_CMD_POLL,
            .aio_fildes = (uint32_t)fd,
            .aio_buf = read | write,
        };
        state->submitted[i] = &state->polls[fd];
        state->armed[fd] = true;
    }
    changes_clear(&state->changes);
    for (size_t n_done = 0; n_done < n_polls;) {
        state->counters->updates++;
        long n = syscall(SYS_io_submit, state->context, (long)(n_polls - n_done),
                         state->submitted + n_done);
        if (n < 0) {
            return -1;
        }
        n_done += (size_t)n;
    }
    return 0;
}

/* Return whether the completion `told` is an event for the server; it is then in *event*. */
static bool take(struct aio_poll_state *state, const struct io_event *told, struct event *event)
{
    int fd = (int)(uint32_t)told->data;
    if (!state->armed[fd] || state->generation[fd] != told->data >> GENERATION_SHIFT) {
        return false; /* of a poll that was cancelled */
    }
    state->armed[fd] = false;
    bool broken = told->res < 0 || (told->res & (POLLERR | POLLHUP));
    uint32_t read = (broken || (told->res & POLLIN)) ? INTEREST_READ : 0;
    uint32_t write = (broken || (told->res & POLLOUT)) ? INTEREST_WRITE : 0;
    *event = (struct event){.fd = fd, .ready = read | write};
    return true;
}

static int harvest(struct aio_poll_state *state, struct event *events, size_t events_max)
{
    struct aio_ring *ring = state->ring;
    uint32_t head = atomic_load_explicit(&ring->head, memory_order_relaxed);
    uint32_t tail = atomic_load_explicit(&ring->tail, memory_order_acquire);
    size_t n_events = 0;
    while (head != tail && n_events < events_max) {
        n_events += take(state, &ring->slots[head], &events[n_events]);
        head = head + 1 < ring->n_slots ? head + 1 : 0;
    }
    atomic_store_explicit(&ring->head, head, memory_order_release);
    return (int)n_events;
}

static int call(struct aio_poll_state *state, struct event *events, size_t events_max)
{
    size_t bound = events_max < state->fds_max ? events_max : state->fds_max;
    state->counters->asks++;
    long n_called = syscall(SYS_io_getevents, state->context, 1L, (long)bound, state->called, NULL);
    if (n_called < 0) {
        return errno == EINTR ? 0 : -1;
    }
    int n_events = 0;
    for (long i = 0; i < n_called; i++) {
        n_events += take(state, &state->called[i], &events[n_events]);
    }
    return n_events;
}

static int aio_poll_wait(void *opaque, struct event *events, size_t events_max)
{
    struct aio_poll_state *state = opaque;
    int listener_fd = state->listener_fd;
    if (listener_fd != NO_FD && !state->armed[listener_fd]) {
        changes_add(&state->changes, listener_fd);
    }
    if (state->changes.n_fds > 0 && submit_polls(state) != 0) {
        return -1;
    }
    int n_events = state->ring != NULL ? harvest(state, events, events_max) : 0;
    return n_events > 0 ? n_events : call(state, events, events_max);
}

static void aio_poll_count_into(void *opaque, struct counters *counters)
{
    struct aio_poll_state *state = opaque;
    state->counters = counters;
}

const struct mechanism aio_poll = {
    .name = "aio_poll",
    .events_bounded = true,
    .one_shot = true,
    .open = aio_poll_open,
    .watch = aio_poll_watch,
    .unwatch = aio_poll_unwatch,
    .wait = aio_poll_wait,
    .close = aio_poll_close,
    .count_into = aio_poll_count_into,
};
