#include "kept.h"

#include "replay_state.h"

#include <assert.h>
#include <stdlib.h>

enum { BATCH = 64 /* connections under way at once before time zero: below any sane backlog */ };

/* The pause between a failed attempt to connect and the next. */
static const int64_t again_ns = NS_PER_S;

struct kept kept_prepare(const struct trace *trace, struct records *requests)
{
    struct kept kept = {
        .users = calloc((size_t)trace->n_users, sizeof *kept.users),
        .behind = calloc((size_t)trace->n_requests, sizeof *kept.behind),
        .requests = requests,
    };
    if (kept.users == NULL || kept.behind == NULL) {
        fail("out of memory for %lld requests of %lld users", (long long)trace->n_requests,
             (long long)trace->n_users);
    }
    for (int64_t user = 0; user < trace->n_users; user++) {
        kept.users[user] = (struct kept_user){NONE, NONE, NONE, NONE};
    }
    return kept;
}

void kept_free(struct kept *kept)
{
    free(kept->users);
    free(kept->behind);
}

static int64_t user_of(const struct replay *replay, int fd)
{
    return replay->attempts[replay->connections[fd].record].user;
}

void kept_start(struct replay *replay, int64_t due_ns, int64_t user)
{
    const struct trace *trace = replay->trace;
    const struct trace_row *row = &trace->rows[replay->next_row++ % trace->n_rows];
    int64_t index = replay->records->n;
    int fd = connection_start(replay, due_ns, (struct attempt){.row = row, .user = user});
    if (fd != NONE && replay->kept.has_begun) {
        due_add(&replay->due, due_ns + replay->options->timeout_ns, fd, index);
    }
}

static void give_up_connecting(struct replay *replay)
{
    for (int fd = replay->oldest; fd != NONE;) {
        int newer = replay->connections[fd].newer;
        if (replay->connections[fd].phase == PHASE_CONNECTING) {
            connection_finish(replay, fd, STATUS_TIMEOUT);
        }
        fd = newer;
    }
}

void kept_open_all(struct replay *replay)
{
    struct kept *kept = &replay->kept;
    struct records *records = replay->records;
    int64_t n_users = replay->trace->n_users;
    int64_t limit_ns = now_ns(replay) + replay->options->timeout_ns;
    int64_t n_started = 0;
    do {
        for (; n_started < n_users && n_started - kept->n_settled < BATCH; n_started++) {
            kept_start(replay, 0, n_started);
        }
        transport_flush(replay);
        transport_handle_events(replay);
    } while (kept->n_settled < n_users && !replay->result.truncated && !stop_requested() &&
             now_ns(replay) < limit_ns);
    give_up_connecting(replay);
    for (int64_t i = 0; i < records->n; i++) {
        records->rows[i].intended_ns = records->rows[i].started_ns = 0;
        if (records->rows[i].connected_ns != NOT_REACHED) {
            records->rows[i].connected_ns = 0;
        }
    }
}

void kept_begin(struct replay *replay)
{
    replay->kept.has_begun = true;
    for (int64_t i = 0; i < replay->records->n; i++) {
        int64_t user = replay->attempts[i].user;
        if (replay->kept.users[user].fd == NONE) {
            bool was_open = replay->records->rows[i].connected_ns != NOT_REACHED;
            due_add(&replay->due, was_open ? 0 : again_ns, DUE_AGAIN, user);
        }
    }
}

/* Record the end of the request *number*. */
static void conclude_request(struct kept *kept, int64_t number, int64_t done_ns, enum status status)
{
    struct record *record = &kept->requests->rows[number];
    assert(record->status == STATUS_OPEN);
    record->done_ns = done_ns;
    record->status = status;
    kept->n_unfinished -= status != STATUS_OPEN;
}

static void send_request_of(struct replay *replay, int fd, int64_t number)
{
    struct record *record = &replay->kept.requests->rows[number];
    replay->kept.users[user_of(replay, fd)].under_way = number;
    record->connected_ns = now_ns(replay);
    conversation_ask(replay, fd, record->intended_ns);
}

void kept_request_due(struct replay *replay)
{
    struct kept *kept = &replay->kept;
    int64_t number = kept->requests->n++;
    const struct trace_request *request = &replay->trace->requests[number];
    struct kept_user *user = &kept->users[request->user];
    kept->requests->rows[number] = (struct record){
        request->due_ns, now_ns(replay), NOT_REACHED, NOT_REACHED, STATUS_OPEN,
    };
    kept->behind[number] = NONE;
    kept->n_unfinished++;
    if (user->fd != NONE && user->under_way == NONE) {
        send_request_of(replay, user->fd, number);
        return;
    }
    kept->n_waited++;
    *(user->first == NONE ? &user->first : &kept->behind[user->last]) = number;
    user->last = number;
}

void kept_send_next(struct replay *replay, int fd)
{
    struct kept *kept = &replay->kept;
    struct kept_user *user = &kept->users[user_of(replay, fd)];
    replay->connections[fd].phase = PHASE_AT_REST;
    while (user->first != NONE) {
        int64_t number = user->first;
        user->first = kept->behind[number];
        /* Its time-out may have passed already. */
        if (kept->requests->rows[number].status == STATUS_OPEN) {
            send_request_of(replay, fd, number);
            return;
        }
    }
}

void kept_connected(struct replay *replay, int fd)
{
    replay->kept.n_settled += !replay->kept.has_begun;
    replay->kept.users[user_of(replay, fd)].fd = fd;
    kept_send_next(replay, fd);
}

void kept_replied(struct replay *replay, int fd, int64_t done_ns)
{
    struct kept_user *user = &replay->kept.users[user_of(replay, fd)];
    conclude_request(&replay->kept, user->under_way, done_ns, STATUS_REPLIED);
    user->under_way = NONE;
}

void kept_ended(struct replay *replay, int64_t index, enum status status)
{
    struct kept *kept = &replay->kept;
    int64_t number = replay->attempts[index].user;
    struct kept_user *user = &kept->users[number];
    bool was_open = replay->records->rows[index].connected_ns != NOT_REACHED;
    if (user->under_way != NONE) {
        conclude_request(kept, user->under_way, NOT_REACHED, status);
        user->under_way = NONE;
    }
    user->fd = NONE;
    if (!kept->has_begun) {
        kept->n_settled += !was_open;
    } else if (status != STATUS_OPEN) {
        due_add(&replay->due, now_ns(replay) + (was_open ? 0 : again_ns), DUE_AGAIN, number);
    }
}

void kept_expire(struct replay *replay)
{
    struct kept *kept = &replay->kept;
    int64_t limit_ns = now_ns(replay) - replay->options->timeout_ns;
    for (; kept->next_expiring < kept->requests->n; kept->next_expiring++) {
        const struct record *record = &kept->requests->rows[kept->next_expiring];
        struct kept_user *user = &kept->users[replay->trace->requests[kept->next_expiring].user];
        if (record->intended_ns > limit_ns) {
            return;
        }
        if (record->status != STATUS_OPEN) {
            continue;
        }
        if (user->under_way == kept->next_expiring) {
            connection_finish(replay, user->fd, STATUS_TIMEOUT);
        } else {
            conclude_request(kept, kept->next_expiring, NOT_REACHED, STATUS_TIMEOUT);
        }
    }
}
