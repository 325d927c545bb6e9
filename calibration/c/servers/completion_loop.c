#include "completion_loop.h"

#include "accept_errors.h"
#include "program.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void make_room(struct completion_server *server)
{
    if (ring_make_room(&server->ring) != 0) {
        fail("cannot submit: %s", strerror(errno));
    }
}

static void begin_to_accept(struct completion_server *server)
{
    make_room(server);
    ring_accept(&server->ring, server->listener_fd);
    server->starved = false;
}

static void begin_to_receive(struct completion_server *server, int fd)
{
    make_room(server);
    ring_receive(&server->ring, fd);
}

static void connection_open(struct completion_server *server, int fd)
{
    if ((size_t)fd >= server->fds_max) {
        fail("descriptor %d is beyond the limit of %zu", fd, server->fds_max);
    }
    struct ring_connection *connection = &server->connections[fd];
    connection->open = true;
    request_begin(&connection->request);
    begin_to_receive(server, fd);
    server->counters->accepts++;
    server->counters->watches++;
    server->counters->connections_open++;
}

static void count_close(struct completion_server *server, int fd)
{
    server->connections[fd].open = false;
    server->counters->unwatches++;
    server->counters->closes++;
    server->counters->connections_open--;
}

static void connection_close(struct completion_server *server, int fd)
{
    make_room(server);
    ring_close(&server->ring, fd);
    count_close(server, fd);
}

/* Describe what is sent next: the header and a pattern, or a pattern. */
static void next_part(struct completion_server *server, struct ring_connection *connection)
{
    uint32_t reply_bytes = connection->request.reply_bytes;
    uint32_t left = reply_bytes - connection->reply_sent;
    size_t n_parts = 0;
    connection->part_bytes = 0;
    if (connection->reply_sent == 0) {
        reply_header(connection->header, reply_bytes);
        connection->parts[n_parts++] = (struct iovec){connection->header, REPLY_HEADER_BYTES};
        connection->part_bytes = REPLY_HEADER_BYTES;
        left -= REPLY_HEADER_BYTES;
    }
    uint32_t n_letters = left < REPLY_PATTERN_BYTES ? left : REPLY_PATTERN_BYTES;
    if (n_letters > 0) {
        connection->parts[n_parts++] = (struct iovec){server->pattern.letters, n_letters};
    }
    connection->message = (struct msghdr){.msg_iov = connection->parts, .msg_iovlen = n_parts};
    connection->part_bytes += n_letters;
    connection->reply_sent += connection->part_bytes;
    connection->part_is_last = connection->reply_sent == reply_bytes;
}

/* Send the next part of the reply; what follows the last one is linked to it. */
static void continue_reply(struct completion_server *server, int fd)
{
    struct ring_connection *connection = &server->connections[fd];
    next_part(server, connection);
    make_room(server);
    ring_send(&server->ring, fd, &connection->message, connection->part_is_last);
    server->counters->writes++;
    if (!connection->part_is_last) {
        server->counters->write_short++;
        return;
    }
    server->counters->replies++;
    if (connection->request.keep_alive) {
        request_begin(&connection->request);
        ring_receive(&server->ring, fd);
    } else {
        ring_close(&server->ring, fd);
        count_close(server, fd);
    }
}

static void accepted(struct completion_server *server, const struct ring_completion *completion)
{
    int error = -completion->result;
    if (completion->result >= 0) {
        connection_open(server, completion->result);
    } else if (accept_error_is_want(error)) {
        server->counters->accept_no_fd++;
        server->starved = true;
        return;
    } else if (!accept_error_is_of_one_connection(error)) {
        fail("accept: %s", strerror(error));
    }
    if (!completion->more) {
        begin_to_accept(server);
    }
}

