/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* The interface between the module's parts: one network, its clients, and events due at the server.
 *
 *     interface.c   the timer of the next due packet, NAPI, what the server transmits
 *     agenda.c      what is due when
 *     clients.c     what a client does with a packet of the server, or with its own clock
 *     segments.c    IP and TCP headers, the text of a request
 *     play.c        a trace file: who connects when; records
 *     bursts.c      connections, bytes and resets ordered by hand
 *     device.c      /dev/wire
 *
 * Nothing here locks: the kernel of the target has one CPU, everything that touches this state
 * runs as a softirq or with softirqs off, and the timer's handler only records that it fired.
 */
#ifndef FAR_END_H
#define FAR_END_H

#include <linux/skbuff.h>
#include <linux/types.h>

#include "wire.h"

#ifdef CONFIG_SMP
#error "wire is for a kernel with one CPU (CONFIG_SMP=n): it does not lock"
#endif

#define FOREVER U64_MAX
#define SEGMENT_BYTES 1448u /* 1500 less the headers and the timestamp option */
#define SYN_PATIENCE_NS 1000000000ull
#define SYN_TRIES 7 /* net.ipv4.tcp_syn_retries of 6 */
#define REQUEST_PATIENCE_NS 200000000ull /* the least retransmission time of Linux */
#define REQUEST_TRIES 16
#define DELAYED_ACK_NS 40000000ull

enum client_state {
	CLIENT_NEW, /* its SYN has not left yet */
	CLIENT_CONNECTING,
	CLIENT_ESTABLISHED,
	CLIENT_CLOSED,
};

/* One connection, seen from its client. Sequence numbers are in host byte order. */
struct client {
	u64 think_ns;
	u32 sequence; /* of the next byte to be sent */
	u32 acknowledged_by_server;
	u32 request_sequence; /* of the first byte of the latest request */
	u32 expected; /* sequence number of the server's next byte */
	u32 acknowledged; /* acknowledged to the server */
	u32 server_timestamp;
	u32 reply_bytes;
	u32 reply_left; /* bytes of the awaited reply that are not here yet; 0: none is awaited */
	u32 n_requests_left; /* of a play; the awaited one included */
	u16 request_bytes;
	u16 n_data_segments; /* received, at most U16_MAX */
	u8 state;
	bool by_hand;
	bool raw;
	bool keep_alive;
};

enum due_kind {
	DUE_SYN, /* packets, complete when they were put on the agenda */
	DUE_ACK,
	DUE_DATA,
	DUE_RESET,
	DUE_ASK, /* a pause between two requests is over */
	DUE_START, /* the next connection of a play, the number of which is in sequence */
	DUE_CONNECT, /* ordered by hand; bursts.c defines the fields then */
	DUE_SEND,
	DUE_HANG_UP,
	DUE_NOTHING, /* after the last order: see bursts.c */
	DUE_SYN_PATIENCE, /* was there no answer in time? */
	DUE_REQUEST_PATIENCE,
	DUE_DELAYED_ACK,
	DUE_TIMEOUT,
};

/* Something that reaches the server at `at_ns`; it left its client one delay earlier. */
struct due {
	u64 at_ns;
	u32 order; /* breaks ties between things that wait on the heap */
	u32 number; /* of the connection */
	u32 sequence;
	u32 acknowledged;
	u16 offset; /* DUE_DATA: of the segment in the request */
	u16 bytes; /* DUE_DATA: from there to the request's end */
	u8 kind;
	u8 n_tries; /* DUE_..._PATIENCE: so far */
};

struct far_end {
	bool configured;
	u64 delay_ns;
	u64 order_ns; /* when the next order of a burst is due */
	u32 n_quick_acks;
	u16 port;
	u32 n_connections; /* numbers given out */
	u32 connections_max;
	u64 first_endpoint; /* address and port of connection 0, as a number */
	struct client *clients;
	struct wire_status counters;
};

extern struct far_end far_end;

/* ---- interface.c ---- */

int interface_open(void);
void interface_close(void);
bool interface_is_up(void);
/* Something is now due at at_ns: see that the timer does not fire later than that. */
void interface_expect(u64 at_ns);

/* ---- agenda.c ---- */

enum patience { PATIENCE_SYN, PATIENCE_REQUEST, PATIENCE_ACK, N_PATIENCES };

struct agenda;

struct agenda *agenda_new(u32 connections_max);
/* Put another agenda in place, and return the former one (both may be NULL). */
struct agenda *agenda_exchange(struct agenda *fresh);
void agenda_free(struct agenda *agenda);
/* Due two delays after now, which is never before what was added last: a plain queue. */
void agenda_answer(const struct due *due);
/* Due at any time: a heap. */
void agenda_later(const struct due *due);
/* Due a constant time after now, and most likely void by then: a queue each. */
void agenda_patience(enum patience patience, const struct due *due);
/* A play's time-outs now have something due at at_ns. */
void agenda_announce(u64 at_ns);
u64 agenda_next_ns(void);
/* Take what has been due for longest, if it is due by now. */
bool agenda_take(struct due *due);

/* ---- clients.c ---- */

/* The header of a packet from the server. */
struct segment {
	u32 sequence;
	u32 acknowledged;
	u32 timestamp;
	u32 bytes;
	bool syn, ack, fin, reset;
};

/* The server transmits now_ns; the client's reaction is put on the agenda. */
void client_receive(u32 number, const struct segment *segment, u64 now_ns);
/* Do what is due. Return the packet it makes, or NULL. */
struct sk_buff *client_act(struct due *due);
/* These three reach the server now; they were due at at_ns. */
struct sk_buff *client_connect(u32 number, u64 at_ns);
struct sk_buff *client_ask(u32 number, u64 at_ns);
struct sk_buff *client_give_up(u32 number, u64 at_ns, int status);
/* Is a time-out that has come to the head of its queue void? */
bool client_patience_is_void(const struct due *due);

/* ---- segments.c ---- */

void segments_begin(void);
struct sk_buff *segment_build(const struct due *due);
/* Read a packet of the server. Return false if it is none of a client's. */
bool segment_parse(const struct sk_buff *skb, u32 *number, struct segment *segment);

/* ---- play.c ---- */

int play_begin(struct wire_play *arguments);
void play_forget(void);
u64 play_next_ns(void); /* when the next row's SYN is due */
u64 play_timeout_ns(void); /* when the next reset of an overdue client is due */
void play_take_start(struct due *due);
void play_take_timeout(struct due *due);
struct sk_buff *play_start(const struct due *due);
/* What happened to a client of the play at client_ns of its own time. */
void play_connected(u32 number, u64 client_ns);
void play_ended(u32 number, u64 client_ns, int status);
bool play_is_past(u64 now_ns); /* its time is up, even with open connections */
bool play_is_overdue(u32 number, u64 client_ns); /* has the client given up by then? */
bool play_is_over(u64 now_ns);
ssize_t play_read(char __user *to, size_t n_bytes, loff_t *position);

/* ---- bursts.c ---- */

int burst_connect(struct wire_connect *arguments);
int burst_send(const struct wire_send *arguments);
int burst_reset(const struct wire_reset *arguments);
void bursts_forget(void);
void bursts_take(struct due *due);
struct sk_buff *burst_act(const struct due *due);

#endif
