/* The other end of the kernel's connections: a TUN device, and segments made by hand.
 *
 *     kernel, 10.0.0.1 ── TUN device ── this process: 10.0.0.5
 *
 * The client here answers nothing that a rule does not have it answer, so that timers go off.
 * Sources: Documentation/networking/tuntap.rst; RFC 791, RFC 9293 (headers and checksums).
 */
#include "rules.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

enum {
    KERNEL_ADDRESS = 0x0a000001,
    PEER_ADDRESS = 0x0a000005,
    NETWORK_BITS = 24,
    IP_BYTES = 20,
    TCP_BYTES = 20,
    OPTION_BYTES = 8,
    SEGMENT_MAX = 1500,
    WINDOW = 64240,
    FIRST_SEQ = 1000,
    CONNECT_MS = 500,
    TUN_MAJOR = 10,
    TUN_MINOR = 200,
};

static void put16(uint8_t *place, uint32_t value)
{
    place[0] = (uint8_t)(value >> 8);
    place[1] = (uint8_t)value;
}

static void put32(uint8_t *place, uint32_t value)
{
    put16(place, value >> 16);
    put16(place + 2, value & 0xffff);
}

static uint16_t get16(const uint8_t *place)
{
    return (uint16_t)(place[0] << 8 | place[1]);
}

static uint32_t get32(const uint8_t *place)
{
    return (uint32_t)get16(place) << 16 | get16(place + 2);
}

static uint32_t sum_of(const uint8_t *bytes, int n)
{
    uint32_t sum = 0;
    for (int i = 0; i + 1 < n; i += 2) {
        sum += get16(bytes + i);
    }
    return n % 2 == 0 ? sum : sum + (uint32_t)(bytes[n - 1] << 8);
}

static uint16_t checksum(uint32_t sum)
{
    while (sum >> 16 != 0) {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    return (uint16_t)~sum;
}

static void set_address(int fd, struct ifreq *device, unsigned long what, uint32_t address)
{
    struct sockaddr_in wanted = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(address)};
    memcpy(&device->ifr_addr, &wanted, sizeof wanted);
    sure(ioctl(fd, what, device), "the address of a TUN device");
}

void wire_open(struct wire *wire)
{
    struct ifreq device = {.ifr_name = "rules0", .ifr_flags = IFF_TUN | IFF_NO_PI};
    if (alone) {
        /* A guest has no node of it. In the /dev of a machine that others use nothing is made. */
        (void)mkdir("/dev/net", 0755);
        (void)mknod("/dev/net/tun", S_IFCHR | 0600, makedev(TUN_MAJOR, TUN_MINOR));
    }
    wire->port = 0;
    wire->tun = sure(open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC), "/dev/net/tun");
    sure(ioctl(wire->tun, TUNSETIFF, &device), "TUNSETIFF");
    int fd = sure(socket(AF_INET, SOCK_DGRAM, 0), "socket");
    set_address(fd, &device, SIOCSIFADDR, KERNEL_ADDRESS);
    set_address(fd, &device, SIOCSIFNETMASK, UINT32_MAX << (32 - NETWORK_BITS));
    device.ifr_flags = IFF_UP | IFF_RUNNING;
    sure(ioctl(fd, SIOCSIFFLAGS, &device), "a TUN device");
    (void)close(fd);
    wire->begin_ns = now_ns();
}

int wire_listener(uint16_t port, int backlog)
{
    int fd = sure(socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0), "socket");
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(KERNEL_ADDRESS)};
    sure(bind(fd, (struct sockaddr *)&address, sizeof address), "bind");
    sure(listen(fd, backlog), "listen");
    /* What the machine has set (net.ipv4.tcp_congestion_control) is no rule of the kernel. */
    (void)setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, "cubic", sizeof "cubic");
    return fd;
}

int wire_call(uint16_t port)
{
    int fd = sure(socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0), "socket");
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(PEER_ADDRESS)};
    if (connect(fd, (struct sockaddr *)&address, sizeof address) != 0 && errno != EINPROGRESS) {
        not_asked("connect: %s", strerror(errno));
    }
    return fd;
}

