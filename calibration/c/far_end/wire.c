#include "wire.h"

#include "../servers/program.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

enum { BLOCK_BYTES = 1 << 16, TCP_AT = 34, CHECKSUM_AT = 16 };

/* tpacket_rcv: its header, the address, 16 for the link's own, up to 15 to align. */
_Static_assert(WIRE_FRAME >=
                   sizeof(struct tpacket2_hdr) + sizeof(struct sockaddr_ll) + 31 + WIRE_CAPTURED,
               "a frame of the ring must hold the captured bytes");

static int open_socket(int protocol)
{
    int fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, protocol);
    if (fd < 0) {
        fail("cannot open a packet socket: %s", strerror(errno));
    }
    return fd;
}

static void set_option(int fd, int option, const void *value, socklen_t n_bytes, const char *name)
{
    if (setsockopt(fd, SOL_PACKET, option, value, n_bytes) != 0) {
        fail("setsockopt of %s: %s", name, strerror(errno));
    }
}

static int index_of(int fd, const char *interface)
{
    struct ifreq request = {0};
    if (strlen(interface) >= IFNAMSIZ) {
        refuse("--interface must have at most %d characters, got \"%s\"", IFNAMSIZ - 1, interface);
    }
    memcpy(request.ifr_name, interface, strlen(interface));
    if (ioctl(fd, SIOCGIFHWADDR, &request) != 0 || request.ifr_hwaddr.sa_family != ARPHRD_ETHER) {
        refuse("--interface must be an Ethernet interface that exists here, got \"%s\"", interface);
    }
    if (ioctl(fd, SIOCGIFINDEX, &request) != 0) {
        fail("ioctl of SIOCGIFINDEX: %s", strerror(errno));
    }
    return request.ifr_ifindex;
}

/* Let only TCP over IPv4 from *ip* and *port* through, and only the first bytes of a frame: the
 * kernel copies them on the CPU of the server.
 */
static void filter(int fd, uint32_t ip, uint16_t port)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_H | BPF_ABS, 12),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ETHERTYPE_IP, 0, 8),
        BPF_STMT(BPF_LD | BPF_B | BPF_ABS, 23),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, IPPROTO_TCP, 0, 6),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 26),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ip, 0, 4),
        BPF_STMT(BPF_LDX | BPF_B | BPF_MSH, 14),
        BPF_STMT(BPF_LD | BPF_H | BPF_IND, 14),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, port, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, WIRE_CAPTURED),
        BPF_STMT(BPF_RET | BPF_K, 0),
    };
    const struct sock_fprog program = {sizeof code / sizeof *code, code};
    if (setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program) != 0) {
        fail("setsockopt of SO_ATTACH_FILTER: %s", strerror(errno));
    }
}

static void open_ring(struct wire *wire)
{
    const int version = TPACKET_V2;
    const int on = 1;
    const struct tpacket_req ring = {
        .tp_block_size = BLOCK_BYTES,
        .tp_block_nr = (unsigned)WIRE_FRAMES * WIRE_FRAME / BLOCK_BYTES,
        .tp_frame_size = WIRE_FRAME,
        .tp_frame_nr = WIRE_FRAMES,
    };
    set_option(wire->in_fd, PACKET_VERSION, &version, sizeof version, "PACKET_VERSION");
    set_option(wire->in_fd, PACKET_IGNORE_OUTGOING, &on, sizeof on, "PACKET_IGNORE_OUTGOING");
    set_option(wire->in_fd, PACKET_RX_RING, &ring, sizeof ring, "PACKET_RX_RING");
    wire->ring = mmap(NULL, (size_t)WIRE_FRAMES * WIRE_FRAME, PROT_READ | PROT_WRITE,
                      MAP_SHARED | MAP_POPULATE, wire->in_fd, 0);
    if (wire->ring == MAP_FAILED) {
        fail("mmap of the receive ring: %s", strerror(errno));
    }
}

static void bind_to(int fd, int interface, uint16_t protocol)
{
    const struct sockaddr_ll at = {
        .sll_family = AF_PACKET,
        .sll_protocol = htons(protocol),
        .sll_ifindex = interface,
    };
    if (bind(fd, (const struct sockaddr *)&at, sizeof at) != 0) {
        fail("bind of a packet socket: %s", strerror(errno));
    }
}

