/* Sockets, connections, data in their buffers, and calls that watch them. */
#include "memory.h"

#include "../servers/program.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/sock_diag.h>
#include <linux/sockios.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    ONE_QUEUE = 2000, /* connections of a listener: below the least net.core.somaxconn in use */
    SMALL_BUFFER = 4096,
    REPLY_BYTES = 1 << 18,
    LISTENERS_MAX = 16,
};

static int sure(int result, const char *what)
{
    if (result < 0) {
        fail("%s failed: %s", what, strerror(errno));
    }
    return result;
}

static int *descriptors(int64_t n)
{
    int *fds = calloc((size_t)n, sizeof *fds);
    if (fds == NULL) {
        fail("out of memory");
    }
    return fds;
}

/* Record the memory of n items between two readings, in caches of the slab allocator. */
static void note(struct found *found, const struct reading *before, struct reading *after,
                 int64_t n)
{
    take_reading(after);
    found->asked = true;
    found->bytes = grown_slab(before, after, n) / (double)n;
}

/* The table of descriptors reaches its full size before anything is measured. */
static void make_room(int64_t n_fds)
{
    limit_descriptors(n_fds);
    int highest = sure(dup2(STDERR_FILENO, (int)n_fds - 1), "dup2");
    (void)close(highest);
}

static int64_t listeners_of(int64_t n)
{
    return (n + ONE_QUEUE - 1) / ONE_QUEUE;
}

static int *listen_to(int64_t n, struct sockaddr_in *addresses, bool deferred)
{
    int64_t n_listeners = listeners_of(n);
    int *listeners = descriptors(n_listeners);
    for (int64_t i = 0; i < n_listeners; i++) {
        const int seconds = 60;
        socklen_t size = sizeof addresses[i];
        addresses[i] = parse_address("127.0.0.1", 0);
        listeners[i] = sure(socket(AF_INET, SOCK_STREAM, 0), "socket");
        sure(bind(listeners[i], (struct sockaddr *)&addresses[i], size), "bind");
        if (deferred) {
            sure(setsockopt(listeners[i], IPPROTO_TCP, TCP_DEFER_ACCEPT, &seconds, sizeof seconds),
                 "setsockopt(TCP_DEFER_ACCEPT)");
        }
        sure(listen(listeners[i], 2 * ONE_QUEUE), "listen");
        sure(getsockname(listeners[i], (struct sockaddr *)&addresses[i], &size), "getsockname");
    }
    return listeners;
}

/* The clients are a separate process: each process has its own limit of descriptors. */
struct clients {
    int *fds, commands;
    int64_t n;
    struct sockaddr_in *addresses;
};

enum command { OPEN = 'o', BIND = 'b', CONNECT = 'c', SEND = 's', CLOSE = 'x' };

static void open_clients(const struct clients *clients)
{
    for (int64_t i = 0; i < clients->n; i++) {
        clients->fds[i] = sure(socket(AF_INET, SOCK_STREAM, 0), "socket");
    }
}

/* A port of its own would cost a bucket, which belongs to the client and not to the server. */
static void bind_clients(const struct clients *clients)
{
    const struct sockaddr_in any = parse_address("127.0.0.1", 0);
    for (int64_t i = 0; i < clients->n; i++) {
        sure(bind(clients->fds[i], (const struct sockaddr *)&any, sizeof any), "bind");
    }
}

static void connect_clients(const struct clients *clients)
{
    const int small = SMALL_BUFFER;
    for (int64_t i = 0; i < clients->n; i++) {
        const struct sockaddr_in *address = &clients->addresses[i / ONE_QUEUE];
        sure(setsockopt(clients->fds[i], SOL_SOCKET, SO_RCVBUF, &small, sizeof small), "SO_RCVBUF");
        sure(connect(clients->fds[i], (const struct sockaddr *)address, sizeof *address),
             "connect");
    }
}

static void send_requests(const struct clients *clients)
{
    static const char request[REQUEST_BYTES];
    for (int64_t i = 0; i < clients->n; i++) {
        if (write(clients->fds[i], request, sizeof request) != (ssize_t)sizeof request) {
            fail("write failed: %s", strerror(errno));
        }
    }
}

static void close_clients(const struct clients *clients)
{
    for (int64_t i = 0; i < clients->n; i++) {
        (void)close(clients->fds[i]);
    }
}

/* Execute commands from the pipe, and reply, until its other end is closed. */
static _Noreturn void be_clients(const struct clients *clients)
{
    char command;
    make_room(clients->n + 64);
    while (read(clients->commands, &command, 1) == 1) {
        switch (command) {
        case OPEN:
            open_clients(clients);
            break;
        case BIND:
            bind_clients(clients);
            break;
        case CONNECT:
            connect_clients(clients);
            break;
        case SEND:
            send_requests(clients);
            break;
        default:
            close_clients(clients);
        }
        if (write(clients->commands, &command, 1) != 1) {
            break;
        }
    }
    _exit(EXIT_SUCCESS);
}

/* Start the process of n clients with these addresses; return the pipe for its commands. */
static int begin_clients(int64_t n, struct sockaddr_in *addresses)
{
    int ends[2];
    sure(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), "socketpair");
    pid_t child = sure(fork(), "fork");
    if (child == 0) {
        (void)close(ends[0]);
        const struct clients clients = {
            .fds = descriptors(n), .commands = ends[1], .n = n, .addresses = addresses};
        be_clients(&clients);
    }
    (void)close(ends[1]);
    return ends[0];
}