bool wire_receive(struct wire *wire, struct segment *segment, int64_t milliseconds)
{
    uint8_t bytes[SEGMENT_MAX];
    int64_t end_ns = now_ns() + milliseconds * NS_PER_MS;
    for (;;) {
        ssize_t n = read(wire->tun, bytes, sizeof bytes);
        if (n >= IP_BYTES + TCP_BYTES && bytes[0] == 0x45 && bytes[9] == IPPROTO_TCP) {
            const uint8_t *tcp = bytes + IP_BYTES;
            *segment = (struct segment){
                .at_ns = now_ns() - wire->begin_ns,
                .server_port = get16(tcp),
                .port = get16(tcp + 2),
                .seq = get32(tcp + 4),
                .ack = get32(tcp + 8),
                .flags = tcp[13],
                .n_bytes = get16(bytes + 2) - IP_BYTES - (tcp[12] >> 4) * 4,
            };
            if (wire->port == 0 || wire->port == segment->port ||
                wire->port == segment->server_port) {
                return true;
            }
        }
        if (n > 0) {
            continue; /* or not TCP: the kernel looks for routers */
        }
        int64_t left_ms = (end_ns - now_ns() + NS_PER_MS - 1) / NS_PER_MS;
        struct pollfd one = {.fd = wire->tun, .events = POLLIN};
        if (left_ms <= 0 || poll(&one, 1, (int)left_ms) < 0) {
            return false;
        }
    }
}

void wire_skip(struct wire *wire, int64_t milliseconds)
{
    struct segment segment;
    int64_t end_ns = now_ns() + milliseconds * NS_PER_MS;
    while (now_ns() < end_ns) {
        (void)wire_receive(wire, &segment, (end_ns - now_ns()) / NS_PER_MS + 1);
    }
}

struct peer peer_of(struct wire *wire, uint16_t port, uint16_t server_port)
{
    return (struct peer){.wire = wire, .port = port, .server_port = server_port, .seq = FIRST_SEQ};
}

void peer_send(struct peer *peer, unsigned flags, int n_bytes)
{
    uint8_t bytes[SEGMENT_MAX] = {0x45};
    uint8_t *tcp = bytes + IP_BYTES;
    int header = TCP_BYTES + (flags & SYN ? OPTION_BYTES : 0), n = header + n_bytes;
    if (IP_BYTES + n > SEGMENT_MAX) {
        not_asked("a segment of %d bytes is too long", n_bytes);
    }
    put16(bytes + 2, (uint32_t)(IP_BYTES + n));
    bytes[8] = 64;
    bytes[9] = IPPROTO_TCP;
    put32(bytes + 12, PEER_ADDRESS);
    put32(bytes + 16, KERNEL_ADDRESS);
    put16(bytes + 10, checksum(sum_of(bytes, IP_BYTES)));
    put16(tcp, peer->port);
    put16(tcp + 2, peer->server_port);
    put32(tcp + 4, peer->seq);
    put32(tcp + 8, flags & ACK ? peer->ack : 0);
    tcp[12] = (uint8_t)(header / 4 << 4);
    tcp[13] = (uint8_t)flags;
    put16(tcp + 14, WINDOW);
    if (flags & SYN) {
        /* Segments of 1460 bytes; selective acknowledgements, or nothing twice. */
        const uint8_t options[OPTION_BYTES] = {
            2, 4, 0x05, 0xb4, peer->sacks ? 4 : 1, peer->sacks ? 2 : 1, 1, 1};
        memcpy(tcp + TCP_BYTES, options, sizeof options);
    }
    put16(tcp + 16, checksum(sum_of(bytes + 12, 8) + IPPROTO_TCP + (uint32_t)n + sum_of(tcp, n)));
    sure(write(peer->wire->tun, bytes, (size_t)(IP_BYTES + n)), "a write to a TUN device");
    peer->seq += (uint32_t)n_bytes + (flags & (SYN | FIN) ? 1 : 0);
}

void peer_connect(struct peer *peer)
{
    struct segment segment;
    peer_send(peer, SYN, 0);
    while (wire_receive(peer->wire, &segment, CONNECT_MS)) {
        if (segment.port == peer->port && (segment.flags & (SYN | ACK)) == (SYN | ACK)) {
            peer->ack = segment.seq + 1;
            rest_ms(peer->delay_ms);
            peer_send(peer, ACK, 0);
            return;
        }
    }
    not_asked("no SYN-ACK came out of a TUN device");
}

int n_in_state(uint16_t server_port, unsigned state)
{
    char line[512];
    int n = 0;
    FILE *file = fopen("/proc/self/net/tcp", "re");
    if (file == NULL) {
        not_asked("/proc/self/net/tcp: %s", strerror(errno));
    }
    while (fgets(line, sizeof line, file) != NULL) {
        unsigned port = 0, found = 0;
        if (sscanf(line, " %*d: %*x:%x %*x:%*x %x", &port, &found) == 2) {
            n += port == server_port && found == state;
        }
    }
    (void)fclose(file);
    return n;
}
