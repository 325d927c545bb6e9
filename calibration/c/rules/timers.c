/* TCP's timers and queues, seen from the other end of a TUN device. */
#include "rules.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    PEER_PORT = 20000,
    OTHER_PORT = 30000,
    SYN_RECV = 3,
    FIN_WAIT2 = 5,
    TIME_WAIT = 6,
    SEGMENT = 1460,
    TIMES_MAX = 32,
    /* All of a flight leaves at once. No timer goes off meanwhile: time-outs follow the round trip
     * that the kernel measures, and this is less than one. */
    FLIGHT_MS = 25,
    ROUND_TRIP_MS = 60,
    MUCH = 1 << 20,
    SEEN_MAX = 4096,
};

static struct wire wire;

/* Each process has another: where there are no namespaces, what is left of one is seen by all. */
static uint16_t own_port(void)
{
    return (uint16_t)(8000 + getpid() % 1000);
}

static void begin(void)
{
    wire_open(&wire);
    wire.port = own_port();
}

/* Print when segments to *port* with all of *flags* come, in whole seconds since the first: a timer
 * may be late, and never early. */
static void say_times(uint16_t port, unsigned flags, int seconds)
{
    struct segment segment;
    int64_t first_ns = -1, end_ns = now_ns() + seconds * NS_PER_S;
    while (now_ns() < end_ns) {
        if (wire_receive(&wire, &segment, (end_ns - now_ns()) / NS_PER_MS + 1) &&
            segment.port == port && (segment.flags & flags) == flags) {
            if (first_ns >= 0) {
                say_next("%ld", (long)((segment.at_ns - first_ns) / NS_PER_S));
            } else {
                first_ns = segment.at_ns;
            }
        }
    }
    if (first_ns < 0) {
        not_asked("no segment came that could be repeated");
    }
    say_list_end();
}

/* Print the first pause between such segments in tenths of a second, and each of the others as a
 * multiple of the one before. */
static void say_pauses(unsigned flags, int seconds)
{
    struct segment segment;
    int64_t last_ns = -1, pause_ns = 0, end_ns = now_ns() + seconds * NS_PER_S;
    while (now_ns() < end_ns) {
        if (!wire_receive(&wire, &segment, (end_ns - now_ns()) / NS_PER_MS + 1) ||
            segment.port != PEER_PORT || (segment.flags & flags) != flags) {
            continue;
        }
        int64_t now_pause_ns = segment.at_ns - last_ns;
        if (last_ns >= 0) {
            int64_t unit_ns = pause_ns == 0 ? NS_PER_S / 10 : pause_ns;
            say_next("%ld", (long)((now_pause_ns + unit_ns / 2) / unit_ns));
            pause_ns = now_pause_ns;
        }
        last_ns = segment.at_ns;
    }
    if (last_ns < 0) {
        not_asked("no segment came that could be repeated");
    }
    say_list_end();
}

/* A connection of the kernel's end to *peer*, accepted. */
static int serve_peer(struct peer *peer, int listener)
{
    peer_connect(peer);
    return sure(accept4(listener, NULL, NULL, SOCK_NONBLOCK), "accept");
}

static struct peer open_distant(int *server, int64_t delay_ms)
{
    begin();
    struct peer peer = peer_of(&wire, PEER_PORT, own_port());
    peer.sacks = true;
    peer.delay_ms = delay_ms;
    *server = serve_peer(&peer, wire_listener(own_port(), 8));
    return peer;
}

static struct peer open_peer(int *server)
{
    return open_distant(server, 0);
}

static void backlog(void)
{
    int listener = listener_open(1), n = 0;
    struct sockaddr_in address;
    socklen_t size = sizeof address;
    sure(getsockname(listener, (struct sockaddr *)&address, &size), "getsockname");
    for (int i = 0; i < 5; i++) {
        int fd = sure(socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0), "socket");
        struct pollfd one = {.fd = fd, .events = POLLOUT};
        (void)connect(fd, (struct sockaddr *)&address, size);
        n += poll(&one, 1, 50) == 1;
    }
    say("%d", n);
}

