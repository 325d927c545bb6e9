/* The limit of the benchmark: the model of level-triggered epoll with free clients, by hand.
 *
 *   calendar (4-ary heap) ─► packet ─► interrupt ─► accept queue, ready list
 *   server: wait ─► accept ─► watch ... read ─► user code ─► write ─► unwatch ─► close
 *
 * Nothing is general: one worker, one mechanism, no client that costs CPU or times out, no finite wire,
 * no reply that does not fit the send buffer. What is left happens as in sim/ and
 * models/epoll/epoll_level.py, to the nanosecond, and the same is recorded. The server's time goes from
 * step to step in a register, a step is one addition and one comparison while nothing is due, a
 * connection is one cache line, and no memory is taken while the run lasts.
 */
#include "epoll_by_hand.h"

#include <string.h>

/* -- packets -- */

inlined int64_t interrupt(struct run *r, int64_t packet_ns)
{
    int64_t begin_ns = r->irq_free_ns;
    int64_t cost_ns = packet_ns;
    if (begin_ns < r->now_ns) {
        begin_ns = r->now_ns + (r->idle ? r->in.idle_exit_ns : 0);
        cost_ns += r->in.entry_ns;
        r->counts[INTERRUPTS]++;
        r->irq_begin_ns = begin_ns;
        r->n_at_once = 0;
    }
    r->n_at_once++;
    int64_t end_ns = begin_ns + cost_ns;
    r->counts[PACKETS]++;
    if (r->idle) {
        r->ledger_ns[IDLE] += begin_ns - r->idle_from_ns;
        r->ledger_ns[INTERRUPT_IDLE] += cost_ns;
        r->idle_from_ns = end_ns;
    } else {
        r->ledger_ns[INTERRUPT] += cost_ns;
        r->stolen_ns += cost_ns;
    }
    r->irq_free_ns = end_ns;
    return end_ns;
}

/* Its client repeats the request of a connection that found no room. */
static void repeat_request(struct run *r, uint64_t c)
{
    struct connection *connection = &r->connections[c];
    uint32_t n = connection->n_tries;
    if (n < DATA_RETRIES_MAX) {
        /* the first time-out is that of a probe */
        int64_t wait_ns = (DATA_RETRY_NS + 2 * r->in.delay_ns) << (n > 0 ? n - 1 : 0);
        schedule(r, r->now_ns + (wait_ns < RETRY_MAX_NS ? wait_ns : RETRY_MAX_NS), REQUEST, c);
        connection->n_tries++;
    }
}

static void leave_half_open(struct run *r, const struct connection *connection)
{
    r->n_half--;
    r->n_old -= connection->syn_acks > 1;
}

/* Queue a connection whose handshake is complete; return whether it had room. */
static bool enters_queue(struct run *r, uint64_t c)
{
    struct connection *connection = &r->connections[c];
    if (unlikely((int64_t)r->n_queued > r->in.backlog)) {
        r->counts[ACK_DROPS]++;
        return false;
    }
    if (likely(connection->stage == HALF_OPEN)) {
        leave_half_open(r, connection);
    }
    connection->stage = QUEUED;
    r->queue[(r->first_queued + r->n_queued++) & r->queue_mask] = (uint32_t)c;
    post(r, LISTENER);
    return true;
}

/* Answer the client of a forgotten connection with a reset. */
static void answer_with_reset(struct run *r, uint64_t c)
{
    schedule(r, r->now_ns + r->in.delay_ns, RST, c);
}

inlined void request_arrives(struct run *r, uint64_t c)
{
    interrupt(r, r->in.data_ns);
    uint8_t stage = r->connections[c].stage;
    if (unlikely(stage != ACCEPTED && stage != QUEUED)) {
        if (stage == EXPIRED) {
            answer_with_reset(r, c);
            return;
        }
        if (!enters_queue(r, c)) {
            repeat_request(r, c);
            return;
        }
    }
    r->connections[c].n_tries = 0;
    r->n_unread += !r->connections[c].pending;
    r->connections[c].pending = true;
    if (r->connections[c].stage == ACCEPTED) {
        post(r, r->connections[c].fd);
    }
}

