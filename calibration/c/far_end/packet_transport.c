/* Connections of a replay, and idle ones, by packets: what far.h shows, joined to load/transport.h. */
#include "far.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    FRAMES_MAX = 4, /* handled before the next flush: each is answered by two at most */
    IDLE_BATCH = 64, /* under way at once: below any sane backlog */
};

static const int64_t idle_ns_max = 20 * NS_PER_S; /* for one batch of them */

static int64_t read_setting(const char *name, int64_t otherwise)
{
    char path[128];
    char text[32] = "";
    int64_t value = otherwise;
    snprintf(path, sizeof path, "/proc/sys/net/ipv4/%s", name);
    FILE *file = fopen(path, "re");
    if (file == NULL) {
        return otherwise; /* a kernel from before it was there */
    }
    if (fgets(text, sizeof text, file) != NULL) {
        text[strcspn(text, "\n")] = '\0';
        value = parse_integer(text, &value) ? value : otherwise;
    }
    (void)fclose(file); /* it was only read */
    return value;
}

static int32_t begin(struct replay *replay, int64_t *stamped)
{
    int32_t slot = peers_take(&replay->far->peers);
    if (slot != NO_SLOT) {
        tcp_connect(replay, slot, stamped);
    }
    return slot;
}

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
                int32_t slot = begin(replay, NULL);
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
    far->server_ip = ntohl(options->address.sin_addr.s_addr);
    far->server_port = ntohs(options->address.sin_port);
    far->syn_linear = read_setting("tcp_syn_linear_timeouts", 0);
    far->syn_retries = read_setting("tcp_syn_retries", 6);
    replay->n_fds = options->fds_max + far->options->n_idle;
    peers_prepare(&far->peers, replay->n_fds, far->options->n_sources);
    wheel_prepare(&far->wheel, replay->n_fds, to_ms(replay, now_ns(replay)));
    wire_open(&far->wire, far->options->interface, far->server_ip, far->server_port);
    open_idle(replay);
}

int transport_open(struct replay *replay, struct record *record, bool *pending)
{
    int32_t slot = begin(replay, &record->started_ns);
    if (slot == NO_SLOT) {
        errno = EADDRNOTAVAIL;
        return -1;
    }
    record->started_ns = now_ns(replay); /* until the flush knows better */
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
        tcp_begin_request(replay, fd);
    }
    size_t n_sent = tcp_send(replay, fd, bytes, n_bytes);
    if (n_sent == 0) {
        errno = EAGAIN;
        return -1;
    }
    return (ssize_t)n_sent;
}

void transport_close(struct replay *replay, int fd)
{
    tcp_abort(replay, fd);
}

void transport_flush(struct replay *replay)
{
    int n_frames = wire_flush(&replay->far->wire, now_ns(replay));
    if (n_frames > 0) {
        piece_ends(replay, PIECE_SEND, n_frames);
    }
}

/* Handle up to FRAMES_MAX of what has arrived; return whether there was anything. */
static bool take_frames(struct replay *replay)
{
    struct wire *wire = &replay->far->wire;
    int n_taken = 0;
    for (; n_taken < FRAMES_MAX; n_taken++) {
        size_t n_captured = 0;
        struct segment segment;
        const uint8_t *frame = wire_next(wire, &n_captured);
        if (frame == NULL) {
            break;
        }
        if (segment_read(frame, n_captured, &segment)) {
            tcp_receive(replay, &segment);
        }
        wire_done(wire);
        piece_ends(replay, PIECE_EVENT, 1);
        if (replay->connections != NULL) {
            start_due(replay);
        }
    }
    return n_taken > 0;
}

void transport_handle_events(struct replay *replay)
{
    int64_t now_ms = to_ms(replay, now_ns(replay));
    bool did_something = take_frames(replay);
    for (int32_t slot; (slot = wheel_take(&replay->far->wheel, now_ms)) != WHEEL_NONE;) {
        tcp_timer(replay, slot);
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
    for (int64_t slot = 0; slot < far->peers.n_slots; slot++) {
        if (far->peers.slots[slot].state != PEER_FREE) {
            tcp_abort(replay, (int32_t)slot);
        }
    }
    transport_flush(replay);
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
    wire_close(&far->wire);
    peers_free(&far->peers);
    free(far->wheel.entries);
    free(far);
}

void peer_opened(struct replay *replay, int32_t slot)
{
    if (replay->far->peers.slots[slot].is_idle) {
        replay->far->n_idle++;
        wheel_clear(&replay->far->wheel, slot);
    } else {
        conversation_open(replay, slot);
    }
}

void peer_writable(struct replay *replay, int32_t slot)
{
    if (!replay->far->peers.slots[slot].is_idle) {
        conversation_go_on(replay, slot);
    }
}

bool peer_heard(struct replay *replay, int32_t slot, const struct segment *segment, uint32_t skip)
{
    if (replay->far->peers.slots[slot].is_idle) {
        return true; /* thrown away, as the holder of idle sockets does */
    }
    size_t n_bytes = segment->n_data - skip;
    size_t n_there = segment->n_captured > skip ? segment->n_captured - skip : 0;
    /* Only the head of a reply is captured, and looked at: the rest is counted. */
    memcpy(replay->received, segment->data + (n_there > 0 ? skip : 0), n_there);
    int64_t record = replay->connections[slot].record;
    bool goes_on = conversation_hear(replay, slot, replay->received, n_bytes);
    const struct connection *connection = &replay->connections[slot];
    return goes_on || (connection->phase != PHASE_FREE && connection->record == record);
}

void peer_ended(struct replay *replay, int32_t slot, int error)
{
    struct far *far = replay->far;
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
    tcp_abort(replay, slot);
}

size_t peer_request(struct replay *replay, int32_t slot, size_t offset, const char **bytes)
{
    size_t n_bytes = conversation_request(replay, slot);
    *bytes = replay->request + (offset < n_bytes ? offset : n_bytes);
    return offset < n_bytes ? n_bytes - offset : 0;
}