static void fill_queue(int n)
{
    for (int i = 0; i < n; i++) {
        struct peer peer = peer_of(&wire, (uint16_t)(PEER_PORT + i), own_port());
        peer_connect(&peer);
    }
}

/* Whether a backlog is no longer than net.core.somaxconn: a listener reports it as tcpi_sacked. */
static void backlog_bound(void)
{
    struct tcp_info info = {0};
    socklen_t size = sizeof info;
    int listener = listener_open(UINT16_MAX);
    sure(getsockopt(listener, IPPROTO_TCP, TCP_INFO, &info, &size), "TCP_INFO");
    say("%s", as_bool((long)info.tcpi_sacked == file_number("/proc/sys/net/core/somaxconn")));
}

static void syn_to_full_queue(void)
{
    struct segment segment;
    begin();
    (void)wire_listener(own_port(), 1);
    fill_queue(2);
    struct peer late = peer_of(&wire, OTHER_PORT, own_port());
    peer_send(&late, SYN, 0);
    say("%s", wire_receive(&wire, &segment, 300) ? "\"an answer\"" : "\"nothing\"");
}

/* The accept queue has room for 2 of 8 that connect at once: print how many are half open later. */
static void say_half_open(int listen_backlog)
{
    static const int at_s[] = {2, 10, 40, 70};
    struct segment segment;
    struct peer peers[8];
    begin();
    (void)wire_listener(own_port(), listen_backlog);
    fill_queue(listen_backlog - 1);
    for (int i = 0; i < 8; i++) {
        peers[i] = peer_of(&wire, (uint16_t)(OTHER_PORT + i), own_port());
        peer_send(&peers[i], SYN, 0);
    }
    int64_t begin_ns = now_ns();
    for (size_t k = 0; k < sizeof at_s / sizeof at_s[0]; k++) {
        int64_t end_ns = begin_ns + at_s[k] * NS_PER_S;
        while (now_ns() < end_ns) {
            if (!wire_receive(&wire, &segment, (end_ns - now_ns()) / NS_PER_MS + 1) ||
                segment.port < OTHER_PORT || segment.flags != (SYN | ACK)) {
                continue;
            }
            /* It acknowledges each SYN-ACK, as clients do. */
            struct peer *peer = &peers[segment.port - OTHER_PORT];
            peer->ack = segment.seq + 1;
            peer_send(peer, ACK, 0);
        }
        say_next("%d", n_in_state(own_port(), SYN_RECV));
    }
    say_list_end();
}

static void half_open_pruned(void)
{
    say_half_open(7);
}

static void half_open_expires(void)
{
    say_half_open(40);
}

static void syn_ack_times(void)
{
    begin();
    (void)wire_listener(own_port(), 8);
    struct peer silent = peer_of(&wire, PEER_PORT, own_port());
    peer_send(&silent, SYN, 0);
    say_times(PEER_PORT, SYN | ACK, 66);
}

static void set_sysctl(const char *path, const char *value)
{
    int fd = sure(open(path, O_WRONLY | O_CLOEXEC), path);
    sure(write(fd, value, strlen(value)), path);
    (void)close(fd);
}

/* This many clients send a SYN and nothing else: print how many get a SYN-ACK and an entry. */
static void say_entries(int listen_backlog, int n_clients)
{
    struct segment segment;
    int n_answers = 0;
    (void)wire_listener(own_port(), listen_backlog);
    for (int i = 0; i < n_clients; i++) {
        struct peer peer = peer_of(&wire, (uint16_t)(PEER_PORT + i), own_port());
        peer_send(&peer, SYN, 0);
    }
    while (wire_receive(&wire, &segment, 100)) {
        n_answers += segment.flags == (SYN | ACK);
    }
    say_next("%d", n_answers);
    say_next("%d", n_in_state(own_port(), SYN_RECV));
    say_list_end();
}

static void cookies(void)
{
    begin();
    set_sysctl("/proc/sys/net/ipv4/tcp_syncookies", "1");
    say_entries(4, 8);
}

