/* The state of epoll_by_hand.c and its containers: calendar, free descriptors, ready list. */
#ifndef EPOLL_BY_HAND_H
#define EPOLL_BY_HAND_H

#include <stdbool.h>
#include <stdint.h>

/* Rank of what the calendar holds: the order at one nanosecond, as in sim/state/kinds.py. The end is due
 * one nanosecond after the last of the run, and before all else that is due then. */
enum kind {
    END = 0, START = 1, SYN = 2, ACK = 4, REQUEST = 5, GONE = 8, MARK = 11, SAMPLE = 12, RST = 13,
    SYN_ACK_TIMER = 14
};

enum activity {
    USER, WAIT, ACCEPT, READ, WRITE, CLOSE, WATCH, REWATCH, UNWATCH, SLEEP, WAKE, INTERRUPT,
    INTERRUPT_IDLE, IDLE, N_ACTIVITIES
};

enum count {
    WAITS, EVENTS, ACCEPTS, ACCEPT_AGAIN, ACCEPT_NO_FD, READS, READ_AGAIN, WRITES, WRITE_SHORT,
    WATCHES, REWATCHES, UNWATCHES, CLOSES, REPLIES, CONNECTIONS_OPEN, INTERRUPTS, PACKETS,
    SYN_DROPS, ACK_DROPS, SLEEPS, SCANNED, REGISTERED, RECHECKED, HALF_OPEN_EXPIRED, N_COUNTS
};

enum stage { STAGE_NONE, HALF_OPEN, QUEUED, ACCEPTED, CLOSED, BY_COOKIE, EXPIRED };
enum { LISTENER = 3, FIRST_IDLE = 5 }; /* 4 is the epoll instance */
enum { SYN_ACK_RETRIES_MAX = 5, SYN_ACK_RETRIES_LEAST = 2, DATA_RETRIES_MAX = 15 };
enum { SYN_RETRIES_MAX = 6, SAMPLE_COLUMNS = 7, CACHE_LINE = 64, N_BLOCKS = 8 };

#define SECOND_NS INT64_C(1000000000)
#define DATA_RETRY_NS INT64_C(200000000)
#define RETRY_MAX_NS (120 * SECOND_NS)
#define STOPPED INT64_C(-1)
#define likely(condition) __builtin_expect((condition), 1)
#define unlikely(condition) __builtin_expect((condition), 0)
#define inlined static inline __attribute__((always_inline))

/* An entry of the calendar is its own key: time (64 bits), kind (4), sequence number (34) and
 * connection (26). One comparison decides, and four siblings share a cache line. */
__extension__ typedef unsigned __int128 entry;
enum { KIND_SHIFT = 60, SEQUENCE_SHIFT = 26, TIME_SHIFT = 64 };
#define CONNECTION_MASK ((UINT64_C(1) << SEQUENCE_SHIFT) - 1)

/* Field by field what by_hand.py hands over: int64 only. */
struct input {
    int64_t entry_ns, syn_ns, ack_ns, data_ns, reset_ns, idle_exit_ns, sleep_ns, wake_ns;
    int64_t accept_ns, accept_again_ns, read_ns, write_ns, write_kib_ns, close_ns, request_ns;
    int64_t call_ns, event_ns, recheck_ns, add_ns, delete_ns, cold_ns;
    int64_t backlog, max_events, delay_ns, idle, users, duration_ns, warm_up_ns, sample_every_ns;
    int64_t n_connections, n_requests;
};

struct connection {
    int64_t intended_ns;
    int64_t connected_ns;
    int64_t done_ns;
    int64_t think_ns;
    int64_t write_ns; /* cost of writing its reply */
    uint32_t first_request;
    uint32_t n_requests;
    uint32_t n_left; /* requests without a reply */
    uint32_t fd;
    uint32_t n_tries;
    uint8_t stage;
    uint8_t syn_acks; /* half open: how often its timer has expired, plus 1; 0: none runs */
    bool pending; /* a whole request waits in the receive buffer */
};

struct descriptor {
    int64_t listed; /* its place on the ready list, counted from one; 0: not on it */
    uint32_t connection;
    bool readable;
    bool watched;
};

struct run {
    struct input in;
    entry *heap;
    uint64_t n_heap;
    uint64_t sequence;
    int64_t now_ns; /* of what happens; the server's own is an argument of its steps */
    struct connection *connections;
    struct descriptor *descriptors;
    uint64_t n_descriptors;
    uint64_t n_started;
    /* the CPU */
    int64_t idle_from_ns, irq_begin_ns, irq_free_ns, stolen_ns, step_begin_ns, step_stolen_ns;
    uint64_t n_at_once; /* packets of the interrupt so far */
    enum activity activity; /* of the step that was interrupted last */
    bool idle, woken, listener_is_event;
    int64_t ledger_ns[N_ACTIVITIES], ledger_mark_ns[N_ACTIVITIES];
    int64_t counts[N_COUNTS], counts_mark[N_COUNTS];
    int64_t mark_ns;
    /* the accept queue and the ready list: rings of a power of two */
    uint32_t *queue, *ready, *events;
    uint64_t queue_mask, first_queued, n_queued, n_half, n_old;
    uint64_t ready_mask, first_ready, n_ready, n_stale, n_events;
    int64_t n_found; /* the events, and the listener if it is one */
    /* free descriptors: a bit each, and a bit for each word that has any */
    uint64_t *free_fds, *free_words, first_free_word;
    /* records that the caller owns */
    int64_t *due_ns, *reply_ns, *samples;
    uint64_t n_samples;
    int64_t n_unread, n_watched;
    void *blocks[N_BLOCKS];
    int n_blocks;
    int64_t n_bytes;
};

