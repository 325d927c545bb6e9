/* What calls return at the ends of connections, and at limits. */
#include "rules.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { BYTES = 100, READS = 3, BLOCK = 4096 };

static void say_reads(int fd, int n)
{
    char bytes[BLOCK];
    for (int i = 0; i < n; i++) {
        say_next("%s", outcome(recv(fd, bytes, sizeof bytes, MSG_DONTWAIT)));
    }
}

static void say_write(int fd)
{
    static const char zeros[BYTES];
    say_next("%s", outcome(send(fd, zeros, sizeof zeros, MSG_DONTWAIT)));
    settle();
}

static void send_fin(int fd)
{
    sure(shutdown(fd, SHUT_WR), "shutdown");
    settle();
}

static void read_after_reset(void)
{
    struct pair pair = pair_open();
    send_bytes(pair.client, BYTES);
    reset(pair.client);
    say_reads(pair.server, READS);
    say_list_end();
}

static void read_after_fin(void)
{
    struct pair pair = pair_open();
    send_bytes(pair.client, BYTES);
    send_fin(pair.client);
    say_reads(pair.server, READS);
    say_list_end();
}

static void write_after_reset(void)
{
    struct pair pair = pair_open();
    send_bytes(pair.client, BYTES);
    drain(pair.server);
    reset(pair.client);
    say_write(pair.server);
    say_list_end();
}

static void write_after_reset_again(void)
{
    struct pair pair = pair_open();
    reset(pair.client);
    say_write(pair.server);
    say_write(pair.server);
    say_list_end();
}

/* The request is read first, and then the reply is written: what a server does that is late. */
static void serve_after_reset(void)
{
    struct pair pair = pair_open();
    send_bytes(pair.client, BYTES);
    reset(pair.client);
    say_reads(pair.server, 1);
    say_write(pair.server);
    say_list_end();
}

static void write_after_fin(void)
{
    struct pair pair = pair_open();
    send_fin(pair.client);
    say_write(pair.server);
    say_reads(pair.client, 1);
    say_list_end();
}

static void write_after_close(void)
{
    struct pair pair = pair_open();
    sure(close(pair.client), "close");
    settle();
    say_write(pair.server);
    say_write(pair.server);
    say_list_end();
}

static void accept_empty_at_limit(void)
{
    int listener = listener_open(4);
    limit_descriptors_to(0);
    say("%s", outcome(accept(listener, NULL, NULL)));
}

static void accept_empty(void)
{
    say("%s", outcome(accept(listener_open(4), NULL, NULL)));
}

/* Two wait, and one descriptor is left: accept, fail, close the first, accept the second. */
static void accept_at_limit(void)
{
    int listener = listener_open(4);
    (void)connect_to(listener);
    (void)connect_to(listener);
    settle();
    limit_descriptors_to(1);
    int accepted = accept(listener, NULL, NULL);
    say_next("%s", accepted >= 0 ? "\"accepted\"" : outcome(-1));
    say_next("%s", outcome(accept(listener, NULL, NULL)));
    (void)close(accepted);
    say_next("%s", accept(listener, NULL, NULL) >= 0 ? "\"accepted\"" : outcome(-1));
    say_list_end();
}

static void accept_order(void)
{
    int listener = listener_open(4), clients[3];
    for (int i = 0; i < 3; i++) {
        clients[i] = connect_to(listener);
        settle();
    }
    for (int i = 0; i < 3; i++) {
        int server = sure(accept(listener, NULL, NULL), "accept");
        send_byte(server);
        for (int k = 0; k < 3; k++) {
            struct pollfd one = {.fd = clients[k], .events = POLLIN};
            if (poll(&one, 1, 0) == 1) {
                say_next("%d", k);
                drain(clients[k]);
            }
        }
    }
    say_list_end();
}

static void accept_after_reset(void)
{
    int listener = listener_open(4), client = connect_to(listener);
    settle();
    reset(client);
    int server = accept(listener, NULL, NULL);
    say_next("%s", server >= 0 ? "\"accepted\"" : outcome(-1));
    if (server >= 0) {
        say_reads(server, 1);
    }
    say_list_end();
}

static void accept_after_request_and_reset(void)
{
    int listener = listener_open(4), client = connect_to(listener);
    send_bytes(client, BYTES);
    reset(client);
    int server = accept(listener, NULL, NULL);
    say_next("%s", server >= 0 ? "\"accepted\"" : outcome(-1));
    say_reads(server, 2);
    say_list_end();
}

