// SPDX-License-Identifier: GPL-2.0 OR MIT
/* Packets: IP and TCP headers of the clients written, of the server read, and requests' text.
 *
 * As Linux's own client: timestamps, window scaling and selective acknowledgement are offered.
 * The server must use the timestamps, as it does unless net.ipv4.tcp_timestamps is 0. No TCP
 * checksum is written or read, and the packets are marked so.
 */
#include <linux/ip.h>
#include <linux/tcp.h>
#include <net/tcp.h>

#include "interface.h"

#define PORT_MIN 1024u
#define N_PORTS (65536u - PORT_MIN) /* of one address */
#define WINDOW 502u /* times 128: what Linux's client offers at first */
#define WINDOW_OF_SYN 64240u
#define WINDOW_SHIFT 7u

#define OPTIONS_TIMESTAMP 0x0101080au /* no operation, no operation, timestamp of 10 bytes */
#define OPTIONS_SACK_TIMESTAMP 0x0402080au /* selective acknowledgement allowed, timestamp */
#define OPTIONS_SEGMENT 0x02040000u /* largest segment */
#define OPTIONS_WINDOW 0x01030300u /* no operation, window scale */

#define IP_BYTES 20u
#define TCP_BYTES 20u
#define TIMESTAMP_BYTES 12u
#define SYN_BYTES 20u /* options of a SYN */

/* ---- the text of requests ---- */

/* The latest request: as a rule the next one is the same. All between its first line and its last
 * four bytes is padding, also where shorter and longer ones differ.
 */
static struct {
	u32 request_bytes; /* 0: of no request */
	u32 reply_bytes;
	bool keep_alive;
	u32 n_line;
	u8 bytes[WIRE_REQUEST_BYTES_MAX];
} text;

void segments_begin(void)
{
	memset(text.bytes, 'x', sizeof(text.bytes));
	text.request_bytes = 0;
	text.n_line = 0;
}

static void text_write(const struct client *client)
{
	static const char method[] = "GET /";
	static const char version[] = " HTTP/1.";
	u8 digits[10];
	u32 n_digits = 0;
	u32 rest = client->reply_bytes;
	u8 *at = text.bytes;

	memset(text.bytes, 'x', text.n_line);
	if (text.request_bytes)
		memset(text.bytes + text.request_bytes - 4, 'x', 4);
	memcpy(at, method, sizeof(method) - 1);
	at += sizeof(method) - 1;
	do {
		digits[n_digits++] = '0' + rest % 10;
		rest /= 10;
	} while (rest);
	while (n_digits)
		*at++ = digits[--n_digits];
	memcpy(at, version, sizeof(version) - 1);
	at += sizeof(version) - 1;
	*at++ = client->keep_alive ? '1' : '0';
	memcpy(at, "\r\nP:", 4);
	text.n_line = at + 4 - text.bytes;
	memcpy(text.bytes + client->request_bytes - 4, "\r\n\r\n", 4);
	text.request_bytes = client->request_bytes;
	text.reply_bytes = client->reply_bytes;
	text.keep_alive = client->keep_alive;
}

static void text_put(struct sk_buff *skb, const struct client *client, u32 offset, u32 n_bytes)
{
	if (client->raw) {
		memset(skb_put(skb, n_bytes), 'x', n_bytes);
		return;
	}
	if (text.request_bytes != client->request_bytes ||
	    text.reply_bytes != client->reply_bytes || text.keep_alive != client->keep_alive)
		text_write(client);
	skb_put_data(skb, text.bytes + offset, n_bytes);
}

/* ---- packets of the clients ---- */

static void write_ip(struct iphdr *ip, u64 endpoint, u32 n_bytes)
{
	*(__be16 *)ip = htons(0x4500); /* version 4, five words, no service class */
	ip->tot_len = htons(n_bytes);
	ip->id = 0;
	ip->frag_off = htons(IP_DF);
	ip->ttl = 64;
	ip->protocol = IPPROTO_TCP;
	ip->check = 0;
	ip->saddr = htonl(WIRE_CLIENT_ADDRESS + (u32)(endpoint / N_PORTS));
	ip->daddr = htonl(WIRE_SERVER_ADDRESS);
	ip->check = ip_fast_csum(ip, IP_BYTES / 4);
}

static u32 client_timestamp(const struct due *due)
{
	/* About milliseconds, and not 0, which would mean none. */
	return (u32)((due->at_ns - far_end.delay_ns) >> 20) + 1;
}

