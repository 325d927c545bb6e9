#include "server.h"

#include "accept_errors.h"
#include "program.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static void watch(struct server *server, int fd, uint32_t interest)
{
    if (server->mechanism->watch(server->watched, fd, interest) != 0) {
        fail("%s cannot watch descriptor %d: %s", server->mechanism->name, fd, strerror(errno));
    }
}

static void unwatch(struct server *server, int fd)
{
    if (server->mechanism->unwatch(server->watched, fd) != 0) {
        fail("%s cannot unwatch descriptor %d: %s", server->mechanism->name, fd, strerror(errno));
    }
}

static void blocked(struct server *server, int fd, uint32_t interest)
{
    if (server->mechanism->blocked != NULL) {
        server->mechanism->blocked(server->watched, fd, interest);
    }
}

static void connection_open(struct server *server, int fd)
{
    struct connection *connection = &server->connections[fd];
    request_begin(&connection->request);
    connection->interest = INTEREST_READ;
    watch(server, fd, INTEREST_READ);
    server->counters->watches++;
    server->counters->connections_open++;
}

static void connection_close(struct server *server, int fd)
{
    unwatch(server, fd);
    server->counters->unwatches++;
    server->connections[fd].interest = 0;
    /* The client's reset may be reported here; the descriptor is closed all the same. */
    if (close(fd) != 0 && errno == EBADF) {
        fail("descriptor %d was not open", fd);
    }
    server->counters->closes++;
    server->counters->connections_open--;
}

static void connection_change(struct server *server, int fd, uint32_t interest)
{
    struct connection *connection = &server->connections[fd];
    if (connection->interest != interest) {
        connection->interest = interest;
        watch(server, fd, interest);
        server->counters->rewatches++;
    }
}

/* Write what is left of the reply, in one call; wait for room if it did not all fit. */
static void continue_reply(struct server *server, int fd)
{
    struct connection *connection = &server->connections[fd];
    uint32_t reply_bytes = connection->request.reply_bytes;
    ssize_t n_sent = reply_write(&server->pattern, fd, reply_bytes, connection->reply_sent);
    server->counters->writes++;
    if (n_sent < 0 && errno != EAGAIN && errno != EINTR) {
        connection_close(server, fd);
        return;
    }
    connection->reply_sent += n_sent > 0 ? (uint32_t)n_sent : 0;
    if (connection->reply_sent < reply_bytes) {
        server->counters->write_short++;
        blocked(server, fd, INTEREST_WRITE);
        connection_change(server, fd, INTEREST_WRITE);
        return;
    }
    server->counters->replies++;
    if (!connection->request.keep_alive) {
        connection_close(server, fd);
        return;
    }
    request_begin(&connection->request);
    connection_change(server, fd, INTEREST_READ);
}

/* One read call; answer if it completes the request. */
static void read_request(struct server *server, int fd)
{
    struct connection *connection = &server->connections[fd];
    ssize_t n_read = read(fd, server->received, sizeof server->received);
    if (n_read < 0 && (errno == EAGAIN || errno == EINTR)) {
        server->counters->read_again++;
        blocked(server, fd, INTEREST_READ);
        return;
    }
    server->counters->reads++;
    if (n_read <= 0) {
        connection_close(server, fd);
        return;
    }
    switch (request_feed(&connection->request, server->received, (size_t)n_read)) {
    case REQUEST_PARTIAL:
        break;
    case REQUEST_BAD:
        connection_close(server, fd);
        break;
    case REQUEST_COMPLETE:
        work_do(&server->work);
        connection->reply_sent = 0;
        continue_reply(server, fd);
        break;
    }
}

static void accept_batch(struct server *server)
{
    int64_t limit = server->accept_limit > 0 ? server->accept_limit : INT64_MAX;
    for (int64_t i = 0; i < limit; i++) {
        int fd = accept4(server->listener_fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd < 0 && errno == EAGAIN) {
            server->counters->accept_again++;
            blocked(server, server->listener_fd, INTEREST_READ);
            return;
        }
        if (fd < 0 && accept_error_is_want(errno)) {
            server->counters->accept_no_fd++;
            return;
        }
        if (fd < 0 && accept_error_is_of_one_connection(errno)) {
            continue;
        }
        if (fd < 0) {
            fail("accept4: %s", strerror(errno));
        }
        if ((size_t)fd >= server->fds_max) {
            fail("descriptor %d is beyond the limit of %zu", fd, server->fds_max);
        }
        server->counters->accepts++;
        connection_open(server, fd);
        if (server->read_after_accept) {
            read_request(server, fd);
        }
    }
}

