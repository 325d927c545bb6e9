/* io_uring, as the server here sets it up: all work is done inside io_uring_enter. */
#include "rules.h"

#include "../servers/io_uring.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { MEMBERS = 4, MANY = 50, BYTES = 100, FDS = 256, CALLS_MAX = 8 };

static struct ring ring;

static void begin(void)
{
    sure(ring_open(&ring, FDS), "io_uring_setup");
}

static void enter(enum ring_wait wait)
{
    sure(ring_enter(&ring, wait), "io_uring_enter");
}

/* The kernel does not wait for descriptors that do not block. */
static int blocking(int fd)
{
    sure(fcntl(fd, F_SETFL, sure(fcntl(fd, F_GETFL), "fcntl") & ~O_NONBLOCK), "fcntl");
    return fd;
}

static void members_open(struct pair *pairs, int n)
{
    begin();
    pairs_open(pairs, n);
    for (int i = 0; i < n; i++) {
        (void)blocking(pairs[i].server);
    }
}

static int n_completed(void)
{
    struct ring_completion completion;
    int n = 0;
    while (ring_completed(&ring, &completion)) {
        n++;
    }
    return n;
}

static const char *result_of(const struct ring_completion *completion)
{
    errno = -completion->result;
    return outcome(completion->result < 0 ? -1 : completion->result);
}

static void say_results(void)
{
    struct ring_completion completion;
    while (ring_completed(&ring, &completion)) {
        say_next("%s", result_of(&completion));
    }
}

static void receive_ready(void)
{
    struct pair pairs[1];
    members_open(pairs, 1);
    send_byte(pairs[0].client);
    ring_receive(&ring, pairs[0].server);
    enter(RING_NO_WAIT);
    say("%d", n_completed());
}

static void receive_armed(void)
{
    struct pair pairs[1];
    members_open(pairs, 1);
    ring_receive(&ring, pairs[0].server);
    enter(RING_NO_WAIT);
    say_next("%d", n_completed());
    send_byte(pairs[0].client);
    say_next("%d", n_completed()); /* nothing is done outside the call */
    enter(RING_NO_WAIT);
    say_next("%d", n_completed());
    say_list_end();
}

static void order(void)
{
    struct pair pairs[MEMBERS];
    struct ring_completion completion;
    members_open(pairs, MEMBERS);
    for (int i = 0; i < MEMBERS; i++) {
        ring_receive(&ring, pairs[i].server);
    }
    enter(RING_NO_WAIT);
    send_byte(pairs[3].client);
    send_byte(pairs[1].client);
    send_byte(pairs[2].client);
    enter(RING_NO_WAIT);
    while (ring_completed(&ring, &completion)) {
        for (int i = 0; i < MEMBERS; i++) {
            if (pairs[i].server == completion.fd) {
                say_next("%d", i);
            }
        }
    }
    say_list_end();
}

/* Fifty are ready; print how many each call completes. */
static void at_once(void)
{
    struct pair pairs[MANY];
    members_open(pairs, MANY);
    for (int i = 0; i < MANY; i++) {
        ring_receive(&ring, pairs[i].server);
    }
    enter(RING_NO_WAIT);
    for (int i = 0; i < MANY; i++) {
        send_byte(pairs[i].client);
    }
    for (int i = 0, n_seen = 0; i < CALLS_MAX && n_seen < MANY; i++) {
        enter(RING_WAIT);
        int n = n_completed();
        say_next("%d", n);
        n_seen += n;
    }
    say_list_end();
}

static struct msghdr message(void)
{
    static char zeros[BYTES];
    static struct iovec part = {.iov_base = zeros, .iov_len = sizeof zeros};
    return (struct msghdr){.msg_iov = &part, .msg_iovlen = 1};
}

static void send_after_reset(void)
{
    struct pair pairs[1];
    struct msghdr reply = message();
    members_open(pairs, 1);
    reset(pairs[0].client);
    ring_send(&ring, pairs[0].server, &reply, false);
    enter(RING_NO_WAIT);
    say_results();
    say_list_end();
}

