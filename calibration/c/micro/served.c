/* The server's own mechanisms, request parser and reply, as ../servers has them. */
#include "served.h"

#include "../servers/counters.h"
#include "../servers/mechanism.h"
#include "../servers/reply.h"
#include "../servers/request.h"

#include <stdlib.h>

enum { EVENTS_MAX = 1024 }; /* the server's default */

struct served {
    const struct mechanism *calls;
    void *state;
    struct event *events;
    struct counters counters; /* as the server has them; never read here */
};

struct served *served_open(const char *mechanism, size_t fds_max)
{
    struct served *served = calloc(1, sizeof *served);
    if (served == NULL) {
        return NULL;
    }
    served->calls = mechanism_find(mechanism);
    served->events = calloc(fds_max + EVENTS_MAX, sizeof(struct event));
    if (served->calls != NULL) {
        served->state = served->calls->open(fds_max);
    }
    if (served->state == NULL || served->events == NULL) {
        free(served->events);
        free(served);
        return NULL;
    }
    if (served->calls->count_into != NULL) {
        served->calls->count_into(served->state, &served->counters);
    }
    return served;
}

void served_close(struct served *served)
{
    served->calls->close(served->state);
    free(served->events);
    free(served);
}

int served_watch(struct served *served, int fd)
{
    return served->calls->watch(served->state, fd, INTEREST_READ);
}

int served_watch_to_write(struct served *served, int fd)
{
    return served->calls->watch(served->state, fd, INTEREST_WRITE);
}

int served_unwatch(struct served *served, int fd)
{
    return served->calls->unwatch(served->state, fd);
}

int served_wait(struct served *served)
{
    return served->calls->wait(served->state, served->events, EVENTS_MAX);
}

void served_blocked(struct served *served, int fd)
{
    if (served->calls->blocked != NULL) {
        served->calls->blocked(served->state, fd, INTEREST_READ);
    }
}

bool served_parse(const char *bytes, size_t n_bytes)
{
    struct request request;
    request_begin(&request);
    return request_feed(&request, bytes, n_bytes) == REQUEST_COMPLETE;
}

static struct reply_pattern pattern;

void served_prepare(void)
{
    reply_pattern_fill(&pattern);
}

bool served_reply(int fd, size_t reply_bytes)
{
    return reply_write(&pattern, fd, (uint32_t)reply_bytes, 0) == (ssize_t)reply_bytes;
}
