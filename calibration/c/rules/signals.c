/* Queued signals that report descriptors: F_SETSIG, RLIMIT_SIGPENDING. */
#include "rules.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <unistd.h>

/* Numbers of users that no system gives out: above those of systemd (to 65535), below those of
 * containers (from 100000). https://systemd.io/UIDS-GIDS/; login.defs(5), SUB_UID_MIN. */
enum { MEMBERS = 6, QUEUE = 4, USER = 70000, USERS = 5000 };

/* The limit counts the signals of a user: as root this process can be a user of its own. */
static void block_all(void)
{
    sigset_t all;
    if (geteuid() == 0) {
        uid_t user = USER + (uid_t)getpid() % USERS;
        sure(setgroups(0, NULL), "setgroups");
        sure(setgid(user), "setgid");
        pid_t parent = getppid();
        sure(setuid(user), "setuid");
        die_with(parent); /* another user's process forgets it */
    }
    sigfillset(&all);
    sigdelset(&all, SIGALRM); /* it ends the rule */
    sure(sigprocmask(SIG_BLOCK, &all, NULL), "sigprocmask");
}

static void arm(int fd, int number)
{
    sure(fcntl(fd, F_SETSIG, SIGRTMIN + number), "fcntl(F_SETSIG)");
    sure(fcntl(fd, F_SETOWN, getpid()), "fcntl(F_SETOWN)");
    sure(fcntl(fd, F_SETFL, O_ASYNC | O_NONBLOCK), "fcntl(O_ASYNC)");
}

/* Members that queue signals of the same number. */
static void members_open(struct pair *pairs, int n)
{
    block_all();
    pairs_open(pairs, n);
    for (int i = 0; i < n; i++) {
        arm(pairs[i].server, 0);
    }
}

/* Take one signal of the set; 0: none is queued. */
static int take(const sigset_t *set, siginfo_t *found)
{
    const struct timespec at_once = {0};
    int number = sigtimedwait(set, found, &at_once);
    return number < 0 ? 0 : number;
}

static sigset_t queued_set(void)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGIO);
    for (int number = SIGRTMIN; number <= SIGRTMAX; number++) {
        sigaddset(&set, number);
    }
    return set;
}

static int member_of(const struct pair *pairs, int n, int fd)
{
    for (int i = 0; i < n; i++) {
        if (pairs[i].server == fd) {
            return i;
        }
    }
    return -1;
}

/* Print the queued members in order, or SIGIO. */
static void say_queue(const struct pair *pairs, int n)
{
    sigset_t set = queued_set();
    siginfo_t found;
    for (int number; (number = take(&set, &found)) != 0;) {
        if (number == SIGIO) {
            say_next("\"SIGIO\"");
        } else {
            say_next("%d", member_of(pairs, n, found.si_fd));
        }
    }
    say_list_end();
}

static void send_to(const struct pair *pairs, const char *members)
{
    for (const char *member = members; *member != '\0'; member++) {
        send_byte(pairs[*member - '0'].client);
    }
}

/* Let *n* more signals be queued than are now, by all processes of this user. */
static void limit_queue(int n)
{
    long queued = -1;
    char line[256];
    FILE *status = fopen("/proc/self/status", "re");
    if (status == NULL) {
        not_asked("/proc/self/status: %s", strerror(errno));
    }
    while (queued < 0 && fgets(line, sizeof line, status) != NULL) {
        (void)sscanf(line, "SigQ: %ld", &queued);
    }
    (void)fclose(status);
    struct rlimit limit = {.rlim_cur = (rlim_t)(queued + n), .rlim_max = (rlim_t)(queued + n)};
    sure(queued, "SigQ of /proc/self/status");
    sure(setrlimit(RLIMIT_SIGPENDING, &limit), "setrlimit(RLIMIT_SIGPENDING)");
}

static void order_of_numbers(void)
{
    struct pair pairs[4];
    members_open(pairs, 4);
    for (int i = 0; i < 4; i++) {
        arm(pairs[i].server, i % 2);
    }
    send_to(pairs, "3120");
    say_queue(pairs, 4);
}

static void order_within_number(void)
{
    struct pair pairs[4];
    members_open(pairs, 4);
    send_to(pairs, "312");
    say_queue(pairs, 4);
}

static void one_for_each_event(void)
{
    struct pair pairs[2];
    members_open(pairs, 2);
    send_to(pairs, "010");
    say_queue(pairs, 2);
}

static void overflow(void)
{
    struct pair pairs[MEMBERS];
    members_open(pairs, MEMBERS);
    limit_queue(QUEUE);
    send_to(pairs, "012345");
    say_queue(pairs, MEMBERS);
}

static void overflow_twice(void)
{
    struct pair pairs[MEMBERS];
    members_open(pairs, MEMBERS);
    limit_queue(1);
    send_to(pairs, "012");
    say_queue(pairs, MEMBERS);
    say(", ");
    send_to(pairs, "3");
    say_queue(pairs, MEMBERS);
}

static void overflow_again(void)
{
    say("[");
    overflow_twice();
    say("]");
}

