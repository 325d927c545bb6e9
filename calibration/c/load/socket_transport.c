/* Connections by sockets of the kernel, watched by edge-triggered epoll. */
#include "replay_state.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    FDS_SPARE = 32,  /* descriptors that are not connections */
    EVENTS_MAX = 64, /* of one wait */
};

/* An event carries descriptor and record, so an event of a closed connection is recognised. */
static uint64_t event_key(int fd, int64_t index)
{
    return (uint64_t)index << 32 | (uint64_t)(uint32_t)fd;
}

void transport_prepare(struct replay *replay)
{
    limit_descriptors(replay->options->fds_max + FDS_SPARE);
    replay->n_fds = replay->options->fds_max + FDS_SPARE;
    replay->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (replay->epoll_fd < 0) {
        fail("cannot begin the replay: %s", strerror(errno));
    }
}

int transport_open(struct replay *replay, struct record *record, bool *pending)
{
    const struct linger reset_on_close = {.l_onoff = 1, .l_linger = 0};
    int64_t started_ns = now_ns(replay);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        return -1;
    }
    if (fd >= replay->n_fds) {
        fail("descriptor %d is beyond the limit", fd);
    }
    record->started_ns = started_ns;
    if (setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset_on_close, sizeof reset_on_close) != 0) {
        fail("setsockopt of SO_LINGER: %s", strerror(errno));
    }
    const struct sockaddr *address = (const struct sockaddr *)&replay->options->address;
    int error = connect(fd, address, sizeof replay->options->address) == 0 ? 0 : errno;
    *pending = error == EINPROGRESS || error == EINTR;
    if (error == 0 || *pending) {
        return fd;
    }
    if (close(fd) != 0) {
        fail("close: %s", strerror(errno));
    }
    errno = error;
    return -1;
}

void transport_watch(struct replay *replay, int fd, int64_t index)
{
    struct epoll_event wanted = {.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET,
                                 .data.u64 = event_key(fd, index)};
    if (epoll_ctl(replay->epoll_fd, EPOLL_CTL_ADD, fd, &wanted) != 0) {
        fail("epoll_ctl: %s", strerror(errno));
    }
}

ssize_t transport_send(struct replay *replay, int fd, const char *bytes, size_t n_bytes)
{
    (void)replay;
    return send(fd, bytes, n_bytes, MSG_NOSIGNAL);
}

void transport_close(struct replay *replay, int fd)
{
    (void)replay;
    if (close(fd) != 0 && errno == EBADF) {
        fail("descriptor %d was not open", fd);
    }
}

void transport_flush(struct replay *replay)
{
    (void)replay; /* each call has sent its bytes at once */
}

/* Read until the reply is complete or no data are left; *ending*: the server has closed. */
static void receive(struct replay *replay, int fd, bool ending)
{
    for (;;) {
        ssize_t n_read = read(fd, replay->received, sizeof replay->received);
        if (n_read < 0 && errno == EINTR) {
            continue;
        }
        if (n_read < 0 && errno == EAGAIN) {
            return;
        }
        if (n_read <= 0) {
            conversation_close(replay, fd, n_read < 0 ? errno : 0);
            return;
        }
        if (!conversation_hear(replay, fd, replay->received, (size_t)n_read)) {
            return;
        }
        /* A short read emptied the socket: later data cause a new edge. */
        if ((size_t)n_read < sizeof replay->received && !ending) {
            return;
        }
    }
}

/* The connection is established, or has failed. */
static void finish_connect(struct replay *replay, int fd, uint32_t events)
{
    int error = 0;
    socklen_t error_bytes = sizeof error;
    if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &error_bytes) != 0) {
        fail("getsockopt of SO_ERROR: %s", strerror(errno));
    }
    if (error != 0) {
        connection_finish(replay, fd, status_of_error(error));
    } else if (events & EPOLLOUT) {
        conversation_open(replay, fd);
    }
}

/* Handle epoll's *events* of a connection, as in struct epoll_event. */
static void handle_event(struct replay *replay, uint64_t key, uint32_t events)
{
    int fd = (int)(uint32_t)key;
    struct connection *connection = &replay->connections[fd];
    if (connection->phase == PHASE_FREE || event_key(fd, connection->record) != key) {
        return;
    }
    if (connection->phase == PHASE_CONNECTING) {
        finish_connect(replay, fd, events);
    } else if (events & EPOLLOUT) {
        conversation_go_on(replay, fd);
    }
    uint32_t ending = events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR);
    bool ours = connection->phase != PHASE_FREE && connection->phase != PHASE_CONNECTING &&
                event_key(fd, connection->record) == key;
    if (ours && (ending || (events & EPOLLIN))) {
        receive(replay, fd, ending != 0);
    }
}

void transport_handle_events(struct replay *replay)
{
    struct epoll_event events[EVENTS_MAX];
    int n_events = epoll_wait(replay->epoll_fd, events, EVENTS_MAX, 0);
    if (n_events < 0 && errno != EINTR) {
        fail("epoll_wait: %s", strerror(errno));
    }
    piece_ends(replay, n_events > 0 ? PIECE_EVENT : PIECE_NOTHING, 1);
    for (int i = 0; i < n_events; i++) {
        handle_event(replay, events[i].data.u64, events[i].events);
        piece_ends(replay, PIECE_EVENT, 1);
        start_due(replay);
    }
}

int64_t transport_n_idle(const struct replay *replay)
{
    (void)replay;
    return 0;
}

void transport_end(struct replay *replay)
{
    if (close(replay->epoll_fd) != 0) {
        fail("close: %s", strerror(errno));
    }
}