void wire_open(struct wire *wire, const char *interface, uint32_t from_ip, uint16_t from_port)
{
    const int on = 1;
    wire->in_fd = open_socket(0); /* it receives nothing before it is bound */
    wire->out_fd = open_socket(0);
    int index = index_of(wire->in_fd, interface);
    filter(wire->in_fd, from_ip, from_port);
    open_ring(wire);
    bind_to(wire->in_fd, index, ETH_P_IP);
    set_option(wire->out_fd, PACKET_QDISC_BYPASS, &on, sizeof on, "PACKET_QDISC_BYPASS");
    set_option(wire->out_fd, PACKET_VNET_HDR, &on, sizeof on, "PACKET_VNET_HDR");
    bind_to(wire->out_fd, index, 0);
    for (int i = 0; i < WIRE_BATCH; i++) {
        wire->queued[i].virtio = (struct virtio_net_hdr){
            .flags = VIRTIO_NET_HDR_F_NEEDS_CSUM,
            .gso_type = VIRTIO_NET_HDR_GSO_NONE,
            .csum_start = TCP_AT,
            .csum_offset = CHECKSUM_AT,
        };
        wire->vectors[i].iov_base = &wire->queued[i].virtio;
        wire->messages[i].msg_hdr.msg_iov = &wire->vectors[i];
        wire->messages[i].msg_hdr.msg_iovlen = 1;
    }
}

static struct tpacket2_hdr *header_at(const struct wire *wire)
{
    return (struct tpacket2_hdr *)(void *)(wire->ring + wire->slot * WIRE_FRAME);
}

const uint8_t *wire_next(struct wire *wire, size_t *n_captured)
{
    struct tpacket2_hdr *header = header_at(wire);
    if (!(__atomic_load_n(&header->tp_status, __ATOMIC_ACQUIRE) & TP_STATUS_USER)) {
        return NULL;
    }
    wire->n_received++;
    *n_captured = header->tp_snaplen;
    return (const uint8_t *)header + header->tp_mac;
}

void wire_done(struct wire *wire)
{
    __atomic_store_n(&header_at(wire)->tp_status, TP_STATUS_KERNEL, __ATOMIC_RELEASE);
    wire->slot = (wire->slot + 1) % WIRE_FRAMES;
}

void wire_queue(struct wire *wire, size_t n_bytes, int64_t *stamped)
{
    /* In one piece of memory, as packet_snd does without such a header. */
    wire->queued[wire->n_queued].virtio.hdr_len = (uint16_t)n_bytes;
    wire->vectors[wire->n_queued].iov_len = sizeof(struct virtio_net_hdr) + n_bytes;
    wire->stamped[wire->n_queued] = stamped;
    wire->n_queued++;
}

void wire_stamp(struct wire *wire, int n_frames, int64_t now_ns)
{
    for (int i = 0; i < n_frames; i++) {
        if (wire->stamped[i] != NULL) {
            *wire->stamped[i] = now_ns;
        }
    }
}

int wire_flush(struct wire *wire)
{
    int n_frames = wire->n_queued;
    for (int n_done = 0; n_done < n_frames;) {
        int n = sendmmsg(wire->out_fd, wire->messages + n_done, (unsigned)(n_frames - n_done),
                         MSG_DONTWAIT);
        if (n > 0) {
            n_done += n;
        } else if (errno != EAGAIN && errno != ENOBUFS && errno != EINTR) {
            fail("sendmmsg: %s", strerror(errno));
        } else if (stop_requested()) {
            break;
        }
    }
    wire->n_sent += n_frames;
    wire->n_flushes += n_frames > 0;
    wire->n_queued = 0;
    return n_frames;
}

int64_t wire_dropped(const struct wire *wire)
{
    struct tpacket_stats counts = {0};
    socklen_t n_bytes = sizeof counts;
    if (getsockopt(wire->in_fd, SOL_PACKET, PACKET_STATISTICS, &counts, &n_bytes) != 0) {
        fail("getsockopt of PACKET_STATISTICS: %s", strerror(errno));
    }
    return counts.tp_drops;
}

void wire_close(struct wire *wire)
{
    if (munmap(wire->ring, (size_t)WIRE_FRAMES * WIRE_FRAME) != 0 || close(wire->in_fd) != 0 ||
        close(wire->out_fd) != 0) {
        fail("cannot close the packet sockets: %s", strerror(errno));
    }
}