static void receive_after_reset(void)
{
    struct pair pairs[1];
    members_open(pairs, 1);
    send_bytes(pairs[0].client, BYTES);
    reset(pairs[0].client);
    for (int i = 0; i < 2; i++) {
        ring_receive(&ring, pairs[0].server);
        enter(RING_NO_WAIT);
        say_results();
    }
    say_list_end();
}

static void link_follows(void)
{
    struct pair pairs[1];
    struct msghdr reply = message();
    members_open(pairs, 1);
    send_byte(pairs[0].client);
    ring_send(&ring, pairs[0].server, &reply, true);
    ring_receive(&ring, pairs[0].server);
    enter(RING_NO_WAIT);
    say_results();
    say_list_end();
}

static void link_broken(void)
{
    struct pair pairs[1];
    struct msghdr reply = message();
    members_open(pairs, 1);
    reset(pairs[0].client);
    ring_send(&ring, pairs[0].server, &reply, true);
    ring_receive(&ring, pairs[0].server);
    enter(RING_NO_WAIT);
    say_results();
    say_list_end();
}

static void say_accepted(void)
{
    struct ring_completion completion;
    while (ring_completed(&ring, &completion)) {
        say_next("%s", completion.result >= 0 ? "\"accepted\"" : result_of(&completion));
        say_next("\"%s\"", completion.more ? "more" : "the last");
    }
}

static void accept_many(void)
{
    int listener = blocking(listener_open(8));
    begin();
    ring_accept(&ring, listener);
    enter(RING_NO_WAIT);
    for (int i = 0; i < 2; i++) {
        (void)connect_to(listener);
    }
    settle();
    enter(RING_NO_WAIT);
    say_accepted();
    (void)connect_to(listener);
    settle();
    enter(RING_NO_WAIT);
    say_accepted();
    say_list_end();
}

/* The limit at the time of submitting the accept counts. */
static void accept_at_limit(void)
{
    int listener = blocking(listener_open(8));
    begin();
    (void)connect_to(listener);
    (void)connect_to(listener);
    settle();
    limit_descriptors_to(1);
    ring_accept(&ring, listener);
    enter(RING_NO_WAIT);
    enter(RING_NO_WAIT);
    say_accepted();
    say_list_end();
}

static void accept_empty_at_limit(void)
{
    int listener = blocking(listener_open(8));
    begin();
    limit_descriptors_to(0);
    ring_accept(&ring, listener);
    enter(RING_NO_WAIT);
    say_accepted();
    say_list_end();
}

/* Whether the client sees an end when a descriptor with an armed receive is closed. */
static void close_armed(void)
{
    char byte;
    struct pair pairs[1];
    members_open(pairs, 1);
    ring_receive(&ring, pairs[0].server);
    enter(RING_NO_WAIT);
    sure(close(pairs[0].server), "close");
    settle();
    say("%s", outcome(recv(pairs[0].client, &byte, 1, MSG_DONTWAIT)));
}

const struct rule ring_rules[] = {
    {"ring_receive_ready", receive_ready, 0, 0},
    {"ring_receive_armed", receive_armed, 0, 0},
    {"ring_order", order, 0, 0},
    {"ring_at_once", at_once, 0, 0},
    {"ring_send_after_reset", send_after_reset, 0, 0},
    {"ring_receive_after_reset", receive_after_reset, 0, 0},
    {"ring_link_follows", link_follows, 0, 0},
    {"ring_link_broken", link_broken, 0, 0},
    {"ring_accept", accept_many, 0, 0},
    {"ring_accept_at_limit", accept_at_limit, 0, 0},
    {"ring_accept_empty_at_limit", accept_empty_at_limit, 0, 0},
    {"ring_close_armed", close_armed, 0, 0},
    {0},
};