inlined void ack_arrives(struct run *r, uint64_t c)
{
    struct connection *connection = &r->connections[c];
    bool is_cold = r->n_at_once == 1 && r->irq_free_ns >= r->now_ns;
    interrupt(r, r->in.ack_ns + (is_cold ? r->in.cold_ns : 0));
    if (unlikely(connection->stage != HALF_OPEN && connection->stage != BY_COOKIE)) {
        if (connection->stage == EXPIRED) {
            answer_with_reset(r, c);
        }
        return;
    }
    bool has_request = connection->n_tries == 0; /* it comes with the ACK, as the client costs no time */
    bool was_queued = enters_queue(r, c);
    if (unlikely(!was_queued && connection->stage == HALF_OPEN && connection->syn_acks == 0)) {
        connection->syn_acks = 1;
        int64_t due_ns = connection->connected_ns - r->in.delay_ns + SECOND_NS;
        schedule(r, due_ns > r->now_ns ? due_ns : r->now_ns, SYN_ACK_TIMER, c);
    }
    if (likely(was_queued && has_request)) {
        request_arrives(r, c);
    } else if (has_request) {
        repeat_request(r, c);
    }
}

static int syn_ack_retries_max(const struct run *r)
{
    int n_retries = SYN_ACK_RETRIES_MAX;
    uint64_t backlog = (uint64_t)r->in.backlog;
    if (2 * r->n_half > (backlog > 8 ? backlog : 8)) {
        uint64_t young = 2 * (r->n_half - r->n_old);
        while (n_retries > SYN_ACK_RETRIES_LEAST && r->n_half >= young) {
            n_retries--;
            young *= 2;
        }
    }
    return n_retries;
}

/* Answer a half-open connection once more, or forget it. */
static void syn_ack_timer(struct run *r, uint64_t c)
{
    struct connection *connection = &r->connections[c];
    if (connection->stage != HALF_OPEN) {
        connection->syn_acks = 0;
        return;
    }
    int n_expired = connection->syn_acks - 1;
    if (n_expired >= syn_ack_retries_max(r)) {
        leave_half_open(r, connection);
        connection->stage = EXPIRED;
        connection->syn_acks = 0;
        r->counts[HALF_OPEN_EXPIRED]++;
        return;
    }
    r->n_old += n_expired == 0;
    connection->syn_acks++;
    schedule(r, r->now_ns + 2 * r->in.delay_ns, ACK, c);
    schedule(r, r->now_ns + (SECOND_NS << (n_expired + 1)), SYN_ACK_TIMER, c);
}

/* No SYN got a SYN-ACK, or a reset came: the user of a closed loop starts again. */
static void fails(struct run *r, struct connection *connection)
{
    connection->done_ns = r->now_ns;
    if (r->in.users > 0) {
        int64_t pause_ns = connection->think_ns > 1 ? connection->think_ns : 1;
        schedule(r, r->now_ns + pause_ns, START, 0);
    }
}

inlined void syn_arrives(struct run *r, uint64_t c)
{
    struct connection *connection = &r->connections[c];
    if (r->in.users == 0 && c == r->n_started - 1) {
        plan_arrival(r);
    }
    if (unlikely(connection->n_tries > SYN_RETRIES_MAX)) {
        fails(r, connection);
        return;
    }
    int64_t handled_ns = interrupt(r, r->in.syn_ns);
    if (unlikely((int64_t)r->n_queued > r->in.backlog)) { /* half open: SYN cookies */
        r->counts[SYN_DROPS]++;
        int64_t again_ns = r->now_ns + (SECOND_NS << connection->n_tries);
        /* After the last nothing is sent: connect() fails over there. */
        again_ns -= connection->n_tries == SYN_RETRIES_MAX ? r->in.delay_ns : 0;
        connection->n_tries++;
        schedule(r, again_ns, SYN, c);
        return;
    }
    bool by_cookie = (int64_t)r->n_half > r->in.backlog;
    connection->stage = by_cookie ? BY_COOKIE : HALF_OPEN;
    connection->n_tries = 0;
    connection->connected_ns = handled_ns + r->in.delay_ns;
    r->n_half += !by_cookie;
    if (r->in.delay_ns == 0) {
        ack_arrives(r, c); /* while the softirq is at it */
    } else {
        schedule(r, connection->connected_ns + r->in.delay_ns, ACK, c);
    }
}

static void take_sample(struct run *r)
{
    int64_t *row = r->samples + SAMPLE_COLUMNS * r->n_samples++;
    row[0] = r->now_ns;
    row[1] = (int64_t)r->n_half;
    row[2] = (int64_t)r->n_queued;
    row[3] = (int64_t)(r->n_ready - r->n_stale);
    row[4] = r->counts[CONNECTIONS_OPEN];
    row[5] = r->n_unread;
    row[6] = r->n_watched;
    schedule(r, r->now_ns + r->in.sample_every_ns, SAMPLE, 0);
}

