#include "replay.h"

#include "replay_state.h"

#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Connections to begin before events are handled again: a late start must not starve events. */
enum { STARTS_MAX = 8 };

/* Arrivals are checked this long after the start line is printed: printing must not delay them. */
static const int64_t head_start_ns = 2 * NS_PER_MS;

/* The pause before a user retries a connection that could not begin. */
static const int64_t retry_ns = NS_PER_MS;

/* Record the end of a connection and schedule the next step: a retry, or the next connection of its
 * user in a closed loop or with kept connections.
 */
static void conclude(struct replay *replay, int64_t index, enum status status)
{
    struct record *record = &replay->records->rows[index];
    const struct attempt *attempt = &replay->attempts[index];
    const struct trace_row *row = attempt->row;
    record->status = status;
    if (retry_follows(&replay->options->retry, status, attempt->number)) {
        int64_t pause_ns = retry_pause_ns(&replay->options->retry, attempt->number);
        due_add(&replay->due, now_ns(replay) + pause_ns, DUE_RETRY, index);
        replay->n_retries_due++;
        return;
    }
    replay->result.n_given_up += status != STATUS_REPLIED && status != STATUS_OPEN;
    if (replay->trace->loop == LOOP_KEPT) {
        kept_ended(replay, index, status);
    }
    if (replay->trace->loop != LOOP_CLOSED || status == STATUS_OPEN) {
        return;
    }
    bool failed_at_once = status == STATUS_REFUSED || status == STATUS_DESCRIPTORS;
    int64_t pause_ns = failed_at_once && row->think_ns < retry_ns ? retry_ns : row->think_ns;
    /* A user continues from the last byte it received, not from when the generator handled it. */
    int64_t from_ns = record->done_ns != NOT_REACHED ? record->done_ns : now_ns(replay);
    due_add(&replay->due, from_ns + pause_ns, DUE_USER, 0);
}

void connection_finish(struct replay *replay, int fd, enum status status)
{
    struct connection *connection = &replay->connections[fd];
    assert(connection->phase != PHASE_FREE);
    transport_close(replay, fd);
    *(connection->older == NONE ? &replay->oldest : &replay->connections[connection->older].newer) =
        connection->newer;
    *(connection->newer == NONE ? &replay->newest : &replay->connections[connection->newer].older) =
        connection->older;
    connection->phase = PHASE_FREE;
    replay->n_open--;
    conclude(replay, connection->record, status);
}

static void enlist(struct replay *replay, int fd, int64_t index, const struct trace_row *row)
{
    replay->connections[fd] = (struct connection){
        .phase = PHASE_CONNECTING,
        .record = index,
        .row = row,
        .older = replay->newest,
        .newer = NONE,
    };
    *(replay->newest == NONE ? &replay->oldest : &replay->connections[replay->newest].newer) = fd;
    replay->newest = fd;
    replay->n_open++;
}

int connection_start(struct replay *replay, int64_t intended_ns, struct attempt attempt)
{
    assert(replay->has_begun || replay->trace->loop == LOOP_KEPT);
    int64_t index = replay->records->n;
    if (index == replay->records->n_max) {
        replay->result.truncated = true;
        return NONE;
    }
    replay->attempts[index] = attempt;
    struct record *record = &replay->records->rows[index];
    *record = (struct record){intended_ns, NOT_REACHED, NOT_REACHED, NOT_REACHED, STATUS_OPEN};
    replay->records->n++;
    bool pending = false;
    int fd = -1;
    errno = EMFILE;
    if (replay->n_open < replay->options->fds_max) {
        fd = transport_open(replay, record, &pending);
    }
    if (fd < 0) {
        replay->result.n_ports += errno == EADDRNOTAVAIL;
        conclude(replay, index, status_of_error(errno));
        return NONE;
    }
    enlist(replay, fd, index, attempt.row);
    transport_watch(replay, fd, index);
    if (!pending) {
        conversation_open(replay, fd);
    }
    return fd;
}

