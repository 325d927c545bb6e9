#include "readiness.h"

#include <errno.h>
#include <stdlib.h>

enum { NONE = -1 /* the end of the list */ };

int readiness_open(struct readiness *readiness, size_t fds_max)
{
    *readiness = (struct readiness){
        .fds_max = fds_max,
        .interest = calloc(fds_max, sizeof *readiness->interest),
        .ready = calloc(fds_max, sizeof *readiness->ready),
        .listed = calloc(fds_max, sizeof *readiness->listed),
        .next = calloc(fds_max, sizeof *readiness->next),
        .first = NONE,
        .last = NONE,
    };
    bool complete = readiness->interest && readiness->ready && readiness->listed && readiness->next;
    return complete ? 0 : -1;
}

void readiness_close(struct readiness *readiness)
{
    free(readiness->interest);
    free(readiness->ready);
    free(readiness->listed);
    free(readiness->next);
}

bool readiness_accepts(const struct readiness *readiness, int fd)
{
    return fd >= 0 && (size_t)fd < readiness->fds_max;
}

bool readiness_watches(const struct readiness *readiness, int fd)
{
    return readiness_accepts(readiness, fd) && readiness->interest[fd] != 0;
}

static void append(struct readiness *readiness, int fd)
{
    if (readiness->listed[fd]) {
        return;
    }
    readiness->listed[fd] = true;
    readiness->next[fd] = NONE;
    if (readiness->last == NONE) {
        readiness->first = fd;
    } else {
        readiness->next[readiness->last] = fd;
    }
    readiness->last = fd;
    readiness->n_listed++;
}

static int remove_first(struct readiness *readiness)
{
    int fd = readiness->first;
    readiness->first = readiness->next[fd];
    if (readiness->first == NONE) {
        readiness->last = NONE;
    }
    readiness->listed[fd] = false;
    readiness->n_listed--;
    return fd;
}

void readiness_watch(struct readiness *readiness, int fd, uint32_t interest, uint32_t at_first)
{
    if (readiness->interest[fd] == 0) {
        readiness->ready[fd] = (uint8_t)at_first;
    }
    readiness->interest[fd] = (uint8_t)interest;
    if ((size_t)fd >= readiness->fds_end) {
        readiness->fds_end = (size_t)fd + 1;
    }
    if (readiness->ready[fd] & interest) {
        append(readiness, fd);
    }
}

void readiness_unwatch(struct readiness *readiness, int fd)
{
    readiness->interest[fd] = 0;
    readiness->ready[fd] = 0;
}

bool readiness_mark(struct readiness *readiness, int fd, uint32_t ready)
{
    if (!readiness_watches(readiness, fd)) {
        return false; /* reported before the descriptor was closed */
    }
    readiness->ready[fd] = (uint8_t)(readiness->ready[fd] | ready);
    if (!(ready & readiness->interest[fd])) {
        return false;
    }
    append(readiness, fd);
    return true;
}

void readiness_blocked(struct readiness *readiness, int fd, uint32_t interest)
{
    readiness->ready[fd] = (uint8_t)(readiness->ready[fd] & ~interest);
}

static uint32_t wanted_of(const struct readiness *readiness, int fd)
{
    return (uint32_t)(readiness->ready[fd] & readiness->interest[fd]);
}

/* Is a descriptor pending? Takes those off the front that blocked or were closed meanwhile, so that
 * the kernel is not asked without blocking because of them. */
static bool is_any_pending(struct readiness *readiness)
{
    while (readiness->n_listed > 0 && wanted_of(readiness, readiness->first) == 0) {
        (void)remove_first(readiness);
    }
    return readiness->n_listed > 0;
}

/* Each pending descriptor goes to the end of the list, so that all have their turn. */
static int take(struct readiness *readiness, struct event *events, size_t events_max)
{
    int n_events = 0;
    for (size_t n = readiness->n_listed; n > 0 && (size_t)n_events < events_max; n--) {
        int fd = remove_first(readiness);
        uint32_t wanted = wanted_of(readiness, fd);
        if (wanted != 0) {
            events[n_events++] = (struct event){.fd = fd, .ready = wanted};
            append(readiness, fd);
        }
    }
    return n_events;
}

int readiness_wait(struct readiness *readiness, readiness_ask *ask, void *state,
                   struct event *events, size_t events_max)
{
    for (;;) {
        if (!readiness->ask_first) {
            int n_events = take(readiness, events, events_max);
            if (n_events > 0) {
                readiness->ask_first = true;
                return n_events;
            }
        }
        readiness->ask_first = false;
        if (ask(state, !is_any_pending(readiness), events_max) != 0) {
            return errno == EINTR ? 0 : -1;
        }
    }
}