static void have_clients(int commands, enum command what)
{
    char command = (char)what;
    if (write(commands, &command, 1) != 1 || read(commands, &command, 1) != 1) {
        fail("the process of the clients has ended");
    }
}

static void accept_all(const int *listeners, int *servers, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        servers[i] = sure(accept4(listeners[i / ONE_QUEUE], NULL, NULL, SOCK_NONBLOCK), "accept");
    }
}

/* The kernel's charge for a KiB that a client does not read: SK_MEMINFO_WMEM_QUEUED. */
static void ask_reply(struct found *found, int server)
{
    static char reply[REPLY_BYTES];
    uint32_t charged[SK_MEMINFO_VARS];
    socklen_t size = sizeof charged;
    int in_buffer = 0;
    while (write(server, reply, sizeof reply) > 0) {
    }
    sure(ioctl(server, SIOCOUTQ, &in_buffer), "ioctl(SIOCOUTQ)");
    sure(getsockopt(server, SOL_SOCKET, SO_MEMINFO, charged, &size), "getsockopt(SO_MEMINFO)");
    if (in_buffer < SMALL_BUFFER) {
        fail("a send buffer must be full, but is empty");
    }
    found->asked = true;
    found->bytes = 1024.0 * charged[SK_MEMINFO_WMEM_QUEUED] / in_buffer;
}

static void watch_all(const int *servers, int64_t n)
{
    int set = sure(epoll_create1(0), "epoll_create1");
    for (int64_t i = 0; i < n; i++) {
        struct epoll_event event = {.events = EPOLLIN, .data.fd = servers[i]};
        sure(epoll_ctl(set, EPOLL_CTL_ADD, servers[i], &event), "epoll_ctl");
    }
}

static void arm_all(const int *servers, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        sure(fcntl(servers[i], F_SETSIG, SIGRTMIN), "fcntl(F_SETSIG)");
        sure(fcntl(servers[i], F_SETOWN, getpid()), "fcntl(F_SETOWN)");
        sure(fcntl(servers[i], F_SETFL, O_NONBLOCK | O_ASYNC), "fcntl(F_SETFL)");
    }
}

/* Queue n signals; return whether that many may be queued (RLIMIT_SIGPENDING). */
static bool queue_signals(int64_t n)
{
    sigset_t blocked;
    (void)sigemptyset(&blocked);
    (void)sigaddset(&blocked, SIGRTMIN);
    sure(sigprocmask(SIG_BLOCK, &blocked, NULL), "sigprocmask");
    for (int64_t i = 0; i < n; i++) {
        if (sigqueue(getpid(), SIGRTMIN, (union sigval){.sival_int = 0}) != 0) {
            return false;
        }
    }
    return true;
}

void ask_connections(struct found *found, int64_t n)
{
    static struct reading at[8];
    struct sockaddr_in addresses[LISTENERS_MAX];
    int *servers = descriptors(n);
    make_room(n + LISTENERS_MAX + 64);
    int *listeners = listen_to(n, addresses, false);
    int clients = begin_clients(n, addresses);
    take_reading(&at[0]);
    have_clients(clients, OPEN);
    note(&found[ITEM_SOCKET], &at[0], &at[1], n);
    have_clients(clients, BIND);
    take_reading(&at[1]);
    have_clients(clients, CONNECT);
    note(&found[ITEM_QUEUED], &at[1], &at[2], n);
    accept_all(listeners, servers, n);
    note(&found[ITEM_ACCEPTED], &at[2], &at[3], n);
    watch_all(servers, n);
    note(&found[ITEM_EPOLL], &at[3], &at[4], n);
    have_clients(clients, SEND);
    note(&found[ITEM_REQUEST], &at[4], &at[5], n);
    found[ITEM_REQUEST].bytes += REQUEST_BYTES;
    arm_all(servers, n);
    note(&found[ITEM_ARMED], &at[5], &at[6], n);
    if (queue_signals(n)) {
        note(&found[ITEM_SIGNAL], &at[6], &at[7], n);
    } else {
        (void)snprintf(found[ITEM_SIGNAL].reason, REASON_BYTES, "sigqueue: %s", strerror(errno));
    }
    ask_reply(&found[ITEM_REPLY_KIB], servers[0]);
}

void ask_half_open(struct found *found, int64_t n)
{
    static struct reading before, after;
    struct sockaddr_in addresses[LISTENERS_MAX];
    (void)listen_to(n, addresses, true);
    int clients = begin_clients(n, addresses);
    have_clients(clients, OPEN);
    have_clients(clients, BIND);
    take_reading(&before);
    have_clients(clients, CONNECT);
    note(&found[ITEM_HALF_OPEN], &before, &after, n);
}

void ask_time_wait(struct found *found, int64_t n)
{
    static struct reading before, after;
    struct sockaddr_in addresses[LISTENERS_MAX];
    int *servers = descriptors(n);
    make_room(n + LISTENERS_MAX + 64);
    int *listeners = listen_to(n, addresses, false);
    int clients = begin_clients(n, addresses);
    have_clients(clients, OPEN);
    have_clients(clients, CONNECT);
    accept_all(listeners, servers, n);
    take_reading(&before);
    for (int64_t i = 0; i < n; i++) {
        (void)close(servers[i]);
    }
    have_clients(clients, CLOSE);
    note(&found[ITEM_TIME_WAIT], &before, &after, n);
}