/* Begin the next connection of the trace; a closed loop starts over with the first row. */
static void start_next(struct replay *replay, int64_t intended_ns)
{
    const struct trace *trace = replay->trace;
    const struct trace_row *row = &trace->rows[replay->next_row++ % trace->n_rows];
    connection_start(replay, intended_ns, (struct attempt){.row = row});
}

/* Retry the connection of the record *index*. */
static void start_retry(struct replay *replay, int64_t due_ns, int64_t index)
{
    struct attempt attempt = replay->attempts[index];
    attempt.number++;
    replay->n_retries_due--;
    replay->result.n_retries++;
    connection_start(replay, due_ns, attempt);
}

static void do_due(struct replay *replay, struct due due)
{
    if (due.fd == DUE_USER) {
        start_next(replay, due.due_ns);
    } else if (due.fd == DUE_RETRY) {
        start_retry(replay, due.due_ns, due.record);
    } else if (due.fd == DUE_AGAIN) {
        kept_start(replay, due.due_ns, due.record);
    } else if (replay->connections[due.fd].record != due.record) {
        return;
    } else if (replay->connections[due.fd].phase == PHASE_THINKING) {
        conversation_ask(replay, due.fd, due.due_ns);
    } else if (replay->connections[due.fd].phase == PHASE_CONNECTING) {
        connection_finish(replay, due.fd, STATUS_TIMEOUT); /* only kept ones have this entry */
    }
}

/* The due time of the trace's next connection or request that does not wait for a reply. */
static int64_t next_of_trace_ns(const struct replay *replay)
{
    const struct trace *trace = replay->trace;
    if (trace->loop == LOOP_KEPT) {
        int64_t next = replay->kept.requests->n;
        bool has_begun = replay->kept.has_begun;
        return has_begun && next < trace->n_requests ? trace->requests[next].due_ns : INT64_MAX;
    }
    /* Before time zero another clock is in use: nothing is due by it. */
    bool rows_left =
        trace->loop == LOOP_OPEN && replay->has_begun && replay->next_row < trace->n_rows;
    return rows_left ? trace->rows[replay->next_row].at_ns : INT64_MAX;
}

void start_due(struct replay *replay)
{
    for (int n_started = 0; n_started < STARTS_MAX; n_started++) {
        int64_t now = now_ns(replay);
        int64_t next_ns = next_of_trace_ns(replay);
        int64_t due_ns = replay->due.n > 0 ? replay->due.entries[0].due_ns : INT64_MAX;
        if (due_ns <= next_ns && due_ns <= now) {
            do_due(replay, due_take(&replay->due));
        } else if (next_ns > now) {
            return;
        } else if (replay->trace->loop == LOOP_KEPT) {
            kept_request_due(replay);
        } else {
            start_next(replay, next_ns);
        }
        piece_ends(replay, PIECE_START, 1);
    }
}

/* Connections start in the order of their intended times, so the oldest times out first. */
static void expire(struct replay *replay)
{
    if (replay->trace->loop == LOOP_KEPT) {
        kept_expire(replay);
        return;
    }
    int64_t limit_ns = now_ns(replay) - replay->options->timeout_ns;
    while (replay->oldest != NONE) {
        int64_t index = replay->connections[replay->oldest].record;
        if (replay->records->rows[index].intended_ns > limit_ns) {
            return;
        }
        connection_finish(replay, replay->oldest, STATUS_TIMEOUT);
    }
}

static bool is_over(const struct replay *replay)
{
    if (stop_requested() || now_ns(replay) >= replay->options->run_ns) {
        return true;
    }
    switch (replay->trace->loop) {
    case LOOP_KEPT:
        return replay->kept.requests->n == replay->trace->n_requests &&
               replay->kept.n_unfinished == 0;
    case LOOP_CLOSED:
        return replay->result.truncated && replay->due.n == 0 && replay->n_open == 0;
    default:
        return replay->next_row == replay->trace->n_rows && replay->n_retries_due == 0 &&
               replay->n_open == 0;
    }
}