/* SIGIO is pending, and holds an entry of the limit, until it is taken. */
static void sigio_holds_entry(void)
{
    struct pair pairs[MEMBERS];
    siginfo_t found;
    sigset_t set = queued_set();
    members_open(pairs, MEMBERS);
    limit_queue(2);
    send_to(pairs, "012");
    sigdelset(&set, SIGIO);
    (void)take(&set, &found);
    send_to(pairs, "3");
    say_queue(pairs, MEMBERS);
}

static void held_elsewhere(void)
{
    struct pair pairs[MEMBERS];
    int ready[2];
    char byte = 0;
    members_open(pairs, MEMBERS);
    limit_queue(QUEUE);
    sure(pipe(ready), "pipe");
    pid_t child = child_begin();
    if (child == 0) {
        for (int i = 0; i < QUEUE - 1; i++) {
            sure(sigqueue(getpid(), SIGRTMIN, (union sigval){0}), "sigqueue");
        }
        sure(write(ready[1], &byte, 1), "write");
        (void)pause();
        _exit(0);
    }
    (void)close(ready[1]); /* a child that fails ends the read */
    sure(read(ready[0], &byte, 1), "read");
    send_to(pairs, "012");
    say_queue(pairs, MEMBERS);
    child_end(child);
}

static void stale_entry(void)
{
    struct pair pairs[2];
    members_open(pairs, 2);
    int listener = listener_open(2), client = connect_to(listener);
    send_to(pairs, "0");
    int number = pairs[0].server;
    sure(close(number), "close");
    settle();
    int again = sure(accept(listener, NULL, NULL), "accept");
    say_next("%s", as_bool(again == number));
    sigset_t set = queued_set();
    siginfo_t found;
    say_next("%s", as_bool(take(&set, &found) != 0 && found.si_fd == number));
    say_list_end();
    (void)close(client);
}

static void before_armed(void)
{
    struct pair pairs[1];
    block_all();
    pairs_open(pairs, 1);
    send_to(pairs, "0");
    arm(pairs[0].server, 0);
    say_queue(pairs, 1);
}

static void say_band(void (*ends)(int client))
{
    struct pair pairs[1];
    sigset_t set = queued_set();
    siginfo_t found;
    members_open(pairs, 1);
    ends(pairs[0].client);
    bool reads = false, writes = false;
    while (take(&set, &found) != 0) {
        reads = reads || (found.si_band & (POLLIN | POLLERR | POLLHUP)) != 0;
        writes = writes || (found.si_band & (POLLOUT | POLLERR | POLLHUP)) != 0;
    }
    say_next("%s", as_bool(reads));
    say_next("%s", as_bool(writes));
    say_list_end();
}

static void send_fin(int client)
{
    sure(shutdown(client, SHUT_WR), "shutdown");
    settle();
}

static void after_data(void)
{
    say_band(send_byte);
}

static void after_fin(void)
{
    say_band(send_fin);
}

static void after_reset(void)
{
    say_band(reset);
}

static void of_listener(void)
{
    struct pair one[1];
    block_all();
    one[0].server = listener_open(8);
    arm(one[0].server, 0);
    (void)connect_to(one[0].server);
    (void)connect_to(one[0].server);
    settle();
    say_queue(one, 1);
}

static void flush(void)
{
    struct pair pairs[MEMBERS];
    members_open(pairs, MEMBERS);
    limit_queue(QUEUE);
    send_to(pairs, "012345");
    struct sigaction ignore = {.sa_handler = SIG_IGN}, fall_back = {.sa_handler = SIG_DFL};
    for (int i = 0; i < 2; i++) {
        int number = i == 0 ? SIGIO : SIGRTMIN;
        sure(sigaction(number, &ignore, NULL), "sigaction");
        sure(sigaction(number, &fall_back, NULL), "sigaction");
    }
    say_queue(pairs, MEMBERS);
}

static void signalfd_batch(void)
{
    struct pair pairs[4];
    sigset_t set = queued_set();
    struct signalfd_siginfo found[MEMBERS];
    members_open(pairs, 4);
    for (int i = 0; i < 4; i++) {
        arm(pairs[i].server, i % 2);
    }
    send_to(pairs, "3120");
    int fd = sure(signalfd(-1, &set, SFD_NONBLOCK), "signalfd");
    int n = sure(read(fd, found, sizeof found), "read of a signalfd");
    for (int i = 0; i < n / (int)sizeof found[0]; i++) {
        say_next("%d", member_of(pairs, 4, (int)found[i].ssi_fd));
    }
    say_list_end();
}

const struct rule signal_rules[] = {
    {"signal_order_of_numbers", order_of_numbers, 0, 0},
    {"signal_order_within_number", order_within_number, 0, 0},
    {"signal_for_each_event", one_for_each_event, 0, 0},
    {"signal_overflow", overflow, 0, 0},
    {"signal_overflow_again", overflow_again, 0, 0},
    {"signal_sigio_holds_entry", sigio_holds_entry, 0, 0},
    {"signal_held_elsewhere", held_elsewhere, 0, 0},
    {"signal_stale_entry", stale_entry, 0, 0},
    {"signal_before_armed", before_armed, 0, 0},
    {"signal_after_data", after_data, 0, 0},
    {"signal_after_fin", after_fin, 0, 0},
    {"signal_after_reset", after_reset, 0, 0},
    {"signal_of_listener", of_listener, 0, 0},
    {"signal_flush", flush, 0, 0},
    {"signalfd_batch", signalfd_batch, 0, 0},
    {0},
};
