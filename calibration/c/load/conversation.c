/* The requests of one connection: send one, receive its reply, think, send the next. */
#include "replay_state.h"

#include <errno.h>

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

size_t conversation_request(struct replay *replay, int fd)
{
    struct connection *connection = &replay->connections[fd];
    const struct request request = {
        .row = connection->row,
        .is_last = connection->n_requests_done + 1 == connection->row->n_requests,
        .number = (uint64_t)connection->record + connection->n_requests_done,
    };
    const struct replay_options *options = replay->options;
    return options->protocol->write_request(&options->protocol_options, &request, replay->request);
}

static void send_request(struct replay *replay, int fd)
{
    struct connection *connection = &replay->connections[fd];
    size_t n_bytes = conversation_request(replay, fd);
    connection->phase = PHASE_SENDING;
    while (connection->n_sent < n_bytes) {
        ssize_t n_sent = transport_send(replay, fd, replay->request + connection->n_sent,
                                        n_bytes - connection->n_sent);
        if (n_sent < 0 && errno == EINTR) {
            continue;
        }
        if (n_sent < 0 && errno == EAGAIN) {
            return; /* conversation_go_on continues */
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

void conversation_go_on(struct replay *replay, int fd)
{
    if (replay->connections[fd].phase == PHASE_SENDING) {
        send_request(replay, fd);
    }
}

void conversation_ask(struct replay *replay, int fd, int64_t due_ns)
{
    replay->connections[fd].n_sent = 0;
    replay->connections[fd].due_ns = due_ns;
    send_request(replay, fd);
}

/* Record a reply; return when its last byte came. */
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

/* Act on the state of a reply; return whether more may come on this connection now. */
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

void conversation_close(struct replay *replay, int fd, int error)
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
    /* The connection's further requests cannot be sent. */
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

bool conversation_hear(struct replay *replay, int fd, const char *bytes, size_t n_bytes)
{
    struct connection *connection = &replay->connections[fd];
    /* A server that sends without a request breaks the protocol. */
    enum answer answer = ANSWER_INVALID;
    if (connection->phase == PHASE_RECEIVING) {
        answer =
            replay->options->protocol->hear(&connection->answer, connection->row, bytes, n_bytes);
    }
    return conclude_answer(replay, fd, answer);
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
