/* Connections of a replay, and idle ones, by packets: joins far.h to load/transport.h. */
#include "../load/replay_state.h"
#include "far.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    IDLE_BATCH = 64, /* under way at once: below any sane backlog */
};

static const int64_t idle_ns_max = 20 * NS_PER_S; /* for one batch of them */

/* Open the idle connections, a batch at a time, so that the server's backlog does not overflow. */
static void open_idle(struct replay *replay)
{
    struct far *far = replay->far;
    int64_t n_wanted = far->options->n_idle;
    int64_t n_begun = 0;
    int64_t limit_ns = 0;
    while (far->n_idle < n_wanted && far->n_idle_lost == 0 && !stop_requested()) {
        if (n_begun == far->n_idle) {
            limit_ns = now_ns(replay) + idle_ns_max;
            for (int i = 0; i < IDLE_BATCH && n_begun < n_wanted; i++) {
                int32_t slot = far_connect(far, NULL);
                if (slot == NO_SLOT) {
                    fail("only %lld connections are possible at once", (long long)n_begun);
                }
                far->peers.slots[slot].is_idle = true;
                n_begun++;
            }
        }
        transport_flush(replay);
        transport_handle_events(replay);
        if (now_ns(replay) > limit_ns) {
            break;
        }
    }
    if (far->n_idle < n_wanted && !stop_requested()) {
        fail("only %lld of %lld idle connections could be established", (long long)far->n_idle,
             (long long)n_wanted);
    }
}

void transport_prepare(struct replay *replay)
{
    const struct replay_options *options = replay->options;
    struct far *far = calloc(1, sizeof *far);
    if (far == NULL) {
        fail("out of memory");
    }
    replay->far = far;
    far->options = options->far;
    far->owner = replay;
    replay->n_fds = options->fds_max + far->options->n_idle;
    far_open(far, &options->address, replay->n_fds);
    open_idle(replay);
}

int transport_open(struct replay *replay, struct record *record, bool *pending)
{
    int32_t slot = far_connect(replay->far, &record->started_ns);
    if (slot == NO_SLOT) {
        errno = EADDRNOTAVAIL;
        return -1;
    }
    record->started_ns = now_ns(replay); /* until the flush records the real time */
    *pending = true;
    return slot;
}

void transport_watch(struct replay *replay, int fd, int64_t index)
{
    (void)replay; /* all are looked at */
    (void)fd;
    (void)index;
}

ssize_t transport_send(struct replay *replay, int fd, const char *bytes, size_t n_bytes)
{
    const struct peer *peer = &replay->far->peers.slots[fd];
    if (peer->state != PEER_OPEN) {
        errno = ECONNRESET;
        return -1;
    }
    if (replay->connections[fd].n_sent == 0) {
        tcp_begin_request(replay->far, fd);
    }
    size_t n_sent = tcp_send(replay->far, fd, bytes, n_bytes);
    if (n_sent == 0) {
        errno = EAGAIN;
        return -1;
    }
    return (ssize_t)n_sent;
}

void transport_close(struct replay *replay, int fd)
{
    tcp_abort(replay->far, fd);
}

void transport_flush(struct replay *replay)
{
    int n_frames = wire_flush(&replay->far->wire);
    wire_stamp(&replay->far->wire, n_frames, now_ns(replay));
    if (n_frames > 0) {
        piece_ends(replay, PIECE_SEND, n_frames);
    }
}

/* Handle up to FRAMES_AT_ONCE arrived frames; return whether there were any. */
static bool take_frames(struct replay *replay)
{
    int n_taken = 0;
    for (; n_taken < FRAMES_AT_ONCE && far_take_frame(replay->far); n_taken++) {
        piece_ends(replay, PIECE_EVENT, 1);
        if (replay->connections != NULL) {
            start_due(replay);
        }
    }
    return n_taken > 0;
}

void transport_handle_events(struct replay *replay)
{
    int64_t now_ms = to_ms(far_now_ns());
    bool did_something = take_frames(replay);
    while (far_take_timer(replay->far, now_ms)) {
        piece_ends(replay, PIECE_EVENT, 1);
        if (replay->connections != NULL) {
            start_due(replay);
        }
        did_something = true;
    }
    if (did_something) {
        transport_flush(replay);
    } else {
        piece_ends(replay, PIECE_NOTHING, 1);
    }
}

int64_t transport_n_idle(const struct replay *replay)
{
    return replay->far->n_idle;
}

void transport_end(struct replay *replay)
{
    struct far *far = replay->far;
    int64_t n_idle = far->n_idle;
    far_abort_all(far);
    replay->result.has_packets = true;
    replay->result.packets = (struct packet_counts){
        .n_sent = far->wire.n_sent,
        .n_flushes = far->wire.n_flushes,
        .n_received = far->wire.n_received,
        .n_dropped = wire_dropped(&far->wire),
        .n_syn_repeated = far->n_syn_repeated,
        .n_data_repeated = far->n_data_repeated,
        .n_idle = n_idle,
        .n_idle_lost = far->n_idle_lost,
    };
    far_close(far);
    free(far);
}

void far_flush(struct far *far)
{
    transport_flush(far->owner);
}

void peer_opened(struct far *far, int32_t slot)
{
    if (far->peers.slots[slot].is_idle) {
        far->n_idle++;
        wheel_clear(&far->wheel, slot);
    } else {
        conversation_open(far->owner, slot);
    }
}

void peer_writable(struct far *far, int32_t slot)
{
    if (!far->peers.slots[slot].is_idle) {
        conversation_go_on(far->owner, slot);
    }
}

bool peer_heard(struct far *far, int32_t slot, const struct segment *segment, uint32_t skip)
{
    struct replay *replay = far->owner;
    if (far->peers.slots[slot].is_idle) {
        return true; /* discarded, as the holder of idle sockets does */
    }
    size_t n_bytes = segment->n_data - skip;
    size_t n_there = segment->n_captured > skip ? segment->n_captured - skip : 0;
    /* Only the head of a reply is captured and checked: the rest is counted. */
    memcpy(replay->received, segment->data + (n_there > 0 ? skip : 0), n_there);
    int64_t record = replay->connections[slot].record;
    bool goes_on = conversation_hear(replay, slot, replay->received, n_bytes);
    const struct connection *connection = &replay->connections[slot];
    return goes_on || (connection->phase != PHASE_FREE && connection->record == record);
}

void peer_ended(struct far *far, int32_t slot, int error)
{
    struct replay *replay = far->owner;
    if (!far->peers.slots[slot].is_idle) {
        if (error != 0 && error != ECONNRESET) {
            connection_finish(replay, slot, status_of_error(error));
        } else {
            conversation_close(replay, slot, error);
        }
        return;
    }
    far->n_idle -= far->n_idle > 0;
    if (far->n_idle_lost++ == 0) {
        fprintf(stderr, "%s: the server closed an idle connection\n",
                program_invocation_short_name);
    }
    tcp_abort(far, slot);
}

size_t peer_request(struct far *far, int32_t slot, size_t offset, const char **bytes)
{
    struct replay *replay = far->owner;
    size_t n_bytes = conversation_request(replay, slot);
    *bytes = replay->request + (offset < n_bytes ? offset : n_bytes);
    return offset < n_bytes ? n_bytes - offset : 0;
}