static void accept_after_fin(void)
{
    int listener = listener_open(4), client = connect_to(listener);
    send_bytes(client, BYTES);
    send_fin(client);
    int server = sure(accept(listener, NULL, NULL), "accept");
    say_reads(server, 2);
    say_list_end();
}

static void close_unread(void)
{
    struct pair pair = pair_open();
    send_bytes(pair.client, BYTES);
    sure(close(pair.server), "close");
    settle();
    say_reads(pair.client, 1);
    say_list_end();
}

static void close_all_read(void)
{
    struct pair pair = pair_open();
    send_bytes(pair.client, BYTES);
    drain(pair.server);
    sure(close(pair.server), "close");
    settle();
    say_reads(pair.client, 1);
    say_list_end();
}

static void close_lingering(void)
{
    struct pair pair = pair_open();
    reset(pair.server);
    say_reads(pair.client, 1);
    say_list_end();
}

/* Of two that were closed the lower number is the next. */
static void lowest_descriptor(void)
{
    int fds[3];
    for (int i = 0; i < 3; i++) {
        fds[i] = sure(dup(STDERR_FILENO), "dup");
    }
    (void)close(fds[2]);
    (void)close(fds[0]);
    for (int i = 0; i < 2; i++) {
        int fd = sure(dup(STDERR_FILENO), "dup");
        say_next("%d", fd == fds[0] ? 0 : fd == fds[2] ? 2 : -1);
    }
    say_list_end();
}

static void write_full(void)
{
    struct pair pair = pair_open();
    int bytes = 1 << 16;
    sure(setsockopt(pair.server, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes), "SO_SNDBUF");
    static const char much[1 << 24];
    ssize_t sent = send(pair.server, much, sizeof much, MSG_DONTWAIT);
    say_next("%s", as_bool(sent > 0 && sent < (ssize_t)sizeof much));
    (void)fill(pair.server);
    say_write(pair.server);
    say_list_end();
}

/* A client reads from a full connection: print whether poll reports room only after more than a
 * fifth of the bytes that filled it were read. */
static void write_room(void)
{
    struct pair pair = pair_open();
    int small = 1 << 14, large = 1 << 20;
    char bytes[BLOCK];
    sure(setsockopt(pair.client, SOL_SOCKET, SO_RCVBUF, &small, sizeof small), "SO_RCVBUF");
    sure(setsockopt(pair.server, SOL_SOCKET, SO_SNDBUF, &large, sizeof large), "SO_SNDBUF");
    long n_full = fill(pair.server), n_read = 0;
    struct pollfd one = {.fd = pair.server, .events = POLLOUT};
    while (poll(&one, 1, 0) == 0) {
        ssize_t n = recv(pair.client, bytes, sizeof bytes, MSG_DONTWAIT);
        if (n <= 0) {
            settle();
            continue;
        }
        n_read += n;
    }
    say("%s", as_bool(10 * n_read > 2 * n_full));
}

const struct rule end_rules[] = {
    {"read_after_reset", read_after_reset, 0, 0},
    {"read_after_fin", read_after_fin, 0, 0},
    {"write_after_reset", write_after_reset, 0, 0},
    {"write_after_reset_again", write_after_reset_again, 0, 0},
    {"serve_after_reset", serve_after_reset, 0, 0},
    {"write_after_fin", write_after_fin, 0, 0},
    {"write_after_close", write_after_close, 0, 0},
    {"accept_empty", accept_empty, 0, 0},
    {"accept_empty_at_limit", accept_empty_at_limit, 0, 0},
    {"accept_at_limit", accept_at_limit, 0, 0},
    {"accept_order", accept_order, 0, 0},
    {"accept_after_reset", accept_after_reset, 0, 0},
    {"accept_after_request_and_reset", accept_after_request_and_reset, 0, 0},
    {"accept_after_fin", accept_after_fin, 0, 0},
    {"close_unread", close_unread, 0, 0},
    {"close_all_read", close_all_read, 0, 0},
    {"close_lingering", close_lingering, 0, 0},
    {"lowest_descriptor", lowest_descriptor, 0, 0},
    {"write_full", write_full, 0, 0},
    {"write_room", write_room, 0, 0},
    {0},
};
