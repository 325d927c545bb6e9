/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* /dev/wire: the network of the emulated target, with a population of TCP clients.
 *
 *     server program                      module `wire`
 *     ┌────────────┐  wire0, one-way   ┌───────────────────────────────┐
 *     │ 10.213.0.1 │◄── delay_ns ─────►│ clients 10.214.x.y, no CPU of │
 *     │      :port │     each way      │ their own, exact to the ns    │
 *     └────────────┘                   └───────────────────────────────┘
 *
 * The order of use:
 *
 *     bring wire0 up        10.213.0.1, netmask 255.0.0.0 (the clients are on the link: no route)
 *     WIRE_CONFIGURE        once before anything else; again: forgets all connections and counters
 *     WIRE_CONNECT          connections held by hand: idle populations, microbenchmarks
 *     WIRE_SEND, WIRE_RESET what these do next
 *     WIRE_PLAY             a trace file, open or closed loop; one play at a time
 *     WIRE_STATUS           counters, at any moment
 *     read()                the records of the play (struct wire_record, in order of start), once
 *                           `playing` is 0; EBUSY before that, ENODATA if nothing was played
 *
 * All fields are 64 bits wide and little-endian. Times are nanoseconds of CLOCK_MONOTONIC unless
 * marked as relative. A connection has a number, counted from 0 since WIRE_CONFIGURE
 * over all that were begun by hand or by a play; no two connections of one boot have the same
 * address and port. Values beyond the limits below are refused with EINVAL; calls before
 * WIRE_CONFIGURE with ENXIO; a wire0 that is down with ENETDOWN.
 *
 * Client-side times. A client acts at the instant of a packet or of its own clock:
 * what it sends at t is at the server at t + delay_ns, or at the first moment after that at which
 * the CPU takes the interrupt. `at_ns` below are such client-side times (0 or past: now).
 */
#ifndef WIRE_H
#define WIRE_H

#ifdef __KERNEL__
#include <linux/ioctl.h>
#include <linux/types.h>
#else
#include <stdint.h>
#include <sys/ioctl.h>
#endif

#define WIRE_DEVICE "/dev/wire"
#define WIRE_INTERFACE "wire0"
#define WIRE_SERVER_ADDRESS 0x0ad50001u /* 10.213.0.1, host byte order */
#define WIRE_CLIENT_ADDRESS 0x0ad60001u /* 10.214.0.1, the first client's */
#define WIRE_NETMASK 0xff000000u

#define WIRE_DELAY_NS_MAX 1000000000ull
#define WIRE_NS_MAX 1000000000000000ull /* as TRACE_NS_MAX: sums of a few do not overflow */
#define WIRE_CONNECTIONS_MAX 1000000ull
#define WIRE_ROWS_MAX 1000000ull
#define WIRE_USERS_MAX 1000000ull
#define WIRE_REQUESTS_MAX 1000000000ull
#define WIRE_REQUEST_BYTES_MIN 32ull /* of a request; WIRE_RAW bytes may be 1 */
#define WIRE_REQUEST_BYTES_MAX 14480ull /* ten segments of 1448: Linux's initial window */
#define WIRE_REPLY_BYTES_MIN 64ull
#define WIRE_REPLY_BYTES_MAX (1ull << 30)
#define WIRE_BURSTS_MAX 64 /* calls of WIRE_CONNECT, _SEND, _RESET not yet finished; more: EBUSY */

struct wire_configure {
	uint64_t delay_ns; /* one way, the same in both directions; 50000 in the campaign */
	uint64_t port; /* of the server, 1 to 65535 */
	uint64_t connections_max; /* room for this many, 100 bytes each, begun by hand and by plays */
	uint64_t quick_acks; /* this many data segments of each connection are acknowledged by a packet
			      * of their own at once, even if the client has data to send soon;
			      * 0 to 65535. 0: acknowledgements ride along; Linux's client: up to 16 */
};

/* As a line of a trace file (../../README.md, "Trace file"). */
struct wire_row {
	uint64_t at_ns; /* from the begin of the play, ascending; ignored in a closed loop */
	uint64_t n_requests; /* at least 1 */
	uint64_t request_bytes;
	uint64_t reply_bytes;
	uint64_t think_ns; /* between requests; closed loop: also before the user's next connection */
};