static void no_cookies(void)
{
    begin();
    set_sysctl("/proc/sys/net/ipv4/tcp_syncookies", "0");
    say_entries(4, 8);
}

/* Without cookies, and with a longer backlog, another bound holds, too. */
static void max_syn_backlog(void)
{
    begin();
    set_sysctl("/proc/sys/net/ipv4/tcp_syncookies", "0");
    set_sysctl("/proc/sys/net/ipv4/tcp_max_syn_backlog", "16");
    say_entries(100, 20);
}

/* The number of SYN-ACKs within 4 s for a SYN of which the kernel keeps no entry. */
static void cookie_times(void)
{
    begin();
    set_sysctl("/proc/sys/net/ipv4/tcp_syncookies", "1");
    (void)wire_listener(own_port(), 4);
    for (int i = 0; i < 8; i++) {
        struct peer peer = peer_of(&wire, (uint16_t)(PEER_PORT + i), own_port());
        peer_send(&peer, SYN, 0);
    }
    say_times(PEER_PORT + 7, SYN | ACK, 4);
}

static void syn_times(void)
{
    begin();
    (void)wire_call(own_port());
    say_times(own_port(), SYN, 22);
}

static void data_times(void)
{
    int server;
    (void)open_peer(&server);
    send_byte(server);
    say_pauses(PSH | ACK, 29);
}

static void data_times_without_sack(void)
{
    int server;
    begin();
    struct peer peer = peer_of(&wire, PEER_PORT, own_port());
    server = serve_peer(&peer, wire_listener(own_port(), 8));
    send_byte(server);
    say_pauses(PSH | ACK, 4);
}

static void fin_times(void)
{
    int server;
    (void)open_peer(&server);
    (void)close(server);
    say_pauses(FIN, 4);
}

static void reset_once(void)
{
    int server;
    struct peer peer = open_peer(&server);
    peer_send(&peer, PSH | ACK, 100);
    (void)close(server);
    say_times(PEER_PORT, RST, 4);
}

/* Data of a client whose connection the kernel's end has reset. */
static void data_after_reset(void)
{
    int server;
    struct segment segment;
    struct peer peer = open_peer(&server);
    peer_send(&peer, PSH | ACK, 100);
    (void)close(server);
    wire_skip(&wire, 20);
    peer_send(&peer, PSH | ACK, 100);
    bool came = wire_receive(&wire, &segment, 100);
    say("\"%s\"", came && segment.flags & RST ? "a reset" : "no reset");
}

/* The time until the next segment of the kernel's end, in ms, rounded down to ten; -1: none came. */
static long next_ms(struct segment *segment)
{
    int64_t begin_ns = now_ns();
    if (!wire_receive(&wire, segment, 100)) {
        return -1;
    }
    return 10 * (long)((now_ns() - begin_ns) / (10 * NS_PER_MS));
}

/* Exchange a request, a reply and its acknowledgement: the connection is interactive then. */
static void converse(struct peer *peer, int server)
{
    struct segment segment;
    peer_send(peer, PSH | ACK, 100);
    rest_ms(1);
    drain(server);
    send_bytes(server, 100);
    wire_skip(&wire, 20);
    peer->ack += 100;
    peer_send(peer, ACK, 0);
    while (wire_receive(&wire, &segment, 5)) {
    }
}

static void first_ack(void)
{
    int server;
    struct segment segment;
    struct peer peer = open_peer(&server);
    peer_send(&peer, PSH | ACK, 100);
    say("%ld", next_ms(&segment));
}

static void later_ack(void)
{
    int server;
    struct segment segment;
    struct peer peer = open_peer(&server);
    converse(&peer, server);
    peer_send(&peer, PSH | ACK, 100);
    say("%ld", next_ms(&segment));
}

/* Segments of the kernel's end for a request and its reply. */
static void ack_with_reply(void)
{
    int server, n = 0;
    struct segment segment;
    struct peer peer = open_peer(&server);
    converse(&peer, server);
    peer_send(&peer, PSH | ACK, 100);
    rest_ms(1);
    send_bytes(server, 100);
    while (wire_receive(&wire, &segment, 60)) {
        n++;
    }
    say("%d", n);
}

