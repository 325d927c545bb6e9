/* What is said on one connection: send a request, receive its reply, think, send the next. */
#include "replay_state.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

enum status status_of_error(int error)
{
    switch (error) {
    case ECONNREFUSED:
    case ENETUNREACH:
    case EHOSTUNREACH:
        return STATUS_REFUSED;
    case ETIMEDOUT:
        return STATUS_TIMEOUT;
    case EADDRNOTAVAIL:
    case EMFILE:
    case ENFILE:
    case ENOBUFS:
    case ENOMEM:
        return STATUS_DESCRIPTORS;
    default:
        return STATUS_RESET;
    }
}

static void send_request(struct replay *replay, int fd)
{
    struct connection *connection = &replay->connections[fd];
    const struct request request = {
        .row = connection->row,
        .is_last = connection->n_requests_done + 1 == connection->row->n_requests,
        .number = (uint64_t)connection->record + connection->n_requests_done,
    };
    const struct replay_options *options = replay->options;
    size_t n_bytes =
        options->protocol->write_request(&options->protocol_options, &request, replay->request);
    connection->phase = PHASE_SENDING;
    while (connection->n_sent < n_bytes) {
        ssize_t n_sent = send(fd, replay->request + connection->n_sent,
                              n_bytes - connection->n_sent, MSG_NOSIGNAL);
        if (n_sent < 0 && errno == EINTR) {
            continue;
        }
        if (n_sent < 0 && errno == EAGAIN) {
            return; /* the edge of EPOLLOUT brings us back */
        }
        if (n_sent < 0) {
            connection_finish(replay, fd, status_of_error(errno));
            return;
        }
        connection->n_sent += (uint32_t)n_sent;
    }
    connection->answer = (struct answer_state){0};
    connection->phase = PHASE_RECEIVING;
}

void conversation_ask(struct replay *replay, int fd, int64_t due_ns)
{
    replay->connections[fd].n_sent = 0;
    replay->connections[fd].due_ns = due_ns;
    send_request(replay, fd);
}

/* Write down a reply; return when its last byte came. */
static int64_t count_reply(struct replay *replay, const struct connection *connection,
                           enum answer answer)
{
    int64_t done_ns = now_ns(replay);
    bool is_error = answer == ANSWER_ERROR;
    replay->result.n_replies++;
    replay->result.n_error_replies += is_error;
    replies_add(replay->replies, (struct reply){connection->due_ns, done_ns, is_error});
    return done_ns;
}

static void reply_complete(struct replay *replay, int fd, enum answer answer)
{
    struct connection *connection = &replay->connections[fd];
    int64_t done_ns = count_reply(replay, connection, answer);
    bool is_kept = replay->trace->loop == LOOP_KEPT;
    connection->n_requests_done++;
    if (is_kept) {
        kept_replied(replay, fd, done_ns);
    }
    if (connection->n_requests_done == connection->row->n_requests) {
        replay->records->rows[connection->record].done_ns = done_ns;
        connection_finish(replay, fd, STATUS_REPLIED);
    } else if (is_kept) {
        kept_send_next(replay, fd);
    } else if (connection->row->think_ns == 0) {
        conversation_ask(replay, fd, done_ns);
    } else {
        connection->phase = PHASE_THINKING;
        due_add(&replay->due, done_ns + connection->row->think_ns, fd, connection->record);
    }
}

/* Do what an answer asks for; return whether more may come on this connection now. */
static bool conclude_answer(struct replay *replay, int fd, enum answer answer)
{
    switch (answer) {
    case ANSWER_PARTIAL:
        return true;
    case ANSWER_INVALID:
        replay->result.n_protocol++;
        connection_finish(replay, fd, STATUS_RESET);
        return false;
    default:
        reply_complete(replay, fd, answer);
        return false;
    }
}

/* Nothing comes any more: either that was the end of the answer, or it will never be whole. */
static void conclude_close(struct replay *replay, int fd, int error)
{
    struct connection *connection = &replay->connections[fd];
    enum answer answer = ANSWER_PARTIAL;
    if (error == 0 && connection->phase == PHASE_RECEIVING) {
        answer = replay->options->protocol->hear_close(&connection->answer);
    }
    if (answer == ANSWER_PARTIAL) {
        connection_finish(replay, fd, error == 0 ? STATUS_RESET : status_of_error(error));
        return;
    }
    /* Whatever else was to be asked cannot be. */
    bool was_last = connection->n_requests_done + 1 == connection->row->n_requests;
    if (was_last) {
        reply_complete(replay, fd, answer);
        return;
    }
    int64_t done_ns = count_reply(replay, connection, answer);
    if (replay->trace->loop == LOOP_KEPT) {
        kept_replied(replay, fd, done_ns);
    }
    connection_finish(replay, fd, STATUS_RESET);
}

/* Read until the reply is in or nothing is left; *ending*: the server has closed its side. */
static void receive(struct replay *replay, int fd, bool ending)
{
    struct connection *connection = &replay->connections[fd];
    for (;;) {
        ssize_t n_read = read(fd, replay->received, sizeof replay->received);
        if (n_read < 0 && errno == EINTR) {
            continue;
        }
        if (n_read < 0 && errno == EAGAIN) {
            return;
        }
        if (n_read <= 0) {
            conclude_close(replay, fd, n_read < 0 ? errno : 0);
            return;
        }
        /* Whoever speaks without being asked does not follow the protocol. */
        enum answer answer = ANSWER_INVALID;
        if (connection->phase == PHASE_RECEIVING) {
            answer = replay->options->protocol->hear(&connection->answer, connection->row,
                                                     replay->received, (size_t)n_read);
        }
        if (!conclude_answer(replay, fd, answer)) {
            return;
        }
        /* A short read emptied the socket: what comes later makes a new edge. */
        if ((size_t)n_read < sizeof replay->received && !ending) {
            return;
        }
    }
}

void conversation_open(struct replay *replay, int fd)
{
    struct record *record = &replay->records->rows[replay->connections[fd].record];
    record->connected_ns = now_ns(replay);
    if (replay->trace->loop == LOOP_KEPT) {
        kept_connected(replay, fd);
    } else {
        conversation_ask(replay, fd, record->intended_ns);
    }
}

void conversation_continue(struct replay *replay, uint64_t key, uint32_t events)
{
    int fd = (int)(uint32_t)key;
    struct connection *connection = &replay->connections[fd];
    if (connection->phase == PHASE_FREE || event_key(fd, connection->record) != key) {
        return;
    }
    if (connection->phase == PHASE_CONNECTING) {
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
    } else if (connection->phase == PHASE_SENDING && (events & EPOLLOUT)) {
        send_request(replay, fd);
    }
    uint32_t ending = events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR);
    bool ours = connection->phase != PHASE_FREE && connection->phase != PHASE_CONNECTING &&
                event_key(fd, connection->record) == key;
    if (ours && (ending || (events & EPOLLIN))) {
        receive(replay, fd, ending != 0);
    }
}
