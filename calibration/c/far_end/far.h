/* A client machine without the kernel's TCP stack: the interface between its parts.
 *
 *   far_end:  replay ──► packet_transport.c ─┐
 *                    ◄── conversation.c      ├─► far.c, tcp.c ──► wire.c     segments out: segment.c
 *   micro:    benches ◄─► far_clients.c ─────┘       │        ◄──            segments in
 *                                                    └── wheel.c, peers.c
 *
 * It sends what a current Linux client sends in the same place, as far as the server can see. All
 * differences:
 *   - Data out of order are dropped, not kept (the server sends them again), so no acknowledgement
 *     is selective.
 *   - A request of several segments comes as several packets; with a kernel the card splits it.
 *   - Its congestion window only grows; a loss does not shrink it.
 *   - A keep-alive is never sent.
 */
#ifndef CALIBRATION_FAR_H
#define CALIBRATION_FAR_H

#include "../servers/program.h"
#include "far_options.h"
#include "peers.h"
#include "wheel.h"
#include "wire.h"

struct far {
    const struct far_options *options;
    void *owner; /* for the functions at the end of this file */
    struct wire wire;
    struct wheel wheel;
    struct peers peers;
    uint32_t server_ip;
    uint16_t server_port;
    int64_t syn_linear; /* sysctl net.ipv4.tcp_syn_linear_timeouts of this namespace */
    int64_t syn_retries;
    int64_t n_syn_repeated;
    int64_t n_data_repeated;
    int64_t n_idle; /* open now */
    int64_t n_idle_lost;
};

static inline int64_t far_now_ns(void)
{
    return clock_ns(CLOCK_MONOTONIC_RAW);
}

/* Milliseconds of the clock that time stamps and timers run on; never 0. */
static inline int64_t to_ms(int64_t now_ns)
{
    return now_ns / NS_PER_MS + 1;
}

/* Prepare for *n_slots* connections at once to *server*; other fields stay as they are. */
void far_open(struct far *far, const struct sockaddr_in *server, int64_t n_slots);

/* Begin a connection and return its slot; NO_SLOT if no more are possible. Its time is written to
 * *stamped*, unless it is NULL, once it is sent.
 */
int32_t far_connect(struct far *far, int64_t *stamped);

enum { FRAMES_AT_ONCE = 4 /* handled before a flush: each causes at most two frames */ };

/* Handle a frame that has arrived; false: there is none. */
bool far_take_frame(struct far *far);

/* Handle a timer that has ended; false: none has. */
bool far_take_timer(struct far *far, int64_t now_ms);

/* Reset all connections that are left. */
void far_abort_all(struct far *far);

void far_close(struct far *far);

/* Begin the connection of *slot*. */
void tcp_connect(struct far *far, int32_t slot, int64_t *stamped);

/* Send more of the request whose first byte not yet sent is at *bytes*; return how many fit. */
size_t tcp_send(struct far *far, int32_t slot, const char *bytes, size_t n_bytes);

/* The next byte sent is the first of a request. */
void tcp_begin_request(struct far *far, int32_t slot);

/* Reset the connection, if the server has it, and forget it. */
void tcp_abort(struct far *far, int32_t slot);

/* Handle a segment that has arrived. */
void tcp_receive(struct far *far, const struct segment *segment);

/* The timer of the connection has ended. */
void tcp_timer(struct far *far, int32_t slot);

/* ---- The program that links these files defines the following functions ---- */

/* Send what is queued. */
void far_flush(struct far *far);

/* Called by tcp.c: the connection is established; more may be sent; bytes came (false: the
 * connection is gone); the server has closed its side (0), or the connection has failed.
 */
void peer_opened(struct far *far, int32_t slot);
void peer_writable(struct far *far, int32_t slot);
bool peer_heard(struct far *far, int32_t slot, const struct segment *segment, uint32_t skip);
void peer_ended(struct far *far, int32_t slot, int error);

/* The unacknowledged part of the request of *slot*, from *offset* on; return its length. */
size_t peer_request(struct far *far, int32_t slot, size_t offset, const char **bytes);

#endif
