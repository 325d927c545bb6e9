/* Clients that are sockets of the kernel, and the choice between the two kinds. */
#include "clients.h"

#include <errno.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static int socket_open(const struct pair *pair)
{
    (void)pair;
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

static void socket_hurry(const struct pair *pair, int fd)
{
    (void)pair;
    const int no_delay = 1;
    if (setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &no_delay, sizeof no_delay) != 0) {
        fail_errno("TCP_NODELAY");
    }
}

static void socket_connect(const struct pair *pair, int fd)
{
    int result = connect(fd, (const struct sockaddr *)&pair->address, sizeof pair->address);
    if (result != 0 && errno != EINPROGRESS) {
        fail_errno("connect");
    }
}

static uint64_t socket_await_open(const struct pair *pair, int fd)
{
    (void)pair;
    await(fd, POLLOUT);
    return ticks_now();
}

static uint64_t socket_spin_until_open(const struct pair *pair, int fd)
{
    (void)pair;
    struct pollfd entry = {.fd = fd, .events = POLLOUT};
    uint64_t patience = ns_to_ticks(2e9);
    uint64_t first = ticks_now();
    int n;
    while ((n = poll(&entry, 1, 0)) == 0) {
        if (ticks_now() - first > patience) {
            fail("a connection was not established in 2 s");
        }
    }
    uint64_t last = ticks_now();
    if (n < 0) {
        fail_errno("poll");
    }
    if (entry.revents != POLLOUT) {
        fail("a connection was refused");
    }
    return last;
}

static void socket_send(const struct pair *pair, int fd, const char *text, size_t bytes)
{
    (void)pair;
    send_text(fd, text, bytes);
}

static void socket_await_acknowledged(const struct pair *pair, int fd)
{
    (void)pair; /* the call has interrupted the server's CPU already */
    (void)fd;
}

static void socket_await_data(const struct pair *pair, int fd)
{
    (void)pair;
    await(fd, POLLIN);
}

static size_t socket_receive(const struct pair *pair, int fd, size_t bytes)
{
    (void)pair;
    static char taken[PADDING_BYTES]; /* of the one peer */
    return receive_into(taken, bytes < sizeof taken ? bytes : sizeof taken, fd);
}

static void socket_close(const struct pair *pair, int fd)
{
    (void)pair;
    close_fd(fd);
}

static bool socket_attend(const struct pair *pair)
{
    (void)pair; /* the kernel does it */
    relax();
    return false;
}

static void sockets_end(const struct pair *pair)
{
    (void)pair;
}

const struct client_kind socket_clients = {
    .open = socket_open,
    .hurry = socket_hurry,
    .connect = socket_connect,
    .await_open = socket_await_open,
    .spin_until_open = socket_spin_until_open,
    .send = socket_send,
    .await_acknowledged = socket_await_acknowledged,
    .await_data = socket_await_data,
    .receive = socket_receive,
    .close = socket_close,
    .leave = socket_close,
    .attend = socket_attend,
    .end = sockets_end,
};

void clients_begin(struct pair *pair, long n)
{
    if (pair->options->far != NULL) {
        far_clients_begin(pair, n);
    }
}

void clients_end(const struct pair *pair)
{
    pair->clients->end(pair);
}

int client_open(const struct pair *pair)
{
    return pair->clients->open(pair);
}

void client_hurry(const struct pair *pair, int client)
{
    pair->clients->hurry(pair, client);
}

void client_connect(const struct pair *pair, int client)
{
    pair->clients->connect(pair, client);
}

uint64_t client_await_open(const struct pair *pair, int client)
{
    return pair->clients->await_open(pair, client);
}

uint64_t client_spin_until_open(const struct pair *pair, int client)
{
    return pair->clients->spin_until_open(pair, client);
}

void client_send(const struct pair *pair, int client, size_t bytes)
{
    pair->clients->send(pair, client, padding, bytes);
}

void client_send_text(const struct pair *pair, int client, const char *text, size_t bytes)
{
    pair->clients->send(pair, client, text, bytes);
}

void client_await_acknowledged(const struct pair *pair, int client)
{
    pair->clients->await_acknowledged(pair, client);
}

void client_await_data(const struct pair *pair, int client)
{
    pair->clients->await_data(pair, client);
}

size_t client_receive(const struct pair *pair, int client, size_t bytes)
{
    return pair->clients->receive(pair, client, bytes);
}

void client_take_byte(const struct pair *pair, int client)
{
    while (client_receive(pair, client, 1) == 0) {
        relax();
    }
}

void clients_ask(const struct pair *pair, int *clients, long n)
{
    for (long i = 0; i < n; i++) {
        clients[i] = client_open(pair);
        client_connect(pair, clients[i]);
    }
    for (long i = 0; i < n; i++) {
        (void)client_await_open(pair, clients[i]);
        client_send(pair, clients[i], REQUEST_BYTES);
    }
}

void client_close(const struct pair *pair, int client)
{
    pair->clients->close(pair, client);
}

void client_leave(const struct pair *pair, int client)
{
    pair->clients->leave(pair, client);
}

bool clients_attend(const struct pair *pair)
{
    return pair->clients->attend(pair);
}

void clients_catch_up(const struct pair *pair)
{
    while (clients_attend(pair))
        ;
}

void clients_spin(const struct pair *pair, double ns)
{
    uint64_t first = ticks_now();
    uint64_t ticks = ns_to_ticks(ns);
    while (ticks_now() - first < ticks) {
        (void)clients_attend(pair);
    }
}
