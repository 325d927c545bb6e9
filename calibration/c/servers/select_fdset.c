/* select: the server keeps bitmaps, the kernel looks at every descriptor below the highest.
 *
 *   watched ──copy──► asked ──select()──► ready ──scan by words──► events, by descriptor
 *
 * The raw system call with bitmaps of our own size: glibc's fd_set ends at 1024 descriptors, the
 * kernel's does not.
 * Source: Linux 6.8, fs/select.c, core_sys_select().
 */
#include "mechanism.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

typedef unsigned long word; /* the kernel's fd_set is an array of these */
enum { WORD_BITS = sizeof(word) * CHAR_BIT };

struct select_state {
    size_t fds_max;
    int fd_max;       /* highest watched descriptor, -1 if none */
    word *read;       /* watched for reading */
    word *write;      /* watched for writing */
    word *read_ready; /* what the kernel made of the copies */
    word *write_ready;
};

static size_t words_for(size_t n_fds)
{
    return (n_fds + WORD_BITS - 1) / WORD_BITS;
}

static word bit_of(int fd)
{
    return (word)1 << ((size_t)fd % WORD_BITS);
}

static void select_close(void *opaque);

static void *select_open(size_t fds_max)
{
    struct select_state *state = calloc(1, sizeof *state);
    if (state == NULL) {
        return NULL;
    }
    size_t n_words = words_for(fds_max);
    *state = (struct select_state){
        .fds_max = fds_max,
        .fd_max = -1,
        .read = calloc(n_words, sizeof(word)),
        .write = calloc(n_words, sizeof(word)),
        .read_ready = calloc(n_words, sizeof(word)),
        .write_ready = calloc(n_words, sizeof(word)),
    };
    if (!state->read || !state->write || !state->read_ready || !state->write_ready) {
        select_close(state);
        return NULL;
    }
    return state;
}

static int select_watch(void *opaque, int fd, uint32_t interest)
{
    struct select_state *state = opaque;
    if (fd < 0 || (size_t)fd >= state->fds_max) {
        errno = EBADF;
        return -1;
    }
    size_t index = (size_t)fd / WORD_BITS;
    word bit = bit_of(fd);
    state->read[index] =
        (interest & INTEREST_READ) ? state->read[index] | bit : state->read[index] & ~bit;
    state->write[index] =
        (interest & INTEREST_WRITE) ? state->write[index] | bit : state->write[index] & ~bit;
    if (fd > state->fd_max) {
        state->fd_max = fd;
    }
    return 0;
}

static int select_unwatch(void *opaque, int fd)
{
    struct select_state *state = opaque;
    if (fd < 0 || (size_t)fd >= state->fds_max) {
        errno = EBADF;
        return -1;
    }
    state->read[(size_t)fd / WORD_BITS] &= ~bit_of(fd);
    state->write[(size_t)fd / WORD_BITS] &= ~bit_of(fd);
    while (state->fd_max >= 0) {
        size_t index = (size_t)state->fd_max / WORD_BITS;
        if ((state->read[index] | state->write[index]) & bit_of(state->fd_max)) {
            break;
        }
        state->fd_max--;
    }
    return 0;
}

static int select_wait(void *opaque, struct event *events, size_t events_max)
{
    struct select_state *state = opaque;
    size_t n_words = words_for((size_t)state->fd_max + 1);
    memcpy(state->read_ready, state->read, n_words * sizeof(word));
    memcpy(state->write_ready, state->write, n_words * sizeof(word));
    long n_ready =
        syscall(SYS_select, state->fd_max + 1, state->read_ready, state->write_ready, NULL, NULL);
    if (n_ready < 0) {
        return errno == EINTR ? 0 : -1;
    }
    int n_events = 0;
    for (size_t index = 0; index < n_words && n_ready > 0; index++) {
        word bits = state->read_ready[index] | state->write_ready[index];
        for (; bits != 0 && (size_t)n_events < events_max; bits &= bits - 1) {
            word bit = bits & (~bits + 1);
            uint32_t read = (state->read_ready[index] & bit) ? INTEREST_READ : 0;
            uint32_t write = (state->write_ready[index] & bit) ? INTEREST_WRITE : 0;
            n_ready -= (read != 0) + (write != 0);
            events[n_events++] = (struct event){
                .fd = (int)(index * WORD_BITS) + __builtin_ctzl(bits),
                .ready = read | write,
            };
        }
    }
    return n_events;
}

static void select_close(void *opaque)
{
    struct select_state *state = opaque;
    free(state->read);
    free(state->write);
    free(state->read_ready);
    free(state->write_ready);
    free(state);
}

const struct mechanism select_fdset = {
    .name = "select",
    .events_bounded = false,
    .open = select_open,
    .watch = select_watch,
    .unwatch = select_unwatch,
    .wait = select_wait,
    .close = select_close,
};