/* The server must still accept the last connections: only it can observe when it has done so.
 * Meanwhile the connections stay open, and handle events.
 */
static void hold(struct replay *replay)
{
    struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
    char byte = 0;
    if (printf("opened %lld\n", (long long)(replay->n_open + transport_n_idle(replay))) < 0 ||
        fflush(stdout) != 0) {
        fail("cannot print: %s", strerror(errno));
    }
    while (byte != '\n' && !stop_requested()) {
        transport_handle_events(replay);
        int n_ready = poll(&input, 1, 1);
        if (n_ready == 0 || (n_ready < 0 && errno == EINTR)) {
            continue;
        }
        ssize_t n_read = read(STDIN_FILENO, &byte, 1);
        if (n_read == 0 || (n_read < 0 && errno != EINTR)) {
            return;
        }
    }
}

static void set_time_zero(struct replay *replay)
{
    int64_t monotonic_ns = clock_ns(CLOCK_MONOTONIC);
    replay->zero_ns = clock_ns(CLOCK_MONOTONIC_RAW) + head_start_ns;
    replay->has_begun = true;
    replay->result.start_monotonic_ns = monotonic_ns + head_start_ns;
    if (printf("start %lld\n", (long long)replay->result.start_monotonic_ns) < 0 ||
        fflush(stdout) != 0) {
        fail("cannot print: %s", strerror(errno));
    }
}

static void spin(struct replay *replay)
{
    while (!is_over(replay)) {
        start_due(replay);
        transport_flush(replay);
        expire(replay);
        transport_handle_events(replay);
    }
}

struct replay_result replay(const struct trace *trace, const struct replay_options *options,
                            struct outputs *outputs)
{
    struct records *records = &outputs->records;
    struct replay *state = calloc(1, sizeof *state);
    if (state == NULL) {
        fail("out of memory");
    }
    state->trace = trace;
    state->options = options;
    state->records = records;
    state->replies = &outputs->replies;
    state->gaps = &outputs->gaps;
    state->oldest = state->newest = NONE;
    state->zero_ns = clock_ns(CLOCK_MONOTONIC_RAW);
    transport_prepare(state);
    state->connections = calloc((size_t)state->n_fds, sizeof *state->connections);
    state->attempts = calloc((size_t)records->n_max, sizeof *state->attempts);
    if (state->connections == NULL || state->attempts == NULL) {
        fail("out of memory for %lld connections", (long long)options->fds_max);
    }
    if (trace->loop == LOOP_KEPT) {
        state->kept = kept_prepare(trace, &outputs->requests);
        kept_open_all(state);
    }
    if (options->held) {
        hold(state);
    }
    for (int64_t i = 0; trace->loop == LOOP_CLOSED && i < trace->n_users; i++) {
        due_add(&state->due, 0, DUE_USER, 0);
    }
    set_time_zero(state);
    if (trace->loop == LOOP_KEPT) {
        kept_begin(state);
    }
    int64_t cpu_ns = clock_ns(CLOCK_PROCESS_CPUTIME_ID);
    gaps_begin(state->gaps, now_ns(state));
    spin(state);
    state->result.wall_ns = now_ns(state);
    state->result.cpu_ns = clock_ns(CLOCK_PROCESS_CPUTIME_ID) - cpu_ns;
    while (state->oldest != NONE) {
        connection_finish(state, state->oldest, STATUS_OPEN);
    }
    transport_end(state);
    state->result.n_waited = state->kept.n_waited;
    struct replay_result result = state->result;
    kept_free(&state->kept);
    free(state->due.entries);
    free(state->attempts);
    free(state->connections);
    free(state);
    return result;
}
