#include "segment.h"

#include <assert.h>
#include <string.h>

enum {
    ETHERNET_BYTES = 14,
    IP_BYTES = 20,
    TCP_BYTES = 20,
    TYPE_IPV4 = 0x0800,
    PROTOCOL_TCP = 6,
    MORE_FRAGMENTS_OR_OFFSET = 0x3fff,
    DONT_FRAGMENT = 0x4000,
    HOPS = 64, /* Linux, net.ipv4.ip_default_ttl */
};

enum { OPTION_END = 0, OPTION_NOP = 1, OPTION_MSS = 2, OPTION_SCALE = 3, OPTION_SACK = 4 };
enum { OPTION_STAMPS = 8, STAMPS_BYTES = 10, SCALE_BYTES = 3, SCALE_MAX = 14 };

static uint16_t get16(const uint8_t *at)
{
    return (uint16_t)(at[0] << 8 | at[1]);
}

static uint32_t get32(const uint8_t *at)
{
    return (uint32_t)get16(at) << 16 | get16(at + 2);
}

static void put16(uint8_t *at, uint32_t value)
{
    at[0] = (uint8_t)(value >> 8);
    at[1] = (uint8_t)value;
}

static void put32(uint8_t *at, uint32_t value)
{
    put16(at, value >> 16);
    put16(at + 2, value);
}

/* Read the options; false if one is longer than the header. */
static bool read_options(const uint8_t *options, size_t n_bytes, struct segment *segment)
{
    size_t at = 0;
    while (at < n_bytes && options[at] != OPTION_END) {
        if (options[at] == OPTION_NOP) {
            at++;
            continue;
        }
        if (at + 2 > n_bytes || options[at + 1] < 2 || at + options[at + 1] > n_bytes) {
            return false;
        }
        const uint8_t *option = options + at;
        if (option[0] == OPTION_STAMPS && option[1] == STAMPS_BYTES) {
            segment->has_stamps = true;
            segment->stamp = get32(option + 2);
            segment->stamp_echo = get32(option + 6);
        } else if (option[0] == OPTION_SCALE && option[1] == SCALE_BYTES) {
            segment->has_scale = true;
            segment->scale = option[2] < SCALE_MAX ? option[2] : SCALE_MAX;
        }
        at += option[1];
    }
    return true;
}

bool segment_read(const uint8_t *frame, size_t n_captured, struct segment *segment)
{
    *segment = (struct segment){0};
    if (n_captured < ETHERNET_BYTES + IP_BYTES || get16(frame + 12) != TYPE_IPV4) {
        return false;
    }
    const uint8_t *ip = frame + ETHERNET_BYTES;
    size_t n_left = n_captured - ETHERNET_BYTES;
    size_t ip_bytes = (size_t)(ip[0] & 15) * 4;
    size_t total = get16(ip + 2);
    if (ip[0] >> 4 != 4 || ip_bytes < IP_BYTES || ip[9] != PROTOCOL_TCP ||
        (get16(ip + 6) & MORE_FRAGMENTS_OR_OFFSET) != 0 || total < ip_bytes + TCP_BYTES ||
        n_left < ip_bytes + TCP_BYTES) {
        return false;
    }
    const uint8_t *tcp = ip + ip_bytes;
    size_t tcp_bytes = (size_t)(tcp[12] >> 4) * 4;
    if (tcp_bytes < TCP_BYTES || total < ip_bytes + tcp_bytes || n_left < ip_bytes + tcp_bytes) {
        return false;
    }
    segment->from_ip = get32(ip + 12);
    segment->to_ip = get32(ip + 16);
    segment->from_port = get16(tcp);
    segment->to_port = get16(tcp + 2);
    segment->seq = get32(tcp + 4);
    segment->ack = get32(tcp + 8);
    segment->flags = tcp[13];
    segment->window = get16(tcp + 14);
    segment->n_data = (uint32_t)(total - ip_bytes - tcp_bytes);
    segment->data = tcp + tcp_bytes;
    /* A short frame is padded: bytes after the datagram do not belong to it. */
    size_t n_there = n_left - ip_bytes - tcp_bytes;
    segment->n_captured = n_there < segment->n_data ? n_there : segment->n_data;
    return read_options(tcp + TCP_BYTES, tcp_bytes - TCP_BYTES, segment);
}

