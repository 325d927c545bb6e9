/* What the packets and calls of a connection take if connections come one by one, with pauses.
 *
 *     peer             connect .. open . request                             | reset        |
 *     server   asleep | reads the clock .. SYN .. ACK .. request | accept .. write | .. reset | close
 *                                          GAP    GAP    GAP       each call timed     GAP
 *
 * In other benches one kind of packet or call follows itself. Here all kinds take turns, as in a
 * server, and each kind comes once a turn: the longer the pause, the more of its code and data has
 * left the caches. In the pause the server sleeps, so that its CPU is idle; it is awake again before
 * the next connection comes. Without a pause it stays awake. On a kept connection a turn is a request,
 * a read and a write. Turns in which a tick came, or packets shared an interrupt, do not count. */
#include "clients.h"

#include <sys/epoll.h>
#include <sys/prctl.h>
#include <unistd.h>

enum {
    SPARE_DESCRIPTORS = 200,
    GAP_NS_MIN = 400,
    APART_NS = 15000, /* the interrupt of the packet before is over */
    SETTLE_NS = 12000,
    ROBBERIES_MAX = 4,
};

enum line {
    LINE_SYN,
    LINE_ACK,
    LINE_REQUEST,
    LINE_ACCEPT,
    LINE_ADD,
    LINE_READ,
    LINE_WRITE,
    LINE_RESET,
    LINE_DELETE,
    LINE_CLOSE,
    LINE_IDLE,
    N_LINES
};

static const char *const line_names[2][N_LINES] = {
    {
        [LINE_SYN] = "paced_syn",       /* its interrupt */
        [LINE_ACK] = "paced_ack",       /* that of the acknowledgement */
        [LINE_REQUEST] = "paced_request",
        [LINE_ACCEPT] = "paced_accept", /* the calls */
        [LINE_ADD] = "paced_add",
        [LINE_READ] = "paced_read",
        [LINE_WRITE] = "paced_write",
        [LINE_RESET] = "paced_reset", /* that of the reply's acknowledgement and the reset */
        [LINE_DELETE] = "paced_delete",
        [LINE_CLOSE] = "paced_close",
        [LINE_IDLE] = "paced_idle", /* the pause */
    },
    {
        [LINE_REQUEST] = "asked_request", /* the interrupt of a request on a kept connection */
        [LINE_READ] = "asked_read",
        [LINE_WRITE] = "asked_write",
        [LINE_IDLE] = "asked_idle",
    },
};

struct paced {
    struct pair *pair;
    const struct options *options;
    bool keeps;
    bool nobody_interrupts; /* on loopback the sender's CPU receives */
    int epoll;
    struct connections connections; /* one, if it is kept */
    uint64_t ends;                  /* when the last call has ended, in ticks */
    double robbed_ns[ROBBERIES_MAX];
    int n_robbed;
    struct samples samples[N_LINES];
    _Alignas(CACHE_LINE) atomic_bool is_awake; /* the server */
    _Alignas(CACHE_LINE) atomic_bool is_there; /* the request */
    _Alignas(CACHE_LINE) atomic_bool is_over;  /* all packets of the turn */
};

static void take_turns(void *context)
{
    struct paced *paced = context;
    struct pair *pair = paced->pair;
    while (meet_again(pair, PEER, 0)) {
        while (!atomic_exchange(&paced->is_awake, false)) {
            (void)clients_attend(pair);
        }
        int client = paced->keeps ? paced->connections.clients[0] : client_open(pair);
        if (!paced->keeps) {
            client_connect(pair, client);
            /* Not attending: a quick acknowledgement would share the interrupt of the SYN. */
            spin_ns(APART_NS);
            (void)client_spin_until_open(pair, client);
            clients_spin(pair, APART_NS);
        }
        client_send(pair, client, REQUEST_BYTES);
        if (paced->keeps) {
            clients_spin(pair, SETTLE_NS); /* later requests are acknowledged by their replies */
        } else {
            client_await_acknowledged(pair, client);
        }
        atomic_store(&paced->is_there, true);
        client_await_data(pair, client);
        if (paced->keeps) {
            (void)client_receive(pair, client, REPLY_BYTES);
        } else {
            client_close(pair, client);
        }
        clients_spin(pair, SETTLE_NS);
        atomic_store(&paced->is_over, true);
        meet(pair, PEER); /* the server has closed */
    }
}

/* Read the clock until the peer ends it, and note the first robberies. The peer may end it during the
 * last one, so the clock is read once more. */
