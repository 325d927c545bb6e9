/* select and poll. Members are connections 0, 1, 2 ... in order of their descriptors. */
#include "rules.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <unistd.h>

enum { MEMBERS = 6, BESIDE = 512, ROUNDS = 400, HIGH_FD = 3000, BITS = 4096 };

/* Members 3, 1 and 2 have received something, in this order. */
static void make_three_ready(struct pair *pairs)
{
    pairs_open(pairs, MEMBERS);
    send_byte(pairs[3].client);
    send_byte(pairs[1].client);
    send_byte(pairs[2].client);
}

/* Print the members that one select for reading finds, in order of their numbers. */
static void say_selected(const struct pair *pairs, int n)
{
    fd_set readable;
    struct timeval at_once = {0};
    FD_ZERO(&readable);
    for (int i = 0; i < n; i++) {
        FD_SET(pairs[i].server, &readable);
    }
    sure(select(pairs[n - 1].server + 1, &readable, NULL, NULL, &at_once), "select");
    for (int i = 0; i < n; i++) {
        if (FD_ISSET(pairs[i].server, &readable)) {
            say_next("%d", i);
        }
    }
}

/* Print the members that one poll finds of an array in the order of *slots*. */
static void say_polled(const struct pair *pairs, const int *slots, int n)
{
    struct pollfd array[MEMBERS];
    for (int i = 0; i < n; i++) {
        array[i] = (struct pollfd){.fd = pairs[slots[i]].server, .events = POLLIN};
    }
    sure(poll(array, (nfds_t)n, 0), "poll");
    for (int i = 0; i < n; i++) {
        if (array[i].revents != 0) {
            say_next("%d", slots[i]);
        }
    }
}

static void select_order(void)
{
    struct pair pairs[MEMBERS];
    make_three_ready(pairs);
    say_selected(pairs, MEMBERS);
    say_list_end();
}

static void poll_order(void)
{
    struct pair pairs[MEMBERS];
    /* What an array looks like of which slot 1 was filled by the last entry. */
    const int slots[] = {0, 5, 2, 3, 4};
    pairs_open(pairs, MEMBERS);
    send_byte(pairs[3].client);
    send_byte(pairs[5].client);
    send_byte(pairs[2].client);
    say_polled(pairs, slots, MEMBERS - 1);
    say_list_end();
}

static void select_level(void)
{
    struct pair pair = pair_open();
    send_byte(pair.client);
    for (int i = 0; i < 3; i++) {
        struct timeval at_once = {0};
        fd_set readable;
        FD_ZERO(&readable);
        FD_SET(pair.server, &readable);
        say_next("%d", sure(select(pair.server + 1, &readable, NULL, NULL, &at_once), "select"));
        if (i == 1) {
            drain(pair.server);
        }
    }
    say_list_end();
}

static int polled(int fd, short events)
{
    struct pollfd one = {.fd = fd, .events = events};
    return sure(poll(&one, 1, 0), "poll") > 0 ? one.revents : 0;
}

static void poll_level(void)
{
    struct pair pair = pair_open();
    send_byte(pair.client);
    say_next("%d", polled(pair.server, POLLIN) != 0);
    say_next("%d", polled(pair.server, POLLIN) != 0);
    drain(pair.server);
    say_next("%d", polled(pair.server, POLLIN) != 0);
    say_list_end();
}

static void poll_reports_all(void)
{
    struct pair pairs[MEMBERS];
    const int slots[] = {0, 1, 2, 3, 4, 5};
    pairs_open(pairs, MEMBERS);
    for (int i = 0; i < MEMBERS; i++) {
        send_byte(pairs[MEMBERS - 1 - i].client);
    }
    say_polled(pairs, slots, MEMBERS);
    say_list_end();
}

static void say_reader_and_writer(int fd)
{
    say_next("%s", as_bool(polled(fd, POLLIN) != 0));
    say_next("%s", as_bool(polled(fd, POLLOUT) != 0));
    say_list_end();
}

static void poll_after_fin(void)
{
    struct pair pair = pair_open();
    (void)fill(pair.server);
    sure(shutdown(pair.client, SHUT_WR), "shutdown");
    settle();
    say_reader_and_writer(pair.server);
}

static void poll_after_reset(void)
{
    struct pair pair = pair_open();
    (void)fill(pair.server);
    reset(pair.client);
    say_reader_and_writer(pair.server);
}

static void select_after_reset(void)
{
    struct pair pair = pair_open();
    fd_set readable, writable;
    struct timeval at_once = {0};
    (void)fill(pair.server);
    reset(pair.client);
    FD_ZERO(&readable);
    FD_ZERO(&writable);
    FD_SET(pair.server, &readable);
    FD_SET(pair.server, &writable);
    sure(select(pair.server + 1, &readable, &writable, NULL, &at_once), "select");
    say_next("%s", as_bool(FD_ISSET(pair.server, &readable)));
    say_next("%s", as_bool(FD_ISSET(pair.server, &writable)));
    say_list_end();
}

