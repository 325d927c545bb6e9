/* Calls that must succeed, on sockets of either side. */
#include "micro.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { BACKLOG = 4096, PATIENCE_MS = 10000 };

const char padding[PADDING_BYTES];

void close_fd(int fd)
{
    if (close(fd) != 0) {
        fail_errno("close");
    }
}

int listener_open(struct sockaddr_in *address, const char *text)
{
    *address = (struct sockaddr_in){.sin_family = AF_INET};
    if (inet_pton(AF_INET, text, &address->sin_addr) != 1) {
        fail_usage("--server-address must be an IPv4 address, got %s", text);
    }
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        fail_errno("socket");
    }
    if (bind(fd, (const struct sockaddr *)address, sizeof *address) != 0) {
        fail_errno("cannot bind to %s", text);
    }
    socklen_t length = sizeof *address;
    if (getsockname(fd, (struct sockaddr *)address, &length) != 0) {
        fail_errno("getsockname");
    }
    if (listen(fd, BACKLOG) != 0) {
        fail_errno("listen");
    }
    return fd;
}

void await(int fd, short events)
{
    struct pollfd entry = {.fd = fd, .events = events};
    int n = poll(&entry, 1, PATIENCE_MS);
    if (n < 0) {
        fail_errno("poll");
    }
    if (n == 0) {
        fail("a connection did not become %s", events == POLLIN ? "readable" : "writable");
    }
    if ((entry.revents & (POLLERR | POLLNVAL)) != 0) {
        fail("a connection broke");
    }
}

int accept_one(int listener)
{
    int fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd < 0 && errno != EAGAIN) {
        fail_errno("accept4");
    }
    return fd;
}

void accept_and_close(int listener)
{
    int fd;
    while ((fd = accept_one(listener)) >= 0) {
        close_fd(fd);
    }
}

void send_bytes(int fd, size_t bytes)
{
    if (bytes > PADDING_BYTES) {
        fail("only %d of %zu bytes can be written at once", PADDING_BYTES, bytes);
    }
    send_text(fd, padding, bytes);
}

void send_text(int fd, const char *text, size_t bytes)
{
    ssize_t sent = write(fd, text, bytes);
    if (sent < 0) {
        fail_errno("write");
    }
    if ((size_t)sent != bytes) {
        fail("only %zd of %zu bytes could be written", sent, bytes);
    }
}

size_t receive_bytes(int fd, size_t bytes)
{
    char buffer[REPLY_BYTES];
    return receive_into(buffer, bytes < sizeof buffer ? bytes : sizeof buffer, fd);
}

size_t receive_into(char *buffer, size_t bytes, int fd)
{
    ssize_t received = read(fd, buffer, bytes);
    if (received > 0) {
        return (size_t)received;
    }
    if (received == 0) {
        fail("the other side closed a connection");
    }
    if (errno != EAGAIN) {
        fail_errno("read");
    }
    return 0;
}

int move_fd(int fd, long number)
{
    int moved = fcntl(fd, F_DUPFD_CLOEXEC, (int)number);
    if (moved < 0) {
        fail_errno("descriptor %ld", number);
    }
    close_fd(fd);
    return moved;
}
