/* A far end without a TCP stack of a kernel: what its parts share.
 *
 *   replay ──► packet_transport.c ──► tcp.c ──► wire.c        segments out: segment.c
 *          ◄── conversation.c     ◄──        ◄──              segments in
 *                                     └── wheel.c, peers.c
 *
 * What it sends is what a Linux client of today sends in the same place, as far as the server can
 * see it. Differences: data out of order are dropped, not kept (the server sends them again), so no
 * acknowledgement is selective; a keep-alive is never sent.
 */
#ifndef CALIBRATION_FAR_H
#define CALIBRATION_FAR_H

#include "../load/replay_state.h"
#include "peers.h"
#include "wheel.h"
#include "wire.h"

struct far_options {
    const char *interface;
    struct segment_route route;
    uint32_t first_ip; /* of the sources */
    int64_t n_sources;
    int64_t n_idle;
};

struct far {
    const struct far_options *options;
    struct wire wire;
    struct wheel wheel;
    struct peers peers;
    uint32_t server_ip;
    uint16_t server_port;
    int64_t syn_linear; /* sysctl net.ipv4.tcp_syn_linear_timeouts of this namespace */
    int64_t syn_retries;
    int64_t n_syn_repeated;
    int64_t n_data_repeated;
    int64_t n_idle;  /* open now */
    int64_t n_idle_lost;
};

/* Milliseconds of the clock that time stamps and timers run on; never 0. */
static inline int64_t to_ms(const struct replay *replay, int64_t now)
{
    return (now + replay->zero_ns) / NS_PER_MS + 1;
}

/* Begin a connection in *slot*; its time goes to *stamped*, unless it is NULL, once it is sent. */
void tcp_connect(struct replay *replay, int32_t slot, int64_t *stamped);

/* Send more of the request whose first byte not yet sent is at *bytes*; return how many fit. */
size_t tcp_send(struct replay *replay, int32_t slot, const char *bytes, size_t n_bytes);

/* The next byte sent is the first of a request. */
void tcp_begin_request(struct replay *replay, int32_t slot);

/* Reset the connection, where the server knows of it, and forget it. */
void tcp_abort(struct replay *replay, int32_t slot);

/* Handle a segment that has arrived. */
void tcp_receive(struct replay *replay, const struct segment *segment);

/* The timer of the connection has ended. */
void tcp_timer(struct replay *replay, int32_t slot);

/* What tcp.c tells of: the connection is established; more may be sent; bytes came (false: the
 * connection is gone); the server has closed its side (0), or the connection has failed.
 */
void peer_opened(struct replay *replay, int32_t slot);
void peer_writable(struct replay *replay, int32_t slot);
bool peer_heard(struct replay *replay, int32_t slot, const struct segment *segment, uint32_t skip);
void peer_ended(struct replay *replay, int32_t slot, int error);

/* The unacknowledged part of the request of *slot*, from *offset* on; return its length. */
size_t peer_request(struct replay *replay, int32_t slot, size_t offset, const char **bytes);

#endif