static void poll_reset_flags(void)
{
    struct pair pair = pair_open();
    send_byte(pair.client);
    reset(pair.client);
    int flags = polled(pair.server, POLLIN | POLLRDHUP);
    static const struct {
        int bit;
        const char *name;
    } names[] = {{POLLIN, "IN"}, {POLLERR, "ERR"}, {POLLHUP, "HUP"}, {POLLRDHUP, "RDHUP"}};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (flags & names[i].bit) {
            say_next("\"%s\"", names[i].name);
        }
    }
    say_list_end();
}

static void poll_listener(void)
{
    int listener = listener_open(8);
    (void)connect_to(listener);
    (void)connect_to(listener);
    settle();
    for (int i = 0; i < 3; i++) {
        say_next("%d", polled(listener, POLLIN) != 0);
        (void)accept(listener, NULL, NULL);
    }
    say_list_end();
}

static void poll_closed(void)
{
    struct pair pairs[2];
    pairs_open(pairs, 2);
    (void)close(pairs[1].server);
    struct pollfd array[] = {{.fd = -1, .events = POLLIN}, {.fd = pairs[1].server}};
    say_next("%d", sure(poll(array, 2, 0), "poll"));
    say_next("%d", array[0].revents != 0);
    say_next("\"%s\"", array[1].revents == POLLNVAL ? "NVAL" : "another flag");
    say_list_end();
}

static void select_closed(void)
{
    struct pair pair = pair_open();
    struct timeval at_once = {0};
    fd_set readable;
    FD_ZERO(&readable);
    FD_SET(pair.server, &readable);
    (void)close(pair.server);
    say("%s", outcome(select(pair.server + 1, &readable, NULL, NULL, &at_once)));
}

/* The kernel's own bound is the table of descriptors, not the bits of an fd_set. */
static void select_beyond(void)
{
    struct rlimit limit = {.rlim_cur = BITS, .rlim_max = BITS};
    static unsigned long bitmap[BITS / (8 * sizeof(unsigned long))];
    struct timeval at_once = {0};
    struct pair pair = pair_open();
    sure(setrlimit(RLIMIT_NOFILE, &limit), "setrlimit(RLIMIT_NOFILE, 4096)");
    sure(dup2(pair.server, HIGH_FD), "dup2");
    send_byte(pair.client);
    const size_t bits = 8 * sizeof bitmap[0];
    bitmap[HIGH_FD / bits] = 1UL << HIGH_FD % bits;
    say_next("%d",
             sure(select(HIGH_FD + 1, (fd_set *)(void *)bitmap, NULL, NULL, &at_once), "select"));
    say_next("%s", as_bool(bitmap[HIGH_FD / bits] != 0));
    say_list_end();
}

/* The least time of one poll of many, of which entry *ready* is ready. */
static int64_t poll_ns(int ready, int timeout)
{
    struct pollfd array[BESIDE];
    for (int i = 0; i < BESIDE; i++) {
        array[i] = (struct pollfd){.fd = sure(eventfd(i == ready, EFD_NONBLOCK), "eventfd"),
                                   .events = POLLIN};
    }
    int64_t least_ns = INT64_MAX;
    for (int round = 0; round < ROUNDS; round++) {
        int64_t begin_ns = now_ns();
        sure(poll(array, BESIDE, timeout), "poll");
        int64_t took_ns = now_ns() - begin_ns;
        least_ns = took_ns < least_ns ? took_ns : least_ns;
    }
    for (int i = 0; i < BESIDE; i++) {
        (void)close(array[i].fd);
    }
    return least_ns;
}

/* A wait-queue entry takes far longer than a check: half as long again is between the two. */
static bool is_clearly_more(int64_t ns, int64_t than_ns)
{
    return 2 * ns > 3 * than_ns;
}

static void poll_registers(void)
{
    int64_t before_ns = poll_ns(BESIDE - 1, -1), after_ns = poll_ns(0, -1);
    say("%s", as_bool(is_clearly_more(before_ns, after_ns)));
}

static void poll_no_wait(void)
{
    int64_t waits_ns = poll_ns(BESIDE - 1, -1), asks_ns = poll_ns(BESIDE - 1, 0);
    say("%s", as_bool(is_clearly_more(waits_ns, asks_ns)));
}

const struct rule scan_rules[] = {
    {"select_order", select_order, 0, 0},
    {"select_level", select_level, 0, 0},
    {"select_after_reset", select_after_reset, 0, 0},
    {"select_closed", select_closed, 0, 0},
    {"select_beyond_1024", select_beyond, 0, 0},
    {"poll_order", poll_order, 0, 0},
    {"poll_level", poll_level, 0, 0},
    {"poll_all", poll_reports_all, 0, 0},
    {"poll_after_fin", poll_after_fin, 0, 0},
    {"poll_after_reset", poll_after_reset, 0, 0},
    {"poll_reset_flags", poll_reset_flags, 0, 0},
    {"poll_listener", poll_listener, 0, 0},
    {"poll_closed", poll_closed, 0, 0},
    {"poll_registers_before_ready", poll_registers, 0, 0},
    {"poll_no_wait_registers_none", poll_no_wait, 0, 0},
    {0},
};
