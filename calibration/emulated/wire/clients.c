// SPDX-License-Identifier: GPL-2.0 OR MIT
/* A client: its reaction to a packet of the server, or to its own clock.
 *
 *     NEW ── SYN ──► CONNECTING ── SYN-ACK ──► ESTABLISHED ── last byte, reset, time-out ──► CLOSED
 *
 * The client acts at the instant a packet is there, one delay after the server transmitted; its
 * answer is due another delay later. So all of it is computed at transmission, and nothing has to
 * happen at the client's side in between.
 */
#include <linux/minmax.h>

#include "far_end.h"

/* Left unsaid in the header of a SYN. */
#define NOTHING_EXPECTED 0

static u32 first_sequence(u32 number)
{
	return number * 0x9e3779b1u;
}

/* ---- what a client sends ---- */

static struct due packet_of(u32 number, enum due_kind kind, u64 at_ns)
{
	struct client *client = &far_end.clients[number];

	client->acknowledged = client->expected;
	return (struct due){
		.at_ns = at_ns,
		.number = number,
		.sequence = client->sequence,
		.acknowledged = client->expected,
		.kind = kind,
	};
}

static void answer(u32 number, enum due_kind kind, u64 now_ns)
{
	struct due due = packet_of(number, kind, now_ns + 2 * far_end.delay_ns);

	agenda_answer(&due);
}

static struct due request_of(u32 number, u64 at_ns)
{
	struct client *client = &far_end.clients[number];
	struct due due = packet_of(number, DUE_DATA, at_ns);

	client->request_sequence = client->sequence;
	due.bytes = client->request_bytes;
	client->sequence += client->request_bytes;
	client->reply_left = client->raw ? 0 : client->reply_bytes;
	client->keep_alive = client->by_hand ? client->keep_alive : client->n_requests_left > 1;
	return due;
}

/* The next segment of a request, the rest of which is due at the same time. */
static struct sk_buff *deliver_data(const struct due *due)
{
	struct sk_buff *skb = segment_build(due);
	struct due next = *due;

	if (due->offset == 0 && due->n_tries == 0 && !far_end.clients[due->number].raw) {
		next.kind = DUE_REQUEST_PATIENCE;
		next.at_ns += REQUEST_PATIENCE_NS + 2 * far_end.delay_ns;
		next.n_tries = 1;
		agenda_patience(PATIENCE_REQUEST, &next);
		next = *due;
	}
	if (due->bytes > SEGMENT_BYTES) {
		next.offset += SEGMENT_BYTES;
		next.sequence += SEGMENT_BYTES;
		next.bytes -= SEGMENT_BYTES;
		agenda_later(&next);
	}
	return skb;
}

struct sk_buff *client_connect(u32 number, u64 at_ns)
{
	struct client *client = &far_end.clients[number];
	struct due due;

	client->state = CLIENT_CONNECTING;
	client->sequence = first_sequence(number);
	client->expected = NOTHING_EXPECTED;
	due = packet_of(number, DUE_SYN_PATIENCE, at_ns + SYN_PATIENCE_NS);
	due.n_tries = 1;
	agenda_patience(PATIENCE_SYN, &due);
	due.kind = DUE_SYN;
	due.at_ns = at_ns;
	client->sequence++;
	return segment_build(&due);
}

struct sk_buff *client_ask(u32 number, u64 at_ns)
{
	struct due due = request_of(number, at_ns);

	return deliver_data(&due);
}

/* ---- how a connection ends ---- */

static void end(u32 number, u64 client_ns, int status)
{
	struct client *client = &far_end.clients[number];

	client->state = CLIENT_CLOSED;
	if (client->by_hand)
		far_end.counters.n_manual_gone++;
	else
		play_ended(number, client_ns, status);
}

/* End it with a reset, as SO_LINGER of 0 does; before it is established no packet is sent. */
struct sk_buff *client_give_up(u32 number, u64 at_ns, int status)
{
	struct client *client = &far_end.clients[number];
	struct due due = packet_of(number, DUE_RESET, at_ns);
	bool established = client->state == CLIENT_ESTABLISHED;

	end(number, at_ns - far_end.delay_ns, status);
	return established ? segment_build(&due) : NULL;
}

/* ---- what a client receives ---- */