static void write_options(__be32 *option, const struct due *due, const struct client *client)
{
	if (due->kind == DUE_SYN) {
		option[0] = htonl(OPTIONS_SEGMENT | (SEGMENT_BYTES + TIMESTAMP_BYTES));
		option[1] = htonl(OPTIONS_SACK_TIMESTAMP);
		option[2] = htonl(client_timestamp(due));
		option[3] = 0;
		option[4] = htonl(OPTIONS_WINDOW | WINDOW_SHIFT);
		return;
	}
	option[0] = htonl(OPTIONS_TIMESTAMP);
	option[1] = htonl(client_timestamp(due));
	option[2] = htonl(client->server_timestamp);
}

static __be32 flags_of(const struct due *due, u32 n_text)
{
	switch (due->kind) {
	case DUE_SYN:
		return TCP_FLAG_SYN;
	case DUE_RESET:
		return TCP_FLAG_RST | TCP_FLAG_ACK;
	case DUE_DATA:
		return n_text == due->bytes ? TCP_FLAG_ACK | TCP_FLAG_PSH : TCP_FLAG_ACK;
	default:
		return TCP_FLAG_ACK;
	}
}

struct sk_buff *segment_build(const struct due *due)
{
	const struct client *client = &far_end.clients[due->number];
	u64 endpoint = far_end.first_endpoint + due->number;
	bool syn = due->kind == DUE_SYN;
	u32 n_text = due->kind == DUE_DATA ? min_t(u32, due->bytes, SEGMENT_BYTES) : 0;
	u32 n_header = TCP_BYTES + (syn ? SYN_BYTES : TIMESTAMP_BYTES);
	u32 n_bytes = IP_BYTES + n_header + n_text;
	struct sk_buff *skb = interface_packet(n_bytes);
	struct iphdr *ip;
	struct tcphdr *tcp;

	if (unlikely(!skb))
		return NULL;
	ip = skb_put(skb, IP_BYTES + n_header);
	write_ip(ip, endpoint, n_bytes);
	tcp = (struct tcphdr *)(ip + 1);
	tcp->source = htons(PORT_MIN + (u32)(endpoint % N_PORTS));
	tcp->dest = htons(far_end.port);
	tcp->seq = htonl(due->sequence);
	tcp->ack_seq = htonl(due->acknowledged);
	tcp_flag_word(tcp) = htonl(n_header / 4 << 28) | flags_of(due, n_text) |
			     htonl(syn ? WINDOW_OF_SYN : WINDOW);
	tcp->check = 0;
	tcp->urg_ptr = 0;
	write_options((__be32 *)(tcp + 1), due, client);
	if (n_text)
		text_put(skb, client, due->offset, n_text);
	return skb;
}

/* ---- packets of the server ---- */

/* The server's options stand where Linux puts them. */
static bool parse_timestamp(const struct tcphdr *tcp, struct segment *segment)
{
	const __be32 *option = (const __be32 *)(tcp + 1);

	if (tcp->doff >= 8 && option[0] == htonl(OPTIONS_TIMESTAMP))
		segment->timestamp = ntohl(option[1]);
	else if (tcp->doff >= 9 && option[1] == htonl(OPTIONS_SACK_TIMESTAMP))
		segment->timestamp = ntohl(option[2]);
	else
		return tcp->rst;
	return true;
}

bool segment_parse(const struct sk_buff *skb, u32 *number, struct segment *segment)
{
	const struct iphdr *ip = (const struct iphdr *)skb->data;
	const struct tcphdr *tcp = (const struct tcphdr *)(ip + 1);
	u64 endpoint;

	if (!far_end.configured || skb_headlen(skb) < IP_BYTES + TCP_BYTES || ip->version != 4 ||
	    ip->ihl != IP_BYTES / 4 || ip->protocol != IPPROTO_TCP ||
	    skb_headlen(skb) < IP_BYTES + tcp->doff * 4u || tcp->source != htons(far_end.port))
		return false;
	endpoint = (u64)(ntohl(ip->daddr) - WIRE_CLIENT_ADDRESS) * N_PORTS +
		   (ntohs(tcp->dest) - PORT_MIN) - far_end.first_endpoint;
	if (endpoint >= far_end.n_connections)
		return false;
	segment->sequence = ntohl(tcp->seq);
	segment->acknowledged = ntohl(tcp->ack_seq);
	segment->bytes = skb->len - IP_BYTES - tcp->doff * 4u;
	segment->syn = tcp->syn;
	segment->ack = tcp->ack;
	segment->fin = tcp->fin;
	segment->reset = tcp->rst;
	segment->timestamp = 0;
	if (unlikely(!parse_timestamp(tcp, segment))) {
		far_end.counters.n_lost++;
		return false;
	}
	*number = (u32)endpoint;
	return true;
}
