/* What comes before and after a run of epoll_by_hand.c: its memory, its first entries, its record.
 */
#include "epoll_by_hand.h"

#include <stdlib.h>
#include <string.h>

struct run *by_hand_create(const struct input *in, const int64_t *at_ns, const int64_t *requests,
                           const int64_t *reply_bytes, const int64_t *think_ns, int64_t *due_ns,
                           int64_t *reply_ns, int64_t *samples);
void by_hand_totals(const struct run *r, int64_t *totals);
void by_hand_record(const struct run *r, int64_t *intended_ns, int64_t *connected_ns,
                    int64_t *done_ns, int64_t *n_left, int64_t *was_reset, int64_t *ledger_ns, int64_t *ledger_mark_ns,
                    int64_t *counts, int64_t *counts_mark);
void by_hand_free(struct run *r);

/* Return n items of size bytes, all of them set to fill: no page is touched first in the run. */
static void *take(struct run *r, uint64_t n, uint64_t size, int fill)
{
    uint64_t n_bytes = (n * size + CACHE_LINE - 1) / CACHE_LINE * CACHE_LINE;
    void *taken = aligned_alloc(CACHE_LINE, n_bytes);
    if (taken == NULL) {
        abort();
    }
    r->blocks[r->n_blocks++] = memset(taken, fill, n_bytes);
    r->n_bytes += (int64_t)n_bytes;
    return taken;
}

static uint64_t power_of_two(uint64_t least)
{
    uint64_t size = 1;
    while (size < least) {
        size *= 2;
    }
    return size;
}

/* All but the five first descriptors and those of the idle population are free. */
static void free_descriptors(struct run *r)
{
    uint64_t n_words = (r->n_descriptors + 63) / 64;
    r->free_fds = take(r, n_words, sizeof *r->free_fds, 0);
    r->free_words = take(r, (n_words + 63) / 64, sizeof *r->free_words, 0);
    for (uint64_t fd = (uint64_t)(FIRST_IDLE + r->in.idle); fd < r->n_descriptors; fd++) {
        r->free_fds[fd / 64] |= UINT64_C(1) << fd % 64;
        r->free_words[fd / 4096] |= UINT64_C(1) << fd / 64 % 64;
    }
}

/* The idle population is connected and watched, as any connection is; nothing ever comes of it. */
static void connect_idle(struct run *r)
{
    for (uint32_t i = 0; i < r->in.idle; i++) {
        uint32_t c = (uint32_t)r->in.n_connections + i;
        uint32_t fd = FIRST_IDLE + i;
        r->connections[c] = (struct connection){
            .intended_ns = -1, .connected_ns = -1, .done_ns = -1, .fd = fd, .stage = ACCEPTED
        };
        r->descriptors[fd] = (struct descriptor){.connection = c, .watched = true};
    }
    r->counts[CONNECTIONS_OPEN] += r->in.idle;
    r->n_watched = r->in.idle + 1; /* the listener */
}