static void receive_first(u32 number, const struct segment *segment, u64 now_ns)
{
	struct client *client = &far_end.clients[number];
	u64 client_ns = now_ns + far_end.delay_ns;

	if (!segment->ack || segment->acknowledged != client->sequence)
		return;
	if (segment->reset) {
		end(number, client_ns, WIRE_STATUS_REFUSED);
		return;
	}
	if (!segment->syn)
		return;
	client->state = CLIENT_ESTABLISHED;
	client->server_timestamp = segment->timestamp;
	client->acknowledged_by_server = segment->acknowledged;
	client->expected = segment->sequence + 1;
	answer(number, DUE_ACK, now_ns);
	if (client->by_hand) {
		far_end.counters.n_connected++;
	} else {
		struct due request = request_of(number, now_ns + 2 * far_end.delay_ns);

		play_connected(number, client_ns);
		agenda_answer(&request);
	}
}

static void acknowledge_in_time(u32 number, u64 now_ns)
{
	struct client *client = &far_end.clients[number];
	struct due due = {
		.at_ns = now_ns + 2 * far_end.delay_ns + DELAYED_ACK_NS,
		.number = number,
		.acknowledged = client->expected,
		.kind = DUE_DELAYED_ACK,
	};

	if (client->acknowledged != client->expected)
		agenda_patience(PATIENCE_ACK, &due);
}

static void reply_complete(u32 number, u64 now_ns)
{
	struct client *client = &far_end.clients[number];

	if (client->by_hand) {
		far_end.counters.n_manual_replies++;
	} else {
		far_end.counters.n_replies++;
		client->n_requests_left--;
	}
	if (!client->keep_alive) {
		answer(number, DUE_RESET, now_ns);
		end(number, now_ns + far_end.delay_ns, WIRE_STATUS_REPLIED);
	} else if (client->by_hand) {
		acknowledge_in_time(number, now_ns);
	} else if (client->think_ns == 0) {
		struct due due = request_of(number, now_ns + 2 * far_end.delay_ns);

		agenda_answer(&due);
	} else {
		struct due due = {
			.at_ns = now_ns + 2 * far_end.delay_ns + client->think_ns,
			.number = number,
			.kind = DUE_ASK,
		};

		if (client->think_ns > DELAYED_ACK_NS)
			acknowledge_in_time(number, now_ns);
		agenda_later(&due);
	}
}

/* Nothing is lost and nothing overtakes here, so what is not expected has been here before. */
static void receive_data(u32 number, const struct segment *segment, u64 now_ns)
{
	struct client *client = &far_end.clients[number];

	if (segment->sequence != client->expected) {
		answer(number, DUE_ACK, now_ns);
		return;
	}
	client->expected += segment->bytes;
	/* Linux's rule: at once when more than one full segment is not acknowledged. */
	if (client->expected - client->acknowledged > SEGMENT_BYTES ||
	    client->n_data_segments < far_end.n_quick_acks)
		answer(number, DUE_ACK, now_ns);
	if (client->n_data_segments < U16_MAX)
		client->n_data_segments++;
	if (client->reply_left > segment->bytes) {
		client->reply_left -= segment->bytes;
		acknowledge_in_time(number, now_ns);
	} else if (client->reply_left == segment->bytes) {
		client->reply_left = 0;
		reply_complete(number, now_ns);
	} else if (client->by_hand && client->raw) {
		acknowledge_in_time(number, now_ns);
	} else { /* more than was asked for */
		answer(number, DUE_RESET, now_ns);
		end(number, now_ns + far_end.delay_ns, WIRE_STATUS_RESET);
	}
}

static void receive_end(u32 number, const struct segment *segment, u64 now_ns)
{
	struct client *client = &far_end.clients[number];

	if (segment->sequence + segment->bytes != client->expected)
		return;
	client->expected++;
	answer(number, DUE_RESET, now_ns);
	end(number, now_ns + far_end.delay_ns, WIRE_STATUS_RESET);
}

static void receive_established(u32 number, const struct segment *segment, u64 now_ns)
{
	struct client *client = &far_end.clients[number];

	if (segment->reset) {
		end(number, now_ns + far_end.delay_ns, WIRE_STATUS_RESET);
		return;
	}
	client->server_timestamp = segment->timestamp;
	client->acknowledged_by_server = segment->acknowledged;
	if (segment->syn) { /* our acknowledgement found its queue full: Linux asks again */
		answer(number, DUE_ACK, now_ns);
		return;
	}
	if (segment->bytes)
		receive_data(number, segment, now_ns);
	if (segment->fin && client->state == CLIENT_ESTABLISHED)
		receive_end(number, segment, now_ns);
}

