// SPDX-License-Identifier: GPL-2.0 OR MIT
/* Orders by hand: connect, send, reset, n times at a steady pace.
 *
 * The clients' work is part of the cost of an interrupt, so an order must cost the same as the
 * packet in a play. There another start is nearly always expected, before any client's time-out;
 * so after the last order of all another one is expected, of nothing.
 */
#include <linux/bottom_half.h>
#include <linux/string.h>
#include <linux/ktime.h>

#include "far_end.h"

struct burst {
	u64 next_ns; /* when the next of it is due */
	u64 gap_ns;
	u64 n_left;
	struct due next; /* DUE_SEND: sequence holds the reply's bytes, offset the flags */
};

static struct burst bursts[WIRE_BURSTS_MAX]; /* in the order they came */
static int n_bursts;

/* Before a request's time-out; long after the window of a program that gives orders. */
#define NOTHING_AFTER_NS (REQUEST_PATIENCE_NS * 3 / 4)

static struct burst *burst_next(void)
{
	struct burst *next = NULL;
	int i;

	for (i = 0; i < n_bursts; i++)
		if (!next || bursts[i].next_ns < next->next_ns)
			next = &bursts[i];
	return next;
}

/* ---- orders ---- */

static bool pace_is_good(u64 n, u64 at_ns, u64 gap_ns)
{
	return n >= 1 && n <= WIRE_CONNECTIONS_MAX && at_ns <= WIRE_NS_MAX &&
	       gap_ns <= WIRE_NS_MAX / n;
}

static bool connections_are_there(u64 first, u64 n)
{
	return first < far_end.n_connections && n <= far_end.n_connections - first;
}

/* With softirqs off. */
static int burst_add(const struct due *next, u64 n, u64 at_ns, u64 gap_ns)
{
	struct burst *burst = &bursts[n_bursts];

	if (n_bursts == WIRE_BURSTS_MAX)
		return -EBUSY;
	n_bursts++;
	burst->next_ns = max_t(u64, at_ns, ktime_get_ns()) + far_end.delay_ns;
	burst->gap_ns = gap_ns;
	burst->n_left = n;
	burst->next = *next;
	far_end.order_ns = burst_next()->next_ns;
	interface_expect(far_end.order_ns);
	return 0;
}

static int burst_order(const struct due *next, u64 n, u64 at_ns, u64 gap_ns)
{
	int error;

	local_bh_disable();
	error = burst_add(next, n, at_ns, gap_ns);
	local_bh_enable();
	return error;
}

int burst_connect(struct wire_connect *arguments)
{
	struct due next = { .kind = DUE_CONNECT, .number = far_end.n_connections };
	int error;

	if (!pace_is_good(arguments->n, arguments->at_ns, arguments->gap_ns))
		return -EINVAL;
	if (arguments->n > far_end.connections_max - far_end.n_connections)
		return -ENOSPC;
	error = burst_order(&next, arguments->n, arguments->at_ns, arguments->gap_ns);
	if (error)
		return error;
	arguments->first = far_end.n_connections;
	far_end.n_connections += arguments->n;
	return 0;
}

int burst_send(const struct wire_send *arguments)
{
	struct due next = {
		.kind = DUE_SEND,
		.number = arguments->first,
		.bytes = arguments->request_bytes,
		.sequence = arguments->reply_bytes,
		.offset = arguments->flags,
	};
	bool raw = arguments->flags == WIRE_RAW;
	u64 bytes_min = raw ? 1 : WIRE_REQUEST_BYTES_MIN;

	if (!pace_is_good(arguments->n, arguments->at_ns, arguments->gap_ns) ||
	    !connections_are_there(arguments->first, arguments->n) ||
	    arguments->flags > WIRE_KEEP_ALIVE || arguments->request_bytes < bytes_min ||
	    arguments->request_bytes > WIRE_REQUEST_BYTES_MAX)
		return -EINVAL;
	if (raw ? arguments->reply_bytes != 0
		: arguments->reply_bytes < WIRE_REPLY_BYTES_MIN ||
		  arguments->reply_bytes > WIRE_REPLY_BYTES_MAX)
		return -EINVAL;
	return burst_order(&next, arguments->n, arguments->at_ns, arguments->gap_ns);
}

int burst_reset(const struct wire_reset *arguments)
{
	struct due next = { .kind = DUE_HANG_UP, .number = arguments->first };

	if (!pace_is_good(arguments->n, arguments->at_ns, arguments->gap_ns) ||
	    !connections_are_there(arguments->first, arguments->n))
		return -EINVAL;
	return burst_order(&next, arguments->n, arguments->at_ns, arguments->gap_ns);
}

void bursts_forget(void)
{
	n_bursts = 0;
	far_end.order_ns = FOREVER;
}

/* ---- their times ---- */

static void take_nothing(struct due *due)
{
	*due = (struct due){ .at_ns = far_end.order_ns, .kind = DUE_NOTHING };
	far_end.order_ns = FOREVER;
}

static void burst_end(struct burst *burst)
{
	int n_behind = &bursts[n_bursts] - (burst + 1);

	memmove(burst, burst + 1, n_behind * sizeof(*burst));
	n_bursts--;
}

void bursts_take(struct due *due)
{
	struct burst *burst = burst_next();

	if (!burst) {
		take_nothing(due);
		return;
	}
	*due = burst->next;
	due->at_ns = burst->next_ns;
	burst->next_ns += burst->gap_ns;
	burst->next.number++;
	if (--burst->n_left == 0)
		burst_end(burst);
	burst = burst_next();
	far_end.order_ns = burst ? burst->next_ns : due->at_ns + NOTHING_AFTER_NS;
}

/* ---- carrying them out ---- */

struct sk_buff *burst_act(const struct due *due)
{
	struct client *client = &far_end.clients[due->number];

	if (due->kind == DUE_CONNECT) {
		far_end.counters.n_manual++;
		client->by_hand = true;
		return client_connect(due->number, due->at_ns);
	}
	if (!client->by_hand || client->state != CLIENT_ESTABLISHED)
		return NULL;
	if (due->kind == DUE_HANG_UP)
		return client_give_up(due->number, due->at_ns, WIRE_STATUS_RESET);
	if (client->reply_left > 0) /* one question at a time */
		return NULL;
	client->raw = due->offset == WIRE_RAW;
	client->keep_alive = due->offset == WIRE_KEEP_ALIVE;
	client->request_bytes = due->bytes;
	client->reply_bytes = due->sequence;
	return client_ask(due->number, due->at_ns);
}