static void second_segment(void)
{
    int server;
    struct segment segment;
    struct peer peer = open_peer(&server);
    converse(&peer, server);
    peer_send(&peer, ACK, SEGMENT);
    peer_send(&peer, ACK, SEGMENT);
    say("%ld", next_ms(&segment));
}

/* Segments that carry data within a moment; all are acknowledged then, if so wanted. */
static int flight(struct peer *peer, bool acknowledges)
{
    struct segment segment;
    int n = 0;
    while (wire_receive(&wire, &segment, FLIGHT_MS)) {
        if (segment.n_bytes > 0) {
            n++;
            peer->ack = segment.seq + (uint32_t)segment.n_bytes;
        }
    }
    if (acknowledges) {
        peer_send(peer, ACK, 0);
    }
    return n;
}

static void write_much(int server)
{
    static const char zeros[MUCH];
    int bytes = MUCH;
    sure(setsockopt(server, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes), "SO_SNDBUF");
    sure(send(server, zeros, sizeof zeros, MSG_DONTWAIT), "send");
}

static void window_grows(void)
{
    int server;
    struct peer peer = open_distant(&server, ROUND_TRIP_MS);
    write_much(server);
    for (int i = 0; i < 3; i++) {
        say_next("%d", flight(&peer, true));
    }
    say_list_end();
}

static struct tcp_info info_of(int server)
{
    struct tcp_info info = {0};
    socklen_t size = sizeof info;
    sure(getsockopt(server, IPPROTO_TCP, TCP_INFO, &info, &size), "TCP_INFO");
    return info;
}

/* The window before and after nothing was sent for one time-out and a half. */
static void window_after_idleness(void)
{
    int server;
    static const char zeros[30 * SEGMENT];
    struct peer peer = open_distant(&server, ROUND_TRIP_MS);
    sure(send(server, zeros, sizeof zeros, 0), "send");
    while (flight(&peer, true) > 0) {
    }
    struct tcp_info info = info_of(server);
    say_next("%u", info.tcpi_snd_cwnd);
    int64_t idle_ns = 3LL * info.tcpi_rto * 1000 / 2 - 1000LL * 1000 * info.tcpi_last_data_sent;
    rest_ms(idle_ns / NS_PER_MS);
    send_bytes(server, 100);
    say_next("%u", info_of(server).tcpi_snd_cwnd);
    say_list_end();
}

/* The window, and where slow start ends, after a whole flight of ten was lost. */
static void window_after_loss(void)
{
    int server;
    static const char zeros[10 * SEGMENT];
    struct segment segment;
    (void)open_peer(&server);
    sure(send(server, zeros, sizeof zeros, 0), "send");
    while (info_of(server).tcpi_ca_state != 4 && wire_receive(&wire, &segment, 2000)) {
    }
    struct tcp_info info = info_of(server);
    say_next("%u", info.tcpi_snd_cwnd);
    say_next("%u", info.tcpi_snd_ssthresh);
    say_list_end();
}

/* The seconds that the timer of the connection in that state has left; -1: there is none. */
static long timer_s(unsigned state)
{
    char line[512];
    long seconds = -1;
    FILE *file = fopen("/proc/self/net/tcp", "re");
    if (file == NULL) {
        not_asked("/proc/self/net/tcp: %s", strerror(errno));
    }
    while (fgets(line, sizeof line, file) != NULL) {
        unsigned port = 0, found = 0, hundredths = 0;
        if (sscanf(line, " %*d: %*x:%x %*x:%*x %x %*x:%*x %*x:%x", &port, &found, &hundredths) ==
                3 &&
            port == own_port() && found == state) {
            seconds = (hundredths + 50) / 100;
        }
    }
    (void)fclose(file);
    return seconds;
}