/* A client that has gone answers only to an offer of a connection it no longer wants. */
static void receive_closed(u32 number, const struct segment *segment, u64 now_ns)
{
	struct client *client = &far_end.clients[number];

	if (!segment->syn)
		return;
	client->sequence = segment->acknowledged;
	client->expected = segment->sequence + 1;
	client->server_timestamp = segment->timestamp;
	answer(number, DUE_RESET, now_ns);
}

void client_receive(u32 number, const struct segment *segment, u64 now_ns)
{
	struct client *client = &far_end.clients[number];

	if (client->state == CLIENT_CLOSED) {
		receive_closed(number, segment, now_ns);
		return;
	}
	if (!client->by_hand && play_is_overdue(number, now_ns + far_end.delay_ns))
		return; /* its reset is under way */
	if (!client->by_hand && play_is_past(now_ns)) {
		answer(number, DUE_RESET, now_ns);
		end(number, now_ns + far_end.delay_ns, WIRE_STATUS_OPEN);
	} else if (client->state == CLIENT_CONNECTING) {
		receive_first(number, segment, now_ns);
	} else if (client->state == CLIENT_ESTABLISHED) {
		receive_established(number, segment, now_ns);
	}
}

/* ---- what is due ---- */

bool client_patience_is_void(const struct due *due)
{
	const struct client *client = &far_end.clients[due->number];

	switch (due->kind) {
	case DUE_SYN_PATIENCE:
		return client->state != CLIENT_CONNECTING;
	case DUE_REQUEST_PATIENCE:
		return client->state != CLIENT_ESTABLISHED ||
		       (s32)(client->acknowledged_by_server - due->sequence) > 0;
	default:
		return client->state != CLIENT_ESTABLISHED ||
		       (s32)(client->acknowledged - due->acknowledged) >= 0;
	}
}

static struct sk_buff *retry(struct due *due)
{
	bool syn = due->kind == DUE_SYN_PATIENCE;
	u64 patience_ns = syn ? SYN_PATIENCE_NS : REQUEST_PATIENCE_NS;
	struct due next = *due;

	if (due->n_tries == (syn ? SYN_TRIES : REQUEST_TRIES))
		return client_give_up(due->number, due->at_ns, WIRE_STATUS_TIMEOUT);
	next.at_ns += patience_ns << min_t(u32, due->n_tries, 9);
	next.n_tries++;
	agenda_later(&next);
	if (syn) {
		far_end.counters.n_syn_retries++;
		due->kind = DUE_SYN;
		return segment_build(due);
	}
	far_end.counters.n_request_retries++;
	due->kind = DUE_DATA;
	return deliver_data(due);
}

static struct sk_buff *act_patiently(struct due *due)
{
	struct due packet;

	if (client_patience_is_void(due))
		return NULL;
	if (due->kind != DUE_DELAYED_ACK)
		return retry(due);
	packet = packet_of(due->number, DUE_ACK, due->at_ns);
	return segment_build(&packet);
}

struct sk_buff *client_act(struct due *due)
{
	const struct client *client = &far_end.clients[due->number];

	switch (due->kind) {
	case DUE_DATA:
		return deliver_data(due);
	case DUE_START:
		return play_start(due);
	case DUE_ASK:
		if (client->state != CLIENT_ESTABLISHED)
			return NULL;
		if (play_is_past(due->at_ns))
			return client_give_up(due->number, due->at_ns, WIRE_STATUS_OPEN);
		return client_ask(due->number, due->at_ns);
	case DUE_CONNECT:
	case DUE_SEND:
	case DUE_HANG_UP:
		return burst_act(due);
	case DUE_NOTHING:
		return NULL;
	case DUE_TIMEOUT:
		return client_give_up(due->number, due->at_ns, WIRE_STATUS_TIMEOUT);
	case DUE_SYN_PATIENCE:
	case DUE_REQUEST_PATIENCE:
	case DUE_DELAYED_ACK:
		return act_patiently(due);
	default:
		return segment_build(due);
	}
}
