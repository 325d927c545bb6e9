/* The client's side of TCP, with Linux's timers and its rules for acknowledgements.
 *
 * Sources: RFC 9293, section 3.10; RFC 5681 (the first window: RFC 6928); RFC 6298; RFC 7323;
 * Linux net/ipv4/tcp_input.c (__tcp_ack_snd_check, tcp_event_data_recv, tcp_fin), tcp_output.c
 * (tcp_event_data_sent, tcp_send_delayed_ack, tcp_send_loss_probe), tcp_timer.c
 * (tcp_retransmit_timer, tcp_delack_timer_handler).
 */
#include "far.h"

#include <errno.h>

enum {
    FIRST_WINDOW_SEGMENTS = 10, /* TCP_INIT_CWND */
    SYN_TIMEOUT_MS = 1000,      /* TCP_TIMEOUT_INIT */
    RTO_MIN_MS = 200, /* TCP_RTO_MIN: added to the round trip, as its variation's floor */
    DELAYED_MS = 40, /* TCP_DELACK_MIN, what a round trip of less than that leads to */
    QUICK_MAX = 16, /* TCP_MAX_QUICKACKS */
    FIRST_WINDOW = 64240, /* 44 segments: tcp_rmem of 131072 bytes, half of them for data */
    WINDOW_MAX = 3 << 20, /* half of tcp_rmem's 6 MB, by the same rule */
    DOUBLINGS_MAX = 10,
};

static bool is_before(uint32_t a, uint32_t b)
{
    return (int32_t)(a - b) < 0;
}

static struct peer *at(struct far *far, int32_t slot)
{
    return &far->peers.slots[slot];
}

/* Queue *segment* to the server. */
static void queue(struct far *far, struct segment *segment, int64_t *stamped)
{
    if (wire_is_full(&far->wire)) {
        far_flush(far);
    }
    segment->to_ip = far->server_ip;
    segment->to_port = far->server_port;
    size_t n_bytes = segment_write(wire_room(&far->wire), &far->options->route, segment);
    wire_queue(&far->wire, n_bytes, stamped);
}

static struct segment from(const struct far *far, const struct peer *peer, uint8_t flags)
{
    uint32_t window = flags & FLAG_SYN ? FIRST_WINDOW : peer->rcv_wnd >> SEGMENT_WINDOW_SCALE;
    return (struct segment){
        .from_ip = far->options->first_ip + source_of(peer),
        .from_port = port_of(peer),
        .seq = peer->snd_nxt,
        .ack = flags & FLAG_ACK ? peer->rcv_nxt : 0,
        .flags = flags,
        .window = (uint16_t)(window < UINT16_MAX ? window : UINT16_MAX),
        .has_stamps = true,
        .stamp = (uint32_t)to_ms(far_now_ns()),
        .stamp_echo = peer->stamp_recent,
    };
}

static void acknowledge(struct far *far, int32_t slot)
{
    struct peer *peer = at(far, slot);
    struct segment ack = from(far, peer, FLAG_ACK);
    peer->n_quick -= peer->n_quick > 0;
    peer->rcv_acked = peer->rcv_nxt;
    if (peer->snd_una == peer->snd_nxt) {
        wheel_clear(&far->wheel, slot); /* the timer was for this */
    }
    queue(far, &ack, NULL);
}

static void send_data(struct far *far, struct peer *peer, uint32_t seq, const char *bytes,
                      size_t n_bytes, bool is_last)
{
    struct segment data = from(far, peer, is_last ? FLAG_ACK | FLAG_PSH : FLAG_ACK);
    data.seq = seq;
    data.data = (const uint8_t *)bytes;
    data.n_data = (uint32_t)n_bytes;
    peer->rcv_acked = peer->rcv_nxt;
    queue(far, &data, NULL);
}

