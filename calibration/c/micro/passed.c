/* A descriptor handed over in a message on a UNIX socket: sendmsg and recvmsg with SCM_RIGHTS.
 *
 *     sendmsg, sendmsg ...   LAP of them, no thread sleeps in recvmsg     descriptor_sent
 *     recvmsg, recvmsg ...   the same, each gets a new number          descriptor_received
 *     close ...              what was received, not measured
 *
 * One thread does both, so neither a wake-up nor another CPU is involved. */
#include "repeated.h"

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { LAP = 64 };

union control {
    char bytes[CMSG_SPACE(sizeof(int))];
    struct cmsghdr aligned;
};

static void send_fd(int socket_fd, int fd)
{
    char byte = 1;
    union control control;
    memset(&control, 0, sizeof control);
    struct iovec data = {.iov_base = &byte, .iov_len = 1};
    struct msghdr message = {.msg_iov = &data,
                             .msg_iovlen = 1,
                             .msg_control = control.bytes,
                             .msg_controllen = sizeof control.bytes};
    struct cmsghdr *rights = CMSG_FIRSTHDR(&message);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(sizeof fd);
    memcpy(CMSG_DATA(rights), &fd, sizeof fd);
    if (sendmsg(socket_fd, &message, 0) != 1) {
        fail_errno("sendmsg of a descriptor");
    }
}

static int receive_fd(int socket_fd)
{
    char byte;
    int fd = -1;
    union control control;
    struct iovec data = {.iov_base = &byte, .iov_len = 1};
    struct msghdr message = {.msg_iov = &data,
                             .msg_iovlen = 1,
                             .msg_control = control.bytes,
                             .msg_controllen = sizeof control.bytes};
    if (recvmsg(socket_fd, &message, 0) != 1) {
        fail_errno("recvmsg of a descriptor");
    }
    struct cmsghdr *rights = CMSG_FIRSTHDR(&message);
    if (rights == NULL || rights->cmsg_type != SCM_RIGHTS) {
        fail("a message came without its descriptor");
    }
    memcpy(&fd, CMSG_DATA(rights), sizeof fd);
    return fd;
}

/* descriptor_passed */
void bench_passed(const struct options *options)
{
    int ends[2], received[LAP];
    struct samples sent, got;
    pin_to_cpu(options->server_cpu);
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0) {
        fail_errno("socketpair");
    }
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    if (fd < 0) {
        fail_errno("socket");
    }
    samples_open(&sent);
    samples_open(&got);
    for (struct repetitions r = repetitions_of(options); repeat(&r);) {
        uint64_t first = ticks_now();
        for (int i = 0; i < LAP; i++) {
            send_fd(ends[0], fd);
        }
        uint64_t between = ticks_now();
        for (int i = 0; i < LAP; i++) {
            received[i] = receive_fd(ends[1]);
        }
        uint64_t last = ticks_now();
        add_warm(&sent, r.n, ns_of(between - first) / LAP, LAP);
        add_warm(&got, r.n, ns_of(last - between) / LAP, LAP);
        for (int i = 0; i < LAP; i++) {
            close_fd(received[i]);
        }
    }
    samples_print(&sent, options, "descriptor_sent", "");
    samples_print(&got, options, "descriptor_received", "");
    samples_close(&sent);
    samples_close(&got);
    close_fd(fd);
    close_fd(ends[0]);
    close_fd(ends[1]);
}