static void received(struct completion_server *server, const struct ring_completion *completion)
{
    int fd = completion->fd;
    int result = completion->result;
    struct ring_connection *connection = &server->connections[fd];
    if (result == -ENOBUFS || result == -EINTR || result == -EAGAIN) {
        server->counters->read_again++;
        begin_to_receive(server, fd); /* buffers that were full are given back by then */
        return;
    }
    server->counters->reads++;
    if (result <= 0) {
        connection_close(server, fd);
        return;
    }
    const char *bytes = server->ring.buffers[completion->buffer];
    enum request_progress progress = request_feed(&connection->request, bytes, (size_t)result);
    ring_give_back(&server->ring, completion->buffer);
    switch (progress) {
    case REQUEST_PARTIAL:
        begin_to_receive(server, fd);
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

static void sent(struct completion_server *server, const struct ring_completion *completion)
{
    int fd = completion->fd;
    struct ring_connection *connection = &server->connections[fd];
    if (!connection->part_is_last && completion->result == (int)connection->part_bytes) {
        continue_reply(server, fd);
        return;
    }
    if (connection->part_is_last) { /* it was counted as if it would succeed */
        server->counters->write_short++;
        server->counters->replies--;
    }
    if (connection->open) {
        connection_close(server, fd);
    } else { /* the close that was linked to it was not done */
        make_room(server);
        ring_close(&server->ring, fd);
    }
}

static void serve_completion(struct completion_server *server,
                             const struct ring_completion *completion)
{
    switch (completion->operation) {
    case RING_ACCEPT:
        accepted(server, completion);
        break;
    case RING_RECEIVE:
        received(server, completion);
        break;
    case RING_SEND:
        sent(server, completion);
        break;
    case RING_CLOSE: /* the client's reset may be reported here; the descriptor is closed */
        if (completion->result == -EBADF) {
            fail("descriptor %d was not open", completion->fd);
        }
        break;
    }
}

static void serve_completions(struct completion_server *server)
{
    struct ring_completion completion;
    size_t n_served = 0;
    while (n_served < server->events_max && ring_completed(&server->ring, &completion)) {
        n_served++;
        serve_completion(server, &completion);
    }
    server->counters->events += n_served;
}

static void serve(void *opaque)
{
    struct completion_server *server = opaque;
    begin_to_accept(server);
    while (!stop_requested()) {
        bool starved = server->starved; /* then a descriptor may be free after this wait */
        if (ring_enter(&server->ring, starved ? RING_WAIT_A_LITTLE : RING_WAIT) != 0) {
            fail("io_uring cannot wait: %s", strerror(errno));
        }
        server->counters->waits++;
        serve_completions(server);
        if (starved) {
            begin_to_accept(server);
        }
    }
    for (size_t fd = 0; fd < server->fds_max; fd++) {
        if (server->connections[fd].open) {
            (void)close((int)fd); /* what is under way on it ends with the ring */
            count_close(server, (int)fd);
        }
    }
}

static void *prepare(const struct service *service, const struct options *options)
{
    struct completion_server *server = calloc(1, sizeof *server);
    (void)service;
    if (server == NULL) {
        fail("out of memory");
    }
    server->fds_max = (size_t)options->fds_max;
    server->events_max = (size_t)options->events_max;
    server->work = options->work;
    return server;
}

static void open_server(void *opaque, const struct options *options, int listener_fd)
{
    struct completion_server *server = opaque;
    server->listener_fd = listener_fd;
    server->connections = calloc(server->fds_max, sizeof *server->connections);
    server->counters = counters_map(options->counters);
    if (server->connections == NULL || ring_open(&server->ring, server->fds_max) != 0) {
        fail("cannot open io_uring for %zu descriptors: %s", server->fds_max, strerror(errno));
    }
    reply_pattern_fill(&server->pattern);
}

static void close_server(void *opaque)
{
    struct completion_server *server = opaque;
    ring_close_all(&server->ring);
    free(server->connections);
    free(server);
}

const struct service completion_service = {
    .name = "io_uring",
    .listener_blocks = true,
    .prepare = prepare,
    .open = open_server,
    .serve = serve,
    .close = close_server,
};