/* Set the timer that retransmits unacknowledged data. */
static void set_timer(struct far *far, int32_t slot)
{
    struct peer *peer = at(far, slot);
    int64_t now_ms = to_ms(far_now_ns());
    int64_t wait_ms = 0;
    if (peer->state == PEER_SYN_SENT) {
        int64_t n_doublings = peer->n_timeouts - far->syn_linear;
        n_doublings = n_doublings < 0 ? 0 : n_doublings;
        wait_ms = (int64_t)SYN_TIMEOUT_MS
                  << (n_doublings < DOUBLINGS_MAX ? n_doublings : DOUBLINGS_MAX);
    } else {
        /* The first one probes a lost tail; the time does not double after it. */
        int n_doublings = peer->n_timeouts > 1 ? peer->n_timeouts - 1 : 0;
        wait_ms = (RTO_MIN_MS + peer->trip_ns / NS_PER_MS)
                  << (n_doublings < DOUBLINGS_MAX ? n_doublings : DOUBLINGS_MAX);
    }
    wheel_set(&far->wheel, slot, now_ms + wait_ms);
}

void tcp_connect(struct far *far, int32_t slot, int64_t *stamped)
{
    struct peer *peer = at(far, slot);
    int64_t now = far_now_ns();
    /* It grows with time (RFC 9293, 3.4.1; Linux also steps every 64 ns), so that a tuple that is
     * reused has another.
     */
    uint32_t first_seq = (uint32_t)(now >> 6);
    peer->state = PEER_SYN_SENT;
    peer->snd_una = peer->snd_nxt = first_seq;
    peer->rcv_wnd = FIRST_WINDOW;
    peer->cwnd = FIRST_WINDOW_SEGMENTS * SEGMENT_DATA_MAX;
    peer->sent_ns = now;
    struct segment syn = from(far, peer, FLAG_SYN);
    peer->snd_nxt++;
    queue(far, &syn, stamped);
    set_timer(far, slot);
}

void tcp_begin_request(struct far *far, int32_t slot)
{
    struct peer *peer = at(far, slot);
    int64_t now = far_now_ns();
    peer->request_seq = peer->snd_nxt;
    /* tcp_event_data_sent: a peer that replies soon will do so again. */
    if (peer->heard_ns != 0 && now - peer->heard_ns < DELAYED_MS * NS_PER_MS) {
        peer->answers = true;
    }
}

size_t tcp_send(struct far *far, int32_t slot, const char *bytes, size_t n_bytes)
{
    struct peer *peer = at(far, slot);
    size_t n_sent = 0;
    uint32_t window = peer->snd_wnd < peer->cwnd ? peer->snd_wnd : peer->cwnd;
    bool was_empty = peer->snd_una == peer->snd_nxt;
    while (n_sent < n_bytes) {
        uint32_t under_way = peer->snd_nxt - peer->snd_una;
        size_t n = n_bytes - n_sent < SEGMENT_DATA_MAX ? n_bytes - n_sent : SEGMENT_DATA_MAX;
        if (under_way + n > window && under_way > 0) {
            break; /* an acknowledgement makes room */
        }
        send_data(far, peer, peer->snd_nxt, bytes + n_sent, n, n_sent + n == n_bytes);
        peer->snd_nxt += (uint32_t)n;
        n_sent += n;
    }
    if (n_sent > 0 && was_empty) {
        peer->sent_ns = far_now_ns();
        set_timer(far, slot);
    }
    return n_sent;
}

void tcp_abort(struct far *far, int32_t slot)
{
    struct peer *peer = at(far, slot);
    /* Before it is established there is nothing to reset (tcp_need_reset). */
    if (peer->state != PEER_SYN_SENT) {
        struct segment reset = from(far, peer, FLAG_RST | FLAG_ACK);
        queue(far, &reset, NULL);
    }
    wheel_clear(&far->wheel, slot);
    peers_release(&far->peers, slot);
}

