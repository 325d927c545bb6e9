/* One end of a link, without a network stack: frames in and out of one interface.
 *
 *   in:  a ring that the kernel fills; only the headers of TCP from one address and port get there
 *   out: frames gather until a flush sends many with one call, past the queueing discipline
 *
 * Sources: packet(7); Documentation/networking/packet_mmap.rst; net/packet/af_packet.c
 * (tpacket_rcv, packet_snd, packet_direct_xmit); virtio_net.h (checksum offload).
 */
#ifndef CALIBRATION_WIRE_H
#define CALIBRATION_WIRE_H

#include "segment.h"

#include <linux/filter.h>
#include <linux/virtio_net.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

enum {
    /* Frames that one call sends. Each may interrupt the CPU of the server, which takes the sender
     * some time. A connection that falls due during the call begins after it. */
    WIRE_BATCH = 8,
    WIRE_CAPTURED = 160,         /* bytes of a frame that are read: headers, and some data */
    WIRE_FRAME = 256,            /* room for these and what the kernel writes before them */
    WIRE_FRAMES = 1 << 15, /* as many packets arrive within some 30 ms of a million a second */
};

struct wire {
    int in_fd;
    int out_fd;
    uint8_t *ring;
    size_t slot; /* the next frame of the ring */
    int n_queued;
    int64_t n_sent;
    int64_t n_flushes;
    int64_t n_received;
    struct {
        struct virtio_net_hdr virtio;
        uint8_t frame[SEGMENT_BYTES_MAX];
    } queued[WIRE_BATCH];
    int64_t *stamped[WIRE_BATCH]; /* where the time of sending goes, or NULL */
    struct iovec vectors[WIRE_BATCH];
    struct mmsghdr messages[WIRE_BATCH];
};

/* Open *interface*, or refuse it; only TCP from this address and port is received. */
void wire_open(struct wire *wire, const char *interface, uint32_t from_ip, uint16_t from_port);

/* The next frame that has arrived, and its captured length; NULL if there is none. wire_done
 * returns it to the kernel.
 */
const uint8_t *wire_next(struct wire *wire, size_t *n_captured);
void wire_done(struct wire *wire);

/* Room for a frame; a full queue must be flushed first. */
static inline uint8_t *wire_room(struct wire *wire)
{
    return wire->queued[wire->n_queued].frame;
}

static inline bool wire_is_full(const struct wire *wire)
{
    return wire->n_queued == WIRE_BATCH;
}

/* Queue the frame in wire_room for the flush, which notes its time in *stamped*. */
void wire_queue(struct wire *wire, size_t n_bytes, int64_t *stamped);

/* Send the queued frames. Return how many there were. */
int wire_flush(struct wire *wire);

/* Note *now_ns* as the time of the frames of the last flush: the first left somewhat earlier. */
void wire_stamp(struct wire *wire, int n_frames, int64_t now_ns);

/* Frames that found no room in the ring since the last call. */
int64_t wire_dropped(const struct wire *wire);

void wire_close(struct wire *wire);

#endif