/* Execute the next due event; return whether the run goes on. */
inlined bool happen(struct run *r)
{
    entry due = pop(r);
    uint64_t c = (uint64_t)due & CONNECTION_MASK;
    r->now_ns = (int64_t)(due >> TIME_SHIFT);
    switch ((enum kind)((uint64_t)due >> KIND_SHIFT)) {
    case SYN:
        syn_arrives(r, c);
        break;
    case GONE:
        interrupt(r, r->in.reset_ns);
        if (r->connections[c].stage == ACCEPTED) {
            post(r, r->connections[c].fd);
        }
        break;
    case START:
        if (r->n_started < (uint64_t)r->in.n_connections) {
            start_next(r, r->now_ns);
        }
        break;
    case REQUEST:
        request_arrives(r, c);
        break;
    case ACK:
        ack_arrives(r, c);
        break;
    case RST:
        if (r->connections[c].done_ns < 0) {
            fails(r, &r->connections[c]);
        }
        break;
    case SYN_ACK_TIMER:
        syn_ack_timer(r, c);
        break;
    case SAMPLE:
        take_sample(r);
        break;
    case MARK:
        r->mark_ns = r->now_ns;
        by_hand_ledger(r, r->ledger_mark_ns);
        memcpy(r->counts_mark, r->counts, sizeof r->counts);
        break;
    case END:
        r->now_ns = r->in.duration_ns;
        return false;
    }
    return true;
}

/* -- the server: each step takes the time at which it begins and returns when it ends -- */

/* Let all happen that is due before a step ends, each time anew if it was an interrupt. */
static __attribute__((noinline)) int64_t interrupted(struct run *r, int64_t begin_ns,
                                                     int64_t cost_ns, enum activity activity)
{
    int64_t stolen_ns = r->stolen_ns;
    int64_t done_ns = begin_ns + cost_ns;
    r->step_begin_ns = begin_ns;
    r->step_stolen_ns = stolen_ns;
    r->activity = activity;
    do {
        if (!happen(r)) {
            return STOPPED;
        }
        done_ns = begin_ns + cost_ns + r->stolen_ns - stolen_ns;
    } while (next_ns(r) <= done_ns);
    return done_ns;
}

/* Spend cost on activity, from the now_ns of the calling function; leave it at the end. */
#define STEP(of_activity, cost)                                                                    \
    do {                                                                                           \
        int64_t cost_ns_ = (cost);                                                                 \
        int64_t done_ns_ = now_ns + cost_ns_;                                                      \
        if (unlikely(next_ns(r) <= done_ns_)) {                                                    \
            done_ns_ = interrupted(r, now_ns, cost_ns_, of_activity);                              \
            if (unlikely(done_ns_ == STOPPED)) {                                                   \
                return STOPPED;                                                                    \
            }                                                                                      \
        }                                                                                          \
        now_ns = done_ns_;                                                                         \
        r->ledger_ns[of_activity] += cost_ns_;                                                     \
    } while (0)

/* The same, but a call that costs nothing is no step: nothing happens in it (sim/state/mechanism.py). */
#define SPEND(of_activity, cost)                                                                   \
    do {                                                                                           \
        int64_t spent_ns_ = (cost);                                                                \
        if (likely(spent_ns_ > 0)) {                                                               \
            STEP(of_activity, spent_ns_);                                                          \
        }                                                                                          \
    } while (0)

/* Idle until a descriptor calls and the interrupt that it came in is over. */
inlined int64_t block(struct run *r, int64_t now_ns)
{
    r->counts[SLEEPS]++;
    r->idle = true;
    r->idle_from_ns = now_ns;
    int64_t resume_ns = now_ns;
    while (!r->woken || next_ns(r) <= resume_ns) {
        if (!happen(r)) {
            return STOPPED;
        }
        resume_ns = r->now_ns > r->irq_free_ns ? r->now_ns : r->irq_free_ns;
    }
    r->ledger_ns[IDLE] += resume_ns - r->idle_from_ns;
    r->idle = false;
    return resume_ns;
}