/* A segment of a connection that does not exist: RFC 9293, section 3.10.7.1. */
static void refuse_segment(struct far *far, const struct segment *segment)
{
    uint32_t taken =
        segment->n_data + ((segment->flags & FLAG_SYN) != 0) + ((segment->flags & FLAG_FIN) != 0);
    bool has_ack = segment->flags & FLAG_ACK;
    struct segment reset = {
        .from_ip = segment->to_ip,
        .from_port = segment->to_port,
        .seq = has_ack ? segment->ack : 0,
        .ack = has_ack ? 0 : segment->seq + taken,
        .flags = has_ack ? FLAG_RST : FLAG_RST | FLAG_ACK,
    };
    if (!(segment->flags & FLAG_RST)) {
        queue(far, &reset, NULL);
    }
}

static void measure_trip(struct peer *peer)
{
    int64_t trip_ns = far_now_ns() - peer->sent_ns;
    /* Karn: retransmitted data do not measure the round trip. */
    if (peer->n_timeouts == 0) {
        peer->trip_ns =
            peer->trip_ns == 0 ? trip_ns : peer->trip_ns + (trip_ns - peer->trip_ns) / 8;
    }
    peer->n_timeouts = 0;
}

/* While the connection is being established: RFC 9293, section 3.10.7.3. */
static void receive_first(struct far *far, int32_t slot, const struct segment *segment)
{
    struct peer *peer = at(far, slot);
    bool is_acceptable = (segment->flags & FLAG_ACK) && segment->ack == peer->snd_nxt;
    if (!is_acceptable) {
        refuse_segment(far, segment);
    } else if (segment->flags & FLAG_RST) {
        peer_ended(far, slot, ECONNREFUSED);
    } else if (segment->flags & FLAG_SYN) {
        measure_trip(peer);
        peer->state = PEER_OPEN;
        peer->snd_una = segment->ack;
        peer->snd_wnd = segment->window;
        peer->has_scale = segment->has_scale;
        peer->scale = segment->has_scale ? segment->scale : 0;
        peer->rcv_nxt = segment->seq + 1;
        peer->stamp_recent = segment->stamp;
        acknowledge(far, slot);
        peer_opened(far, slot);
    }
}

/* Take an acknowledgement of what was sent; return whether it made room for more. */
static bool take_ack(struct far *far, int32_t slot, const struct segment *segment)
{
    struct peer *peer = at(far, slot);
    if (is_before(peer->snd_nxt, segment->ack)) {
        return false;
    }
    peer->snd_wnd = (uint32_t)segment->window << peer->scale;
    if (!is_before(peer->snd_una, segment->ack)) {
        return false;
    }
    peer->cwnd += segment->ack - peer->snd_una; /* slow start: nothing is lost on this link */
    peer->snd_una = segment->ack;
    measure_trip(peer);
    if (peer->snd_una == peer->snd_nxt) {
        wheel_clear(&far->wheel, slot);
    } else {
        peer->sent_ns = far_now_ns();
        set_timer(far, slot);
    }
    return true;
}

/* Data have come in order: acknowledge them now, or within 40 ms. */
static void note_data(struct far *far, int32_t slot, uint32_t n_new)
{
    struct peer *peer = at(far, slot);
    if (peer->heard_ns == 0) { /* tcp_event_data_recv, tcp_incr_quickack */
        peer->n_quick = QUICK_MAX;
    }
    peer->heard_ns = far_now_ns();
    peer->rcv_nxt += n_new;
    /* tcp_grow_window: two segments for each, as all data are read at once. */
    peer->rcv_wnd += peer->rcv_wnd < WINDOW_MAX ? 2 * SEGMENT_DATA_MAX : 0;
    bool is_much = peer->rcv_nxt - peer->rcv_acked > SEGMENT_DATA_MAX;
    if (is_much || (peer->n_quick > 0 && !peer->answers)) {
        acknowledge(far, slot);
    } else if (peer->snd_una == peer->snd_nxt) {
        wheel_set(&far->wheel, slot, to_ms(peer->heard_ns) + DELAYED_MS);
    }
}

