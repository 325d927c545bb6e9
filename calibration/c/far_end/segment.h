/* A TCP segment in an Ethernet frame: read one, write one. Nothing here has state.
 *
 *   Ethernet 14 │ IPv4 20 to 60 │ TCP 20 to 60 │ data
 *
 * Sources: RFC 791, section 3.1; RFC 9293, sections 3.1 and 3.2; RFC 7323 (window scale, time
 * stamps); IEEE 802.3.
 */
#ifndef CALIBRATION_SEGMENT_H
#define CALIBRATION_SEGMENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    MAC_BYTES = 6,
    SEGMENT_HEADER_BYTES_MAX = 14 + 60 + 60,
    SEGMENT_MSS = 1460,   /* of an Ethernet without options; this is announced */
    SEGMENT_DATA_MAX = SEGMENT_MSS - 12, /* each segment has time stamps */
    SEGMENT_BYTES_MAX = 14 + 20 + 20 + SEGMENT_MSS,
    SEGMENT_WINDOW_SCALE = 7, /* Linux, tcp_select_initial_window with tcp_rmem of 6 MB */
};

enum { FLAG_FIN = 1, FLAG_SYN = 2, FLAG_RST = 4, FLAG_PSH = 8, FLAG_ACK = 16 };

struct segment {
    uint32_t from_ip; /* addresses and ports as numbers, not in network order */
    uint32_t to_ip;
    uint16_t from_port;
    uint16_t to_port;
    uint32_t seq;
    uint32_t ack;
    uint8_t flags;
    uint16_t window; /* as in the segment: not scaled */
    bool has_stamps;
    uint32_t stamp;
    uint32_t stamp_echo;
    bool has_scale; /* a SYN's */
    uint8_t scale;
    uint32_t n_data; /* bytes that it carries */
    const uint8_t *data;
    size_t n_captured; /* of these, as many are at *data* */
};

/* Read the *n_captured* bytes of a frame, which may have been longer. False if they hold no TCP
 * segment over IPv4 with whole headers, or if one of its lengths contradicts another.
 */
bool segment_read(const uint8_t *frame, size_t n_captured, struct segment *segment);

struct segment_route {
    uint8_t to_mac[MAC_BYTES];
    uint8_t from_mac[MAC_BYTES];
};

/* Write *segment*, at most SEGMENT_DATA_MAX of data, into *frame*, which has room for
 * SEGMENT_BYTES_MAX; a SYN gets the options of a Linux client. Return its length. The TCP checksum
 * holds the sum of the pseudo header only, as with checksum offload.
 */
size_t segment_write(uint8_t *frame, const struct segment_route *route,
                     const struct segment *segment);

#endif