inlined int64_t wait_for_events(struct run *r, int64_t now_ns)
{
    r->counts[WAITS]++;
    STEP(WAIT, r->in.call_ns); /* also if it costs nothing: it finds what is due now */
    int64_t n_vain = take_ready(r);
    while (r->n_found == 0) {
        SPEND(WAIT, n_vain * r->in.recheck_ns);
        if (r->n_ready == 0) {
            r->woken = false;
            SPEND(SLEEP, r->in.sleep_ns);
            if (!r->woken) {
                now_ns = block(r, now_ns);
                if (unlikely(now_ns == STOPPED)) {
                    return STOPPED;
                }
            }
            SPEND(WAKE, r->in.wake_ns);
        }
        n_vain = take_ready(r);
    }
    SPEND(WAIT, r->n_found * r->in.event_ns + n_vain * r->in.recheck_ns);
    return now_ns;
}

inlined int64_t accept_connections(struct run *r, int64_t now_ns)
{
    for (;;) {
        bool found_empty = r->n_queued == 0;
        SPEND(ACCEPT, found_empty ? r->in.accept_again_ns : r->in.accept_ns);
        if (r->n_queued == 0) {
            r->counts[ACCEPT_AGAIN]++;
            return now_ns;
        }
        uint32_t fd = open_fd(r);
        uint32_t c = r->queue[r->first_queued++ & r->queue_mask];
        struct descriptor *d = &r->descriptors[fd];
        if (--r->n_queued == 0) {
            r->descriptors[LISTENER].readable = false;
        }
        r->counts[ACCEPTS]++;
        r->counts[CONNECTIONS_OPEN]++;
        r->connections[c].stage = ACCEPTED;
        r->connections[c].fd = fd;
        d->connection = c;
        d->readable = r->connections[c].pending;
        if (unlikely(found_empty)) {
            SPEND(ACCEPT, r->in.accept_ns - r->in.accept_again_ns);
        }
        r->counts[WATCHES]++;
        SPEND(WATCH, r->in.add_ns);
        d->watched = true;
        r->n_watched++;
        if (d->readable) {
            list_ready(r, fd);
        }
    }
}

/* Let the client of c have its reply at once: nothing can hold it up. */
inlined void reply(struct run *r, struct connection *connection, int64_t now_ns, uint32_t c)
{
    int64_t at_client_ns = now_ns + r->in.delay_ns;
    uint64_t request = connection->first_request + connection->n_requests - connection->n_left;
    r->reply_ns[request] = at_client_ns;
    r->counts[REPLIES]++;
    if (--connection->n_left > 0) {
        r->due_ns[request + 1] = at_client_ns + connection->think_ns;
        schedule(r, at_client_ns + connection->think_ns + r->in.delay_ns, REQUEST, c);
        return;
    }
    connection->done_ns = at_client_ns;
    schedule(r, at_client_ns + r->in.delay_ns, GONE, c);
    if (r->in.users > 0) {
        schedule(r, at_client_ns + connection->think_ns, START, 0);
    }
}

/* An event is of a request that waits whole: free clients never hang up before their reply. */
inlined int64_t serve_connection(struct run *r, int64_t now_ns, uint32_t fd)
{
    struct descriptor *d = &r->descriptors[fd];
    uint32_t c = d->connection;
    struct connection *connection = &r->connections[c];
    SPEND(READ, r->in.read_ns);
    r->counts[READS]++;
    connection->pending = false;
    r->n_unread--;
    d->readable = false;
    SPEND(USER, r->in.request_ns);
    SPEND(WRITE, connection->write_ns);
    r->counts[WRITES]++;
    reply(r, connection, now_ns, c);
    if (connection->n_left > 0) {
        return now_ns;
    }
    r->counts[UNWATCHES]++;
    SPEND(UNWATCH, r->in.delete_ns);
    d->watched = false;
    r->n_watched--;
    r->n_stale += d->listed != 0;
    d->listed = 0;
    SPEND(CLOSE, r->in.close_ns);
    r->counts[CLOSES]++;
    r->counts[CONNECTIONS_OPEN]--;
    close_fd(r, fd);
    d->readable = false;
    connection->stage = CLOSED;
    return now_ns;
}

int64_t by_hand_run(struct run *r)
{
    int64_t now_ns = 0;
    for (;;) {
        now_ns = wait_for_events(r, now_ns);
        if (now_ns != STOPPED && r->listener_is_event) {
            now_ns = accept_connections(r, now_ns);
        }
        for (uint64_t i = 0; now_ns != STOPPED && i < r->n_events; i++) {
            now_ns = serve_connection(r, now_ns, r->events[i]);
        }
        if (now_ns == STOPPED) {
            return STOPPED;
        }
    }
}