/* Segments of an open connection: RFC 9293, section 3.10.7.4. */
static void receive_next(struct far *far, int32_t slot, const struct segment *segment)
{
    struct peer *peer = at(far, slot);
    uint32_t skip = peer->rcv_nxt - segment->seq; /* bytes that came before */
    bool is_in_order = !is_before(peer->rcv_nxt, segment->seq) && skip <= segment->n_data;
    if (segment->flags & FLAG_RST) {
        if (segment->seq == peer->rcv_nxt) { /* RFC 5961, section 3.2 */
            peer_ended(far, slot, ECONNRESET);
        }
        return;
    }
    if ((segment->flags & FLAG_SYN) || !is_in_order) {
        acknowledge(far, slot); /* tcp_validate_incoming, tcp_send_dupack */
        return;
    }
    if (!(segment->flags & FLAG_ACK)) {
        return;
    }
    peer->stamp_recent = segment->has_stamps ? segment->stamp : peer->stamp_recent;
    bool has_room = take_ack(far, slot, segment);
    uint32_t n_new = segment->n_data - skip;
    if (n_new > 0 && peer->state == PEER_OPEN) {
        note_data(far, slot, n_new);
        if (!peer_heard(far, slot, segment, skip)) {
            return;
        }
    }
    if ((segment->flags & FLAG_FIN) && peer->state == PEER_OPEN) {
        peer->state = PEER_CLOSED_THERE;
        peer->rcv_nxt++;
        peer->answers = true; /* tcp_fin */
        if (peer->snd_una == peer->snd_nxt) {
            wheel_set(&far->wheel, slot, to_ms(far_now_ns()) + DELAYED_MS);
        }
        peer_ended(far, slot, 0);
    } else if (has_room && peer->state == PEER_OPEN) {
        peer_writable(far, slot);
    }
}

void tcp_receive(struct far *far, const struct segment *segment)
{
    uint32_t source = segment->to_ip - far->options->first_ip;
    if (source >= (uint64_t)far->options->n_sources || segment->from_ip != far->server_ip ||
        segment->from_port != far->server_port) {
        return;
    }
    int32_t slot = peers_find(&far->peers, source, segment->to_port);
    if (slot == NO_SLOT) {
        refuse_segment(far, segment);
    } else if (at(far, slot)->state == PEER_SYN_SENT) {
        receive_first(far, slot, segment);
    } else {
        receive_next(far, slot, segment);
    }
}

/* Retransmit the unacknowledged data, from the first segment on. */
static void repeat(struct far *far, int32_t slot)
{
    struct peer *peer = at(far, slot);
    const char *bytes = NULL;
    size_t n_left = peer_request(far, slot, peer->snd_una - peer->request_seq, &bytes);
    size_t n = peer->snd_nxt - peer->snd_una;
    n = n < n_left ? n : n_left;
    n = n < SEGMENT_DATA_MAX ? n : SEGMENT_DATA_MAX;
    if (n > 0) {
        send_data(far, peer, peer->snd_una, bytes, n, n == n_left);
    }
}

void tcp_timer(struct far *far, int32_t slot)
{
    struct peer *peer = at(far, slot);
    if (peer->snd_una == peer->snd_nxt) { /* tcp_delack_timer_handler */
        peer->answers = false;
        acknowledge(far, slot);
        return;
    }
    peer->n_timeouts++;
    if (peer->state == PEER_SYN_SENT) {
        if (peer->n_timeouts > far->syn_retries) {
            peer_ended(far, slot, ETIMEDOUT);
            return;
        }
        peer->snd_nxt = peer->snd_una;
        struct segment syn = from(far, peer, FLAG_SYN);
        peer->snd_nxt++;
        queue(far, &syn, NULL);
        far->n_syn_repeated++;
    } else {
        repeat(far, slot);
        far->n_data_repeated++;
    }
    set_timer(far, slot);
}