/* The sum of 16-bit words, RFC 1071. */
static uint32_t sum_of(const uint8_t *bytes, size_t n_bytes)
{
    uint32_t sum = 0;
    for (size_t i = 0; i < n_bytes; i += 2) {
        sum += get16(bytes + i);
    }
    return sum;
}

static uint16_t folded(uint32_t sum)
{
    while (sum >> 16 != 0) {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    return (uint16_t)sum;
}

/* The options of a Linux client, in its order (tcp_options_write). Return their length. */
static size_t write_options(uint8_t *at, const struct segment *segment)
{
    size_t n_bytes = 0;
    if (segment->flags & FLAG_SYN) {
        at[0] = OPTION_MSS;
        at[1] = 4;
        put16(at + 2, SEGMENT_MSS);
        at[4] = OPTION_SACK;
        at[5] = 2;
        n_bytes = 6;
    } else if (segment->has_stamps) {
        at[0] = at[1] = OPTION_NOP;
        n_bytes = 2;
    } else {
        return 0;
    }
    at[n_bytes] = OPTION_STAMPS;
    at[n_bytes + 1] = STAMPS_BYTES;
    put32(at + n_bytes + 2, segment->stamp);
    put32(at + n_bytes + 6, segment->stamp_echo);
    n_bytes += STAMPS_BYTES;
    if (segment->flags & FLAG_SYN) {
        at[n_bytes] = OPTION_NOP;
        at[n_bytes + 1] = OPTION_SCALE;
        at[n_bytes + 2] = SCALE_BYTES;
        at[n_bytes + 3] = SEGMENT_WINDOW_SCALE;
        n_bytes += 4;
    }
    return n_bytes;
}

size_t segment_write(uint8_t *frame, const struct segment_route *route,
                     const struct segment *segment)
{
    assert(segment->n_data <= SEGMENT_DATA_MAX);
    uint8_t *ip = frame + ETHERNET_BYTES;
    uint8_t *tcp = ip + IP_BYTES;
    size_t tcp_bytes = TCP_BYTES + write_options(tcp + TCP_BYTES, segment);
    size_t n_segment = tcp_bytes + segment->n_data;
    memcpy(frame, route->to_mac, MAC_BYTES);
    memcpy(frame + MAC_BYTES, route->from_mac, MAC_BYTES);
    put16(frame + 12, TYPE_IPV4);
    ip[0] = 4 << 4 | IP_BYTES / 4;
    ip[1] = 0;
    put16(ip + 2, (uint32_t)(IP_BYTES + n_segment));
    put16(ip + 4, 0);
    put16(ip + 6, DONT_FRAGMENT);
    ip[8] = HOPS;
    ip[9] = PROTOCOL_TCP;
    put16(ip + 10, 0);
    put32(ip + 12, segment->from_ip);
    put32(ip + 16, segment->to_ip);
    put16(ip + 10, (uint16_t)~folded(sum_of(ip, IP_BYTES)));
    put16(tcp, segment->from_port);
    put16(tcp + 2, segment->to_port);
    put32(tcp + 4, segment->seq);
    put32(tcp + 8, segment->ack);
    tcp[12] = (uint8_t)(tcp_bytes / 4 << 4);
    tcp[13] = segment->flags;
    put16(tcp + 14, segment->window);
    put16(tcp + 16, folded(sum_of(ip + 12, 8) + PROTOCOL_TCP + (uint32_t)n_segment));
    put16(tcp + 18, 0);
    if (segment->n_data > 0) {
        memcpy(tcp + tcp_bytes, segment->data, segment->n_data);
    }
    return ETHERNET_BYTES + IP_BYTES + n_segment;
}