static void be_robbed(struct paced *paced, atomic_bool *until)
{
    uint64_t gap_min = ns_to_ticks(GAP_NS_MIN);
    uint64_t last = ticks_now();
    bool is_over = false;
    paced->n_robbed = 0;
    while (!is_over) {
        is_over = atomic_exchange(until, false);
        uint64_t now = ticks_now();
        bool is_robbed = now - last >= gap_min && !paced->nobody_interrupts;
        if (is_robbed && paced->n_robbed < ROBBERIES_MAX) {
            paced->robbed_ns[paced->n_robbed++] = ticks_to_ns(now - last);
        }
        last = now;
    }
}

static void add(struct paced *paced, enum line line, double ns)
{
    samples_add(&paced->samples[line], ns, 1);
}

/* The call that has just ended; the next one begins. */
static void add_call(struct paced *paced, enum line line)
{
    uint64_t now = ticks_now();
    add(paced, line, ticks_to_ns(now - paced->ends));
    paced->ends = ticks_now();
}

static void serve_one(struct paced *paced)
{
    bool keeps = paced->keeps;
    uint64_t asleep = ticks_now();
    if (paced->options->pause_us > 0) {
        (void)usleep((useconds_t)paced->options->pause_us);
    }
    add(paced, LINE_IDLE, ticks_to_ns(ticks_now() - asleep));
    atomic_store(&paced->is_awake, true);
    be_robbed(paced, &paced->is_there);
    int first = keeps ? LINE_REQUEST : LINE_SYN;
    if (paced->n_robbed == LINE_REQUEST - first + 1) {
        for (int i = 0; i < paced->n_robbed; i++) {
            add(paced, (enum line)(first + i), paced->robbed_ns[i]);
        }
    }
    int fd = keeps ? paced->connections.server_fds[0] : -1;
    paced->ends = ticks_now();
    if (!keeps) {
        fd = accept_one(paced->pair->listener);
        add_call(paced, LINE_ACCEPT);
        epoll_control(paced->epoll, EPOLL_CTL_ADD, fd, EPOLLIN);
        add_call(paced, LINE_ADD);
    }
    if (receive_bytes(fd, REPLY_BYTES) == 0) { /* an interrupt came late */
        await(fd, POLLIN);
        (void)receive_bytes(fd, REPLY_BYTES);
        paced->ends = ticks_now();
    } else {
        add_call(paced, LINE_READ);
    }
    send_bytes(fd, REPLY_BYTES);
    add_call(paced, LINE_WRITE);
    be_robbed(paced, &paced->is_over);
    if (!keeps) {
        if (paced->n_robbed == 1) {
            add(paced, LINE_RESET, paced->robbed_ns[0]);
        }
        paced->ends = ticks_now();
        epoll_control(paced->epoll, EPOLL_CTL_DEL, fd, 0);
        add_call(paced, LINE_DELETE);
        close_fd(fd);
        add_call(paced, LINE_CLOSE);
    }
}

static void measure(const struct options *options, bool keeps)
{
    struct pair pair;
    struct paced paced = {
        .pair = &pair,
        .options = options,
        .keeps = keeps,
        .nobody_interrupts = options->server_netns == NULL,
    };
    pair_open(&pair, options, SPARE_DESCRIPTORS);
    connections_open(&paced.connections, &pair, keeps);
    paced.epoll = epoll_open();
    uint64_t deadline_ns = now_ns() + (uint64_t)options->milliseconds * 1000000u;
    if (prctl(PR_SET_TIMERSLACK, 1UL) != 0) { /* or a sleep takes 50 us more */
        fail_errno("prctl");
    }
    for (int line = 0; line < N_LINES; line++) {
        samples_open(&paced.samples[line]);
    }
    peer_start(&pair, take_turns, &paced);
    while (meet_again(&pair, SERVER, deadline_ns)) {
        serve_one(&paced);
        meet(&pair, SERVER);
    }
    peer_finish(&pair);
    for (int line = 0; line < N_LINES; line++) {
        if (line_names[keeps][line] != NULL && paced.samples[line].n > 0) {
            samples_print(&paced.samples[line], options, line_names[keeps][line], "");
        }
        samples_close(&paced.samples[line]);
    }
    close_fd(paced.epoll);
    connections_close(&paced.connections, &pair);
    pair_close(&pair);
}

void bench_paced(const struct options *options)
{
    measure(options, false);
}

void bench_asked(const struct options *options)
{
    measure(options, true);
}
