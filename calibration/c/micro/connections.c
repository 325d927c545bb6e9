/* Connections between the two sides. */
#include "micro.h"

#include <errno.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <sys/socket.h>

enum { CONNECTING_MAX = 256 };

int peer_socket(void)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        fail_errno("socket");
    }
    /* A reset instead of a FIN: no TIME_WAIT that would fill the tables of the kernel. */
    struct linger linger = {.l_onoff = 1, .l_linger = 0};
    if (setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof linger) != 0) {
        fail_errno("SO_LINGER");
    }
    return fd;
}

void peer_connect(const struct pair *pair, int fd)
{
    int result = connect(fd, (const struct sockaddr *)&pair->address, sizeof pair->address);
    if (result != 0 && errno != EINPROGRESS) {
        fail_errno("connect");
    }
}

struct dial {
    const struct pair *pair;
    struct connections *connections;
    _Alignas(CACHE_LINE) atomic_long accepted;
};

static void dial_all(void *context)
{
    struct dial *dial = context;
    int no_delay = 1;
    for (long i = 0; i < dial->connections->n; i++) {
        while (i - atomic_load(&dial->accepted) >= CONNECTING_MAX) {
            relax(); /* the listener's queue must not overflow */
        }
        int fd = peer_socket();
        /* Without it a second byte would wait for the delayed acknowledgement of the first. */
        if (setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &no_delay, sizeof no_delay) != 0) {
            fail_errno("TCP_NODELAY");
        }
        peer_connect(dial->pair, fd);
        /* One after the other, so that both sides number them in the same order. */
        await(fd, POLLOUT);
        dial->connections->peer_fds[i] = fd;
    }
}

void connections_open(struct connections *connections, struct pair *pair, long n)
{
    size_t items = (size_t)n;
    *connections = (struct connections){
        .n = n,
        .server_fds = allocate(items, sizeof(int)),
        .peer_fds = allocate(items, sizeof(int)),
    };
    struct dial dial = {.pair = pair, .connections = connections};
    peer_start(pair, dial_all, &dial);
    for (long i = 0; i < n;) {
        int fd = accept_one(pair->listener);
        if (fd < 0) {
            await(pair->listener, POLLIN);
            continue;
        }
        connections->server_fds[i++] = fd;
        atomic_store(&dial.accepted, i);
    }
    peer_finish(pair);
}

static void hang_up_all(void *context)
{
    const struct connections *connections = context;
    for (long i = 0; i < connections->n; i++) {
        close_fd(connections->peer_fds[i]);
    }
}

void connections_close(struct connections *connections, struct pair *pair)
{
    /* The peer first, by reset; then the server's close sends nothing. */
    peer_start(pair, hang_up_all, connections);
    peer_finish(pair);
    for (long i = 0; i < connections->n; i++) {
        close_fd(connections->server_fds[i]);
    }
    free(connections->server_fds);
    free(connections->peer_fds);
}

struct wake {
    const struct connections *connections;
    long first, n;
};

static void send_one_byte_each(void *context)
{
    const struct wake *wake = context;
    for (long i = 0; i < wake->n; i++) {
        send_bytes(wake->connections->peer_fds[wake->first + i], 1);
    }
}

void connections_ready(const struct connections *connections, struct pair *pair, long first, long n)
{
    struct wake wake = {.connections = connections, .first = first, .n = n};
    peer_start(pair, send_one_byte_each, &wake);
    peer_finish(pair);
    for (long i = 0; i < n; i++) {
        await(connections->server_fds[first + i], POLLIN);
    }
}