int64_t by_hand_run(struct run *r);
void by_hand_ledger(const struct run *r, int64_t *into_ns);

/* -- the calendar: entries behind the last are all ones, so that a parent has four children -- */

inlined int64_t next_ns(const struct run *r)
{
    return (int64_t)(r->heap[0] >> TIME_SHIFT);
}

inlined void schedule(struct run *r, int64_t at_ns, enum kind kind, uint64_t connection)
{
    uint64_t key = (uint64_t)kind << KIND_SHIFT | ++r->sequence << SEQUENCE_SHIFT | connection;
    entry pushed = (entry)(uint64_t)at_ns << TIME_SHIFT | key;
    uint64_t i = r->n_heap++;
    while (i > 0 && pushed < r->heap[(i - 1) / 4]) {
        r->heap[i] = r->heap[(i - 1) / 4];
        i = (i - 1) / 4;
    }
    r->heap[i] = pushed;
}

inlined entry pop(struct run *r)
{
    entry *heap = r->heap;
    entry first = heap[0];
    uint64_t n = --r->n_heap;
    entry moved = heap[n];
    heap[n] = ~(entry)0;
    uint64_t i = 0;
    for (uint64_t child = 1; child < n; child = 4 * i + 1) {
        uint64_t left = child + (heap[child + 1] < heap[child]);
        uint64_t right = child + 2 + (heap[child + 3] < heap[child + 2]);
        uint64_t least = heap[right] < heap[left] ? right : left;
        if (moved < heap[least]) {
            break;
        }
        heap[i] = heap[least];
        i = least;
    }
    if (n > 0) {
        heap[i] = moved;
    }
    return first;
}

/* Have the next connection of the trace on its way at at_ns. */
inlined void start_next(struct run *r, int64_t at_ns)
{
    uint64_t c = r->n_started++;
    r->connections[c].intended_ns = at_ns;
    r->due_ns[r->connections[c].first_request] = at_ns;
    schedule(r, at_ns + r->in.delay_ns, SYN, c);
}

/* An open loop plans one arrival ahead, whose time the trace has put in its place. */
inlined void plan_arrival(struct run *r)
{
    if (r->n_started < (uint64_t)r->in.n_connections) {
        start_next(r, r->connections[r->n_started].intended_ns);
    }
}

/* -- free descriptors: the lowest first -- */

inlined uint64_t lowest_bit(uint64_t word)
{
    return (uint64_t)__builtin_ctzll(word);
}

inlined uint32_t open_fd(struct run *r)
{
    while (r->free_words[r->first_free_word] == 0) {
        r->first_free_word++;
    }
    uint64_t word = r->first_free_word * 64 + lowest_bit(r->free_words[r->first_free_word]);
    uint64_t fd = word * 64 + lowest_bit(r->free_fds[word]);
    r->free_fds[word] &= r->free_fds[word] - 1;
    if (r->free_fds[word] == 0) {
        r->free_words[word / 64] &= ~(UINT64_C(1) << word % 64);
    }
    return (uint32_t)fd;
}

inlined void close_fd(struct run *r, uint64_t fd)
{
    r->free_fds[fd / 64] |= UINT64_C(1) << fd % 64;
    r->free_words[fd / 4096] |= UINT64_C(1) << fd / 64 % 64;
    if (fd / 4096 < r->first_free_word) {
        r->first_free_word = fd / 4096;
    }
}

/* -- the ready list -- */

static void drop_stale(struct run *r)
{
    uint64_t n_kept = 0;
    for (uint64_t i = r->first_ready; i < r->first_ready + r->n_ready; i++) {
        uint32_t fd = r->ready[i & r->ready_mask];
        if (r->descriptors[fd].listed == (int64_t)i + 1) {
            uint64_t position = r->first_ready + n_kept++;
            r->ready[position & r->ready_mask] = fd;
            r->descriptors[fd].listed = (int64_t)position + 1;
        }
    }
    r->n_ready = n_kept;
    r->n_stale = 0;
}

inlined void list_ready(struct run *r, uint32_t fd)
{
    struct descriptor *d = &r->descriptors[fd];
    if (d->listed != 0) {
        return;
    }
    if (unlikely(r->n_ready == r->n_descriptors)) {
        drop_stale(r);
    }
    uint64_t position = r->first_ready + r->n_ready++;
    r->ready[position & r->ready_mask] = fd;
    d->listed = (int64_t)position + 1;
}

/* Mark fd readable; have it on the list, and the server woken, if it is watched. */
inlined void post(struct run *r, uint32_t fd)
{
    struct descriptor *d = &r->descriptors[fd];
    d->readable = true;
    if (d->watched) {
        list_ready(r, fd);
        r->woken = true;
    }
}

/* Fill the events and return the checks that find nothing; what was returned stays, at the tail. */
inlined int64_t take_ready(struct run *r)
{
    int64_t n_vain = 0;
    int64_t n_found = 0;
    uint64_t n_events = 0;
    r->listener_is_event = false;
    for (uint64_t n = r->n_ready; n > 0 && n_found < r->in.max_events; n--) {
        uint32_t fd = r->ready[r->first_ready++ & r->ready_mask];
        struct descriptor *d = &r->descriptors[fd];
        r->n_ready--;
        if (d->listed != (int64_t)r->first_ready) {
            r->n_stale--;
            continue;
        }
        d->listed = 0;
        if (!d->readable) {
            n_vain++;
            continue;
        }
        list_ready(r, fd);
        n_found++;
        if (fd == LISTENER) {
            r->listener_is_event = true;
        } else {
            r->events[n_events++] = fd;
        }
    }
    r->n_events = n_events;
    r->n_found = n_found;
    r->counts[EVENTS] += n_found;
    r->counts[RECHECKED] += n_vain;
    return n_vain;
}

#endif