/* The kernel's end closes; the client acknowledges, and closes, too, if so wanted. */
static struct peer close_first(bool client_closes)
{
    int server;
    struct segment segment;
    struct peer peer = open_peer(&server);
    (void)close(server);
    while (wire_receive(&wire, &segment, FLIGHT_MS)) {
        if (segment.flags & FIN) {
            peer.ack = segment.seq + 1;
        }
    }
    peer_send(&peer, client_closes ? FIN | ACK : ACK, 0);
    wire_skip(&wire, FLIGHT_MS);
    return peer;
}

static void time_wait(void)
{
    (void)close_first(true);
    say("%ld", timer_s(TIME_WAIT));
}

static void fin_wait(void)
{
    (void)close_first(false);
    say("%ld", timer_s(FIN_WAIT2));
}

static void time_wait_reused(void)
{
    struct segment segment;
    struct peer peer = close_first(true);
    peer.seq += 100000;
    peer_send(&peer, SYN, 0);
    bool came = wire_receive(&wire, &segment, 100);
    say("\"%s\"", came && segment.flags == (SYN | ACK) ? "SYN-ACK" : "another answer");
}

/* The client closes first: what is left at the kernel's end when both have closed. */
static void client_closes_first(void)
{
    int server;
    struct segment segment;
    struct peer peer = open_peer(&server);
    peer_send(&peer, FIN | ACK, 0);
    rest_ms(5);
    (void)close(server);
    while (wire_receive(&wire, &segment, FLIGHT_MS)) {
        if (segment.flags & FIN) {
            peer.ack = segment.seq + 1;
            peer_send(&peer, ACK, 0);
        }
    }
    say("%d", n_in_state(own_port(), TIME_WAIT));
}

const struct rule timer_rules[] = {
    {"backlog", backlog, NEEDS_NETWORK, 0},
    {"backlog_bound", backlog_bound, NEEDS_NETWORK, 0},
    {"syn_to_full_queue", syn_to_full_queue, NEEDS_NETWORK, 0},
    {"half_open_pruned", half_open_pruned, NEEDS_NETWORK | TAKES_LONG, 80},
    {"half_open_expires", half_open_expires, NEEDS_NETWORK | TAKES_LONG, 80},
    {"syn_ack_times", syn_ack_times, NEEDS_NETWORK | TAKES_LONG, 80},
    {"half_open_with_cookies", cookies, NEEDS_NETWORK, 0},
    {"half_open_without_cookies", no_cookies, NEEDS_NETWORK, 0},
    {"half_open_of_max_syn_backlog", max_syn_backlog, NEEDS_NETWORK, 0},
    {"cookie_not_repeated", cookie_times, NEEDS_NETWORK | TAKES_LONG, 0},
    {"syn_times", syn_times, NEEDS_NETWORK | TAKES_LONG, 40},
    {"data_times", data_times, NEEDS_NETWORK | TAKES_LONG, 40},
    {"data_times_without_sack", data_times_without_sack, NEEDS_NETWORK | TAKES_LONG, 0},
    {"fin_times", fin_times, NEEDS_NETWORK | TAKES_LONG, 0},
    {"reset_not_repeated", reset_once, NEEDS_NETWORK | TAKES_LONG, 0},
    {"data_after_reset", data_after_reset, NEEDS_NETWORK, 0},
    {"ack_of_first_request", first_ack, NEEDS_NETWORK, 0},
    {"ack_of_later_request", later_ack, NEEDS_NETWORK, 0},
    {"ack_with_reply", ack_with_reply, NEEDS_NETWORK, 0},
    {"ack_of_second_segment", second_segment, NEEDS_NETWORK, 0},
    {"window_grows", window_grows, NEEDS_NETWORK, 0},
    {"window_after_idleness", window_after_idleness, NEEDS_NETWORK, 0},
    {"window_after_loss", window_after_loss, NEEDS_NETWORK, 0},
    {"time_wait", time_wait, NEEDS_NETWORK, 0},
    {"time_wait_reused", time_wait_reused, NEEDS_NETWORK, 0},
    {"client_closes_first", client_closes_first, NEEDS_NETWORK, 0},
    {"fin_wait", fin_wait, NEEDS_NETWORK, 0},
    {0},
};