struct wire_play {
	uint64_t closed; /* 0 open loop, 1 closed loop */
	uint64_t n_users; /* closed loop: at least 1; open loop: 0 */
	uint64_t n_rows; /* at least 1 */
	uint64_t rows; /* address of struct wire_row[n_rows]; copied */
	uint64_t connections_max; /* no connection is begun after this many (room for records);
				   * an open loop needs n_rows at most */
	uint64_t begin_ns; /* time zero of the rows and records, in the future */
	uint64_t end_ns; /* absolute; no connection is begun at or after it */
	uint64_t drain_ns; /* the play is over at end_ns + drain_ns at the latest; what is open by
			    * then has status 5 and its client resets it at its next packet */
	uint64_t timeout_ns; /* a connection unfinished this long after its start is reset; 0: never */
	uint64_t first; /* out: number of the play's first connection */
};

/* Connections first ... first + n - 1, one every gap_ns from at_ns on. */
struct wire_connect {
	uint64_t n; /* at least 1 */
	uint64_t at_ns;
	uint64_t gap_ns;
	uint64_t first; /* out: number of the first of them */
};

enum {
	WIRE_RAW = 1, /* bytes without meaning: no reply is awaited, what comes is acknowledged */
	WIRE_KEEP_ALIVE = 2, /* HTTP/1.1, and stays open; without it HTTP/1.0, and the client resets
			      * at the last byte of the reply */
};

/* An order to send on a connection that does not (or no longer) exist is ignored. */
struct wire_send {
	uint64_t first;
	uint64_t n;
	uint64_t at_ns;
	uint64_t gap_ns;
	uint64_t request_bytes; /* WIRE_RAW: 1 to WIRE_REQUEST_BYTES_MAX */
	uint64_t reply_bytes; /* asked for by the request; WIRE_RAW: 0 */
	uint64_t flags; /* WIRE_RAW or WIRE_KEEP_ALIVE or 0 */
};

struct wire_reset {
	uint64_t first;
	uint64_t n;
	uint64_t at_ns;
	uint64_t gap_ns;
};

/* Counts are since WIRE_CONFIGURE; those of the play since WIRE_PLAY. */
struct wire_status {
	uint64_t now_ns; /* when this was taken */
	uint64_t idle_ns; /* of the CPU since boot, in whole microseconds */
	uint64_t n_interrupts; /* of the network: the timer of the next due packet fired */
	uint64_t n_polls; /* of NAPI: one or more for an interrupt */
	uint64_t n_packets_to_server; /* what the server's stack has received */
	uint64_t n_packets_from_server;
	uint64_t n_syn_retries; /* of clients: 1 s after a SYN without an answer, then doubling */
	uint64_t n_request_retries; /* of clients: 200 ms, then doubling */
	uint64_t n_lost; /* packets the wire had no memory for; not 0: do not trust the run */
	/* connections begun by WIRE_CONNECT */
	uint64_t n_manual; /* begun: their SYN was delivered */
	uint64_t n_connected; /* established at the client */
	uint64_t n_manual_replies; /* complete replies */
	uint64_t n_manual_gone; /* ended by either side */
	/* the play */
	uint64_t playing; /* 1 from WIRE_PLAY until the last connection has ended */
	uint64_t n_started;
	uint64_t n_finished; /* the sum of the next four */
	uint64_t n_replied;
	uint64_t n_timeout;
	uint64_t n_refused;
	uint64_t n_reset;
	uint64_t n_replies; /* complete replies, several of a connection counted */
	uint64_t n_open_max; /* connections open at once */
};

enum {
	WIRE_STATUS_REPLIED = 0,
	WIRE_STATUS_TIMEOUT = 1,
	WIRE_STATUS_REFUSED = 2, /* a reset followed the SYN */
	WIRE_STATUS_RESET = 3, /* by the server, or closed before the reply was complete */
	WIRE_STATUS_OPEN = 5,
};

#define WIRE_NOT_REACHED (-1ll)

/* Rows of read() and of `--records`: from the begin of the play, at the client. */
struct wire_record {
	int64_t intended_ns; /* when the SYN was to leave ... */
	int64_t started_ns; /* ... and left: the same, clients here are never late */
	int64_t connected_ns; /* the SYN-ACK is there */
	int64_t done_ns; /* the last byte of the last reply is there */
	int64_t status; /* WIRE_STATUS_... */
};

#define WIRE_CONFIGURE _IOW('w', 1, struct wire_configure)
#define WIRE_PLAY _IOWR('w', 2, struct wire_play)
#define WIRE_STATUS _IOR('w', 3, struct wire_status)
#define WIRE_CONNECT _IOWR('w', 4, struct wire_connect)
#define WIRE_SEND _IOW('w', 5, struct wire_send)
#define WIRE_RESET _IOW('w', 6, struct wire_reset)

#endif