/* Return a run that is about to begin; the three arrays at the end are written to, not copied. */
struct run *by_hand_create(const struct input *in, const int64_t *at_ns, const int64_t *requests,
                           const int64_t *reply_bytes, const int64_t *think_ns, int64_t *due_ns,
                           int64_t *reply_ns, int64_t *samples)
{
    struct run *r = calloc(1, sizeof *r);
    if (r == NULL) {
        abort();
    }
    uint64_t n = (uint64_t)in->n_connections;
    uint64_t n_all = n + (uint64_t)in->idle;
    uint64_t n_users = (uint64_t)(in->users < in->n_connections ? in->users : in->n_connections);
    r->in = *in;
    r->irq_free_ns = -1;
    r->due_ns = due_ns;
    r->reply_ns = reply_ns;
    r->samples = samples;
    r->n_descriptors = n_all + 16;
    r->queue_mask = power_of_two((uint64_t)in->backlog + 2) - 1;
    r->ready_mask = power_of_two(r->n_descriptors) - 1;
    /* One entry a connection and one a user; three before the root put siblings on one line. */
    entry *heap = take(r, 3 + n + n_users + 16, sizeof *heap, 0xff);
    r->heap = heap + 3;
    r->connections = take(r, n_all, sizeof *r->connections, 0);
    r->descriptors = take(r, r->n_descriptors, sizeof *r->descriptors, 0);
    r->queue = take(r, r->queue_mask + 1, sizeof *r->queue, 0);
    r->ready = take(r, r->ready_mask + 1, sizeof *r->ready, 0);
    r->events = take(r, r->n_descriptors, sizeof *r->events, 0);
    free_descriptors(r);
    uint32_t first_request = 0;
    for (uint64_t c = 0; c < n; c++) {
        r->connections[c] = (struct connection){
            .intended_ns = at_ns[c],
            .connected_ns = -1,
            .done_ns = -1,
            .think_ns = think_ns[c],
            .write_ns = in->write_ns + reply_bytes[c] * in->write_kib_ns / 1024,
            .first_request = first_request,
            .n_requests = (uint32_t)requests[c],
            .n_left = (uint32_t)requests[c],
        };
        first_request += (uint32_t)requests[c];
    }
    connect_idle(r);
    r->descriptors[LISTENER].watched = true;
    schedule(r, in->duration_ns + 1, END, 0);
    if (in->warm_up_ns > 0) {
        schedule(r, in->warm_up_ns, MARK, 0);
    }
    if (in->sample_every_ns > 0) {
        schedule(r, 0, SAMPLE, 0);
    }
    if (in->users == 0) {
        plan_arrival(r);
    }
    for (uint64_t user = 0; user < n_users; user++) {
        schedule(r, 0, START, 0);
    }
    return r;
}

/* Write the ledger as of now: what was charged ahead is taken back, what runs is charged so far. */
void by_hand_ledger(const struct run *r, int64_t *into_ns)
{
    memcpy(into_ns, r->ledger_ns, sizeof r->ledger_ns);
    int64_t from_ns = r->now_ns > r->irq_begin_ns ? r->now_ns : r->irq_begin_ns;
    int64_t unfinished_ns = r->irq_free_ns > from_ns ? r->irq_free_ns - from_ns : 0;
    if (r->idle) {
        into_ns[INTERRUPT_IDLE] -= unfinished_ns;
        into_ns[IDLE] += r->now_ns + unfinished_ns - r->idle_from_ns;
    } else {
        into_ns[INTERRUPT] -= unfinished_ns;
        into_ns[r->activity] += r->now_ns - r->step_begin_ns;
        into_ns[r->activity] -= r->stolen_ns - r->step_stolen_ns - unfinished_ns;
    }
}

/* Write how many connections were started and samples taken, the mark, and the bytes held. */
void by_hand_totals(const struct run *r, int64_t *totals)
{
    totals[0] = (int64_t)r->n_started;
    totals[1] = (int64_t)r->n_samples;
    totals[2] = r->mark_ns;
    totals[3] = r->n_bytes;
}

/* Write the times of the connections that were started, and the accounts. */
void by_hand_record(const struct run *r, int64_t *intended_ns, int64_t *connected_ns,
                    int64_t *done_ns, int64_t *n_left, int64_t *was_reset, int64_t *ledger_ns,
                    int64_t *ledger_mark_ns, int64_t *counts, int64_t *counts_mark)
{
    for (uint64_t c = 0; c < r->n_started; c++) {
        intended_ns[c] = r->connections[c].intended_ns;
        connected_ns[c] = r->connections[c].connected_ns;
        done_ns[c] = r->connections[c].done_ns;
        n_left[c] = r->connections[c].n_left;
        was_reset[c] = r->connections[c].stage == EXPIRED && done_ns[c] >= 0;
    }
    by_hand_ledger(r, ledger_ns);
    memcpy(ledger_mark_ns, r->ledger_mark_ns, sizeof r->ledger_mark_ns);
    memcpy(counts, r->counts, sizeof r->counts);
    memcpy(counts_mark, r->counts_mark, sizeof r->counts_mark);
}

void by_hand_free(struct run *r)
{
    for (int i = 0; i < r->n_blocks; i++) {
        free(r->blocks[i]);
    }
    free(r);
}