static bool contains(const struct event *events, int n_events, int fd)
{
    for (int i = 0; i < n_events; i++) {
        if (events[i].fd == fd) {
            return true;
        }
    }
    return false;
}

/* A connection that stays, and whose interest is the same, is armed again. */
static void rearm(struct server *server, int fd, uint32_t interest_before)
{
    struct connection *connection = &server->connections[fd];
    if (connection->interest != 0 && connection->interest == interest_before) {
        watch(server, fd, connection->interest);
        server->counters->rewatches++;
    }
}

/* The batch is fixed before serving it: events that arrive meanwhile belong to the next wait. No
 * event of it can be stale: only its own event closes a connection, and what is accepted first
 * cannot take the number of a descriptor that is still open. */
static void serve_batch(struct server *server, int n_events)
{
    bool accepting = contains(server->events, n_events, server->listener_fd);
    if (accepting && server->listener_first) {
        accept_batch(server);
    }
    for (int i = 0; i < n_events; i++) {
        int fd = server->events[i].fd;
        if (fd == server->listener_fd) {
            continue;
        }
        uint32_t interest = server->connections[fd].interest;
        uint32_t ready = server->events[i].ready & interest;
        if (ready & INTEREST_READ) {
            read_request(server, fd);
        } else if (ready & INTEREST_WRITE) {
            continue_reply(server, fd);
        }
        if (server->mechanism->one_shot) {
            rearm(server, fd, interest);
        }
    }
    if (accepting && !server->listener_first) {
        accept_batch(server);
    }
}

static void serve(void *opaque)
{
    struct server *server = opaque;
    watch(server, server->listener_fd, INTEREST_READ);
    while (!stop_requested()) {
        int n_events = server->mechanism->wait(server->watched, server->events, server->events_max);
        if (n_events < 0) {
            fail("%s cannot wait: %s", server->mechanism->name, strerror(errno));
        }
        server->counters->waits++;
        server->counters->events += (uint64_t)n_events;
        serve_batch(server, n_events);
    }
    for (size_t fd = 0; fd < server->fds_max; fd++) {
        if (server->connections[fd].interest != 0) {
            connection_close(server, (int)fd);
        }
    }
    unwatch(server, server->listener_fd);
}

static bool is_listener_first(const char *when)
{
    bool first = strcmp(when, "first") == 0;
    if (!first && strcmp(when, "last") != 0) {
        refuse("--listener must be first or last, got \"%s\"", when);
    }
    return first;
}

static void *prepare(const struct service *service, const struct options *options)
{
    const struct mechanism *mechanism = service->mechanism;
    bool listener_first = is_listener_first(options->listener);
    struct server *server = calloc(1, sizeof *server);
    if (server == NULL) {
        fail("out of memory");
    }
    if (options->signals_max > 0) {
        limit_signals(options->signals_max);
    }
    server->mechanism = mechanism;
    server->accept_limit = options->accept_limit;
    server->listener_first = listener_first;
    server->read_after_accept = options->read_after_accept;
    server->work = options->work;
    server->fds_max = (size_t)options->fds_max;
    server->events_max = mechanism->events_bounded ? (size_t)options->events_max : server->fds_max;
    return server;
}

static void open_server(void *opaque, const struct options *options, int listener_fd)
{
    struct server *server = opaque;
    const struct mechanism *mechanism = server->mechanism;
    server->listener_fd = listener_fd;
    server->watched = mechanism->open(server->fds_max);
    server->events = calloc(server->events_max, sizeof *server->events);
    server->connections = calloc(server->fds_max, sizeof *server->connections);
    server->counters = counters_map(options->counters);
    if (!server->watched || !server->events || !server->connections) {
        fail("cannot open %s for %zu descriptors: %s", mechanism->name, server->fds_max,
             strerror(errno));
    }
    if (mechanism->count_into != NULL) {
        mechanism->count_into(server->watched, server->counters);
    }
    reply_pattern_fill(&server->pattern);
}

static void close_server(void *opaque)
{
    struct server *server = opaque;
    server->mechanism->close(server->watched);
    free(server->events);
    free(server->connections);
    free(server);
}

struct service loop_with(const struct mechanism *mechanism)
{
    return (struct service){
        .name = mechanism->name,
        .mechanism = mechanism,
        .prepare = prepare,
        .open = open_server,
        .serve = serve,
        .close = close_server,
    };
}
