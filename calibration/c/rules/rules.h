/* rules: questions to the running kernel. Each prints one JSON answer. A question uses only
 * processes of its own, sockets on the loopback and a network namespace of its own. Two kinds reach
 * further: the softirq questions flood CPU 1 for some tenths of a second, and as root some of them
 * create an instance of the kernel's trace and remove it again. With --alone there is no namespace:
 * a rule then changes settings of the machine, so it is only for a guest that ends with its rules.
 *
 *     {"rule": "select_order", "answer": [1, 2, 3]}
 *     {"rule": "signal_order", "not_asked": "fcntl(F_SETSIG): Operation not permitted"}
 *
 * A rule runs in a child process, which ends with its answer, or at its time limit. The questions
 * and the kernel lines that decide them are in calibration/rules/catalogue.toml.
 */
#ifndef RULES_H
#define RULES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "../servers/program.h"

enum { MEMBERS_MAX = 64 };

enum need {
    NEEDS_NETWORK = 1, /* a network namespace of its own, its loopback up */
    TAKES_LONG = 2,    /* sleeps most of the time: begun first, in parallel with the others */
};

struct rule {
    const char *name;
    void (*ask)(void);
    unsigned needs;
    int seconds; /* its time limit; 0: RULE_SECONDS */
};

enum { RULE_SECONDS = 10 };

struct family {
    const char *name;
    const struct rule *rules; /* the last one has no name */
};

extern const struct rule scan_rules[], epoll_rules[], signal_rules[], end_rules[], timer_rules[],
    ring_rules[], scheduling_rules[], softirq_rules[];

/* ---- answers.c ---- */

/* Append to the answer, which is printed when the rule returns. */
void say(const char *format, ...) __attribute__((format(printf, 1, 2)));
void say_numbers(const long *values, size_t n);
/* A list that grows: ["EAGAIN", 3]; say_list_end closes it. */
void say_next(const char *format, ...) __attribute__((format(printf, 1, 2)));
void say_list_end(void);
const char *answer_text(void);

/* End the rule without an answer. */
_Noreturn void not_asked(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Return *result*, or end the rule with the reason in errno if it is negative. */
int sure(long result, const char *call);
/* The result of a call, or the name of its error in quotes. */
const char *outcome(long result);
const char *as_bool(bool value);

/* ---- children.c ---- */

/* Whether this machine has no other users (--alone). */
extern bool alone;

/* Be killed when the parent, which is *parent*, has ended. */
void die_with(pid_t parent);
/* Fork a child of the rule: it ends with the rule, and in time. It prints nothing: where a rule
 * would be not asked, it exits with EXIT_FAILURE. Returns 0 in the child. */
pid_t child_begin(void);
bool is_child(void);
/* Wait for a child that ends by itself; the rule is not asked if the child failed. */
void child_await(pid_t child);
/* Kill a child that does not end by itself; the rule is not asked if it had ended already. */
void child_end(pid_t child);

/* ---- sockets.c ---- */

struct pair {
    int server, client;
};

int64_t now_ns(void);
void rest_ms(int64_t milliseconds);
/* Wait until what was sent over the loopback has arrived: it is handled by the sender's CPU. */
void settle(void);
int listener_open(int backlog);
int connect_to(int listener);
/* A TCP connection over the loopback; the server's end does not block. */
struct pair pair_open(void);
void pairs_open(struct pair *pairs, int n);
void send_byte(int fd);
void send_bytes(int fd, size_t n);
/* Read all there is. */
void drain(int fd);
/* Close by a reset. */
void reset(int fd);
/* Send until the socket takes no more; the bytes. */
long fill(int fd);
/* Let there be room for *n_more* further descriptors and no others. */
void limit_descriptors_to(int n_more);
void stay_on_cpu(int cpu);
/* Threads 0, 1, ... that begin to wait in this order: `wait` returns what its thread notes. */
struct waiters {
    int n, n_woken;
    int order[MEMBERS_MAX]; /* numbers of the threads in the order in which they woke */
    bool (*wait)(int number, void *context);
    void *context;
};
void waiters_begin(struct waiters *waiters);
int waiters_woken(struct waiters *waiters);
/* Wait until that number have woken, or for seconds. */
void waiters_await(struct waiters *waiters, int n);

/* The first number of a file, or -1. */
long file_number(const char *path);

/* ---- wire.c: a TUN device in the namespace of the rule, and a client of it made by hand ---- */

enum flag { FIN = 1, SYN = 2, RST = 4, PSH = 8, ACK = 16 };

struct segment {
    int64_t at_ns;
    uint16_t port, server_port; /* of the client, and of the kernel's end */
    uint32_t seq, ack;
    unsigned flags;
    int n_bytes;
};

struct wire {
    int tun;
    uint16_t port; /* segments from or to another one are left out; 0: none is */
    int64_t begin_ns;
};

struct peer {
    struct wire *wire;
    uint16_t port, server_port;
    uint32_t seq, ack; /* what it sends next, and what it expects next */
    bool sacks;        /* whether its SYN permits selective acknowledgements */
    int64_t delay_ms; /* before it answers the SYN-ACK: the round trip that the kernel measures */
};

void wire_open(struct wire *wire);
int wire_listener(uint16_t port, int backlog);
/* Connect the kernel's end to the client of *port*, without waiting. */
int wire_call(uint16_t port);
/* The next segment of the kernel within *milliseconds*; false: there was none. */
bool wire_receive(struct wire *wire, struct segment *segment, int64_t milliseconds);
void wire_skip(struct wire *wire, int64_t milliseconds);
struct peer peer_of(struct wire *wire, uint16_t port, uint16_t server_port);
void peer_send(struct peer *peer, unsigned flags, int n_bytes);
/* Handshake as a client; the connection is to be accepted. */
void peer_connect(struct peer *peer);
/* How many connections of the kernel's end are in that state (/proc/net/tcp). */
int n_in_state(uint16_t server_port, unsigned state);

#endif
