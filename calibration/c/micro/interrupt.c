/* The time that incoming packets take from a busy server.
 *
 *     server   reads the clock, reads the clock, ..GAP.., reads the clock, ..GAP..
 *     peer               burst of b operations, settling | as long without operations
 *              |<------------- busy window ------------->|<------ quiet window ----->|
 *
 * A gap between two readings that is too long for a reading is time stolen by an interrupt.
 * The quiet window has the timer ticks and the neighbours, but not the packets. Only the
 * first packets on a connection are used: later ones are acknowledged at another time. They have
 * a bench of their own, interrupt_later, whose connections have had a request and its reply. A
 * kernel has acknowledged a reply before its client resets. Packets of a client machine do both at
 * once, so its connections of interrupt_reset have had a reply, too. In interrupt_dropped the
 * listener's queue is full.
 *
 * A signal adds little to the cost of its packet, and the cost of packets varies over time. So
 * bursts on connections that signal alternate with bursts on connections that epoll watches, and
 * the differences are the samples. The signals stay queued until the end; in interrupt_signal_lost
 * the queue is full already. interrupt_posted is the same for connections with a receive armed by
 * io_uring, which leaves work for its thread. */
#include "clients.h"
#include "ring.h"
#include "watched.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

enum {
    SPARE_DESCRIPTORS = 100,
    GAP_NS_MIN = 400,          /* a reading takes some 20 ns, an interrupt 1 us and more */
    SETTLE_NS = 60000,         /* until the last packet has been processed ... */
    SETTLE_NS_PER_OPERATION = 15000,
};

enum operation { OPERATION_CONNECT, OPERATION_DATA, OPERATION_RESET };

struct interrupts {
    struct pair *pair;
    const struct options *options;
    enum operation operation;
    int *server_fds, *clients;
    int epoll;             /* -1: nothing is watched by epoll */
    struct served *served; /* NULL: no burst signals */
    struct ring *ring;     /* NULL: for none is a receive armed */
    bool loses;            /* no signal finds room */
    bool is_later;         /* each connection has had one reply */
    bool leaves;           /* each has had a reply, which its reset acknowledges */
    bool drops;            /* no connection finds room */
    bool told_otherwise;   /* those of this burst; otherwise epoll watches them, if it is there */
    struct cost {
        double stolen_ns, quiet_ns;
    } watched; /* of the burst before */
    uint64_t deadline_ns;
    struct samples stolen, gaps, quiet;
    _Alignas(CACHE_LINE) atomic_uint_least64_t stolen_ticks;
    atomic_uint_least64_t n_gaps;
    _Alignas(CACHE_LINE) atomic_bool over; /* the burst and its quiet window */
};

struct theft {
    uint64_t ticks, gaps;
};

static struct theft theft_now(struct interrupts *interrupts)
{
    return (struct theft){atomic_load(&interrupts->stolen_ticks), atomic_load(&interrupts->n_gaps)};
}

/* Is every other burst on connections that epoll watches, and the rest on others? */
static bool is_alternating(const struct interrupts *interrupts)
{
    return interrupts->served != NULL || interrupts->ring != NULL;
}

static void burst(struct interrupts *interrupts)
{
    for (long i = 0; i < interrupts->options->burst; i++) {
        if (interrupts->operation == OPERATION_CONNECT) {
            client_connect(interrupts->pair, interrupts->clients[i]);
        } else if (interrupts->operation == OPERATION_DATA) {
            client_send(interrupts->pair, interrupts->clients[i], REQUEST_BYTES);
        } else {
            client_leave(interrupts->pair, interrupts->clients[i]);
        }
    }
}

static void ask_all(struct interrupts *interrupts)
{
    for (long i = 0; i < interrupts->options->burst; i++) {
        client_send(interrupts->pair, interrupts->clients[i], REQUEST_BYTES);
    }
}

static void prepare(struct interrupts *interrupts)
{
    long n = interrupts->options->burst;
    for (long i = 0; i < n; i++) {
        interrupts->clients[i] = client_open(interrupts->pair);
    }
    if (interrupts->operation == OPERATION_CONNECT) {
        return;
    }
    for (long i = 0; i < n; i++) {
        client_connect(interrupts->pair, interrupts->clients[i]);
    }
    for (long i = 0; i < n; i++) {
        (void)client_await_open(interrupts->pair, interrupts->clients[i]);
    }
    if (interrupts->is_later || interrupts->leaves) {
        ask_all(interrupts); /* a first request each */
    }
}

static void take_replies(const struct interrupts *interrupts)
{
    for (long i = 0; i < interrupts->options->burst; i++) {
        client_await_data(interrupts->pair, interrupts->clients[i]);
        if (client_receive(interrupts->pair, interrupts->clients[i], REPLY_BYTES) != REPLY_BYTES) {
            fail("a reply came in pieces");
        }
    }
}

static void burst_and_quiet(struct interrupts *interrupts)
{
    long n = interrupts->options->burst;
    double settle_ns = SETTLE_NS + (double)n * SETTLE_NS_PER_OPERATION;
    uint64_t first = ticks_now();
    struct theft before = theft_now(interrupts);
    burst(interrupts);
    clients_spin(interrupts->pair, settle_ns);
    struct theft between = theft_now(interrupts);
    double window_ns = ticks_to_ns(ticks_now() - first);
    clients_spin(interrupts->pair, window_ns);
    struct theft after = theft_now(interrupts);
    struct cost cost = {ticks_to_ns(between.ticks - before.ticks) / (double)n,
                        ticks_to_ns(after.ticks - between.ticks) / (double)n};
    if (is_alternating(interrupts) && !interrupts->told_otherwise) {
        interrupts->watched = cost;
        return;
    }
    samples_add(&interrupts->stolen, cost.stolen_ns - interrupts->watched.stolen_ns, (uint64_t)n);
    samples_add(&interrupts->gaps, (double)(between.gaps - before.gaps) / (double)n, 1);
    samples_add(&interrupts->quiet, cost.quiet_ns - interrupts->watched.quiet_ns, 1);
}

static void send_bursts(void *context)
{
    struct interrupts *interrupts = context;
    double pause_ns = (double)interrupts->options->pause_us * 1000.0;
    int in_the_way = -1;
    if (interrupts->drops) {
        in_the_way = client_open(interrupts->pair);
        client_connect(interrupts->pair, in_the_way);
        (void)client_await_open(interrupts->pair, in_the_way);
    }
    while (meet_again(interrupts->pair, PEER, 0)) {
        prepare(interrupts);
        meet(interrupts->pair, PEER); /* connections are there to be accepted */
        meet_unattending(interrupts->pair); /* they are accepted, the server is busy */
        if (interrupts->is_later) {
            take_replies(interrupts);
        }
        if (interrupts->leaves) {
            spin_ns(pause_ns); /* the replies wait */
        } else {
            clients_spin(interrupts->pair, pause_ns);
        }
        burst_and_quiet(interrupts);
        atomic_store(&interrupts->over, true);
        meet(interrupts->pair, PEER); /* the server has accepted what was connected */
        if (interrupts->operation != OPERATION_RESET) {
            for (long i = 0; i < interrupts->options->burst; i++) {
                client_close(interrupts->pair, interrupts->clients[i]);
            }
        }
    }
    if (in_the_way >= 0) {
        client_close(interrupts->pair, in_the_way);
    }
}

/* Read the clock until the burst is over; publish what is missing in it. */
static void be_robbed(struct interrupts *interrupts)
{
    uint64_t gap_min = ns_to_ticks(GAP_NS_MIN);
    uint64_t stolen = atomic_load(&interrupts->stolen_ticks);
    uint64_t n_gaps = atomic_load(&interrupts->n_gaps);
    uint64_t last = ticks_now();
    while (!atomic_load_explicit(&interrupts->over, memory_order_relaxed)) {
        uint64_t now = ticks_now();
        uint64_t gap = now - last;
        last = now;
        if (gap < gap_min) {
            continue;
        }
        stolen += gap;
        n_gaps++;
        atomic_store_explicit(&interrupts->stolen_ticks, stolen, memory_order_relaxed);
        atomic_store_explicit(&interrupts->n_gaps, n_gaps, memory_order_relaxed);
    }
}

static void tell_otherwise(struct interrupts *interrupts, int fd)
{
    if (interrupts->ring == NULL) {
        watch(interrupts->served, fd);
        return;
    }
    let_block(fd);
    if (ring_make_room(interrupts->ring) != 0) {
        fail_errno("io_uring");
    }
    ring_receive(interrupts->ring, fd);
}

/* A server that has replied sends its acknowledgements with replies. */
static void answer_burst(struct interrupts *interrupts)
{
    for (long i = 0; i < interrupts->options->burst; i++) {
        await(interrupts->server_fds[i], POLLIN);
        (void)receive_bytes(interrupts->server_fds[i], REQUEST_BYTES);
        send_bytes(interrupts->server_fds[i], REPLY_BYTES);
    }
}

static void accept_burst(struct interrupts *interrupts)
{
    for (long i = 0; i < interrupts->options->burst;) {
        int fd = accept_one(interrupts->pair->listener);
        if (fd < 0) {
            await(interrupts->pair->listener, POLLIN);
            continue;
        }
        interrupts->server_fds[i++] = fd;
        if (interrupts->told_otherwise) {
            tell_otherwise(interrupts, fd);
        } else if (interrupts->epoll >= 0) {
            epoll_control(interrupts->epoll, EPOLL_CTL_ADD, fd, EPOLLIN);
        }
    }
    if (interrupts->told_otherwise && interrupts->ring != NULL) {
        ring_go(interrupts->ring, RING_NO_WAIT);
    }
    if (interrupts->is_later || interrupts->leaves) {
        answer_burst(interrupts);
    }
}

static void receive_burst(struct interrupts *interrupts)
{
    int n_bytes;
    for (long n = 0; n < interrupts->options->burst;) {
        ring_go(interrupts->ring, RING_WAIT); /* does some of what is due, and at least one */
        while (ring_see(interrupts->ring, &n_bytes, 1) == 1) {
            n++;
        }
    }
}

/* The connections of a burst are over: forget them and their events. */
static void end_burst(struct interrupts *interrupts)
{
    bool signals = interrupts->told_otherwise && interrupts->served != NULL;
    if (interrupts->told_otherwise && interrupts->ring != NULL) {
        receive_burst(interrupts);
    }
    for (long i = 0; i < interrupts->options->burst; i++) {
        if (signals) {
            unwatch(interrupts->served, interrupts->server_fds[i]);
        }
        close_fd(interrupts->server_fds[i]);
    }
    if (signals) {
        discard_signals();
    }
}

static void suffer_bursts(struct interrupts *interrupts)
{
    bool accept_first = interrupts->operation != OPERATION_CONNECT;
    while (meet_again(interrupts->pair, SERVER, interrupts->deadline_ns)) {
        atomic_store(&interrupts->over, false);
        meet(interrupts->pair, SERVER);
        if (accept_first) {
            accept_burst(interrupts);
        }
        if (interrupts->loses && interrupts->told_otherwise) {
            fill_signal_queue();
        }
        meet(interrupts->pair, SERVER);
        be_robbed(interrupts);
        if (!accept_first && !interrupts->drops) {
            accept_burst(interrupts);
        }
        meet(interrupts->pair, SERVER);
        if (!interrupts->drops) {
            end_burst(interrupts);
        }
        interrupts->told_otherwise = is_alternating(interrupts) && !interrupts->told_otherwise;
    }
}

static void print_theft(struct interrupts *interrupts)
{
    char extra[EXTRA_MAX];
    double quiet_median = samples_median(&interrupts->quiet);
    (void)snprintf(extra, sizeof extra,
                   ", \"interrupts_per_operation\": %.3f, \"mean\": %.2f, "
                   "\"quiet_median\": %.2f, \"quiet_mean\": %.2f",
                   samples_median(&interrupts->gaps),
                   samples_mean(&interrupts->stolen) - samples_mean(&interrupts->quiet),
                   quiet_median, samples_mean(&interrupts->quiet));
    for (size_t i = 0; i < interrupts->stolen.n; i++) {
        interrupts->stolen.values[i] -= quiet_median;
    }
    samples_print(&interrupts->stolen, interrupts->options, interrupts->options->bench->name,
                  extra);
}

static enum operation operation_of(const char *bench)
{
    if (strcmp(bench, "interrupt_connect") == 0 || strcmp(bench, "interrupt_dropped") == 0) {
        return OPERATION_CONNECT;
    }
    return strcmp(bench, "interrupt_reset") == 0 ? OPERATION_RESET : OPERATION_DATA;
}

static void check_mechanism(const struct options *options, bool signals)
{
    enum mechanism mechanism = options->mechanism;
    bool queues = mechanism >= MECHANISM_RT_SIGNALS && mechanism <= MECHANISM_SIGNALFD;
    if (signals ? !queues : mechanism != MECHANISM_NONE && mechanism != MECHANISM_EPOLL) {
        fail_usage("%s --mechanism must be %s, got %s", options->bench->name,
                   signals ? "one that queues signals" : "none or epoll",
                   mechanism_name(mechanism));
    }
}

void bench_interrupt(const struct options *options)
{
    struct pair pair;
    struct ring ring;
    bool signals = strncmp(options->bench->name, "interrupt_signal", 16) == 0;
    bool posts = strcmp(options->bench->name, "interrupt_posted") == 0;
    check_mechanism(options, signals);
    pair_open(&pair, options, options->burst + SPARE_DESCRIPTORS);
    struct interrupts interrupts = {
        .pair = &pair,
        .options = options,
        .operation = operation_of(options->bench->name),
        .server_fds = allocate((size_t)options->burst, sizeof(int)),
        .clients = allocate((size_t)options->burst, sizeof(int)),
        .epoll = posts || options->mechanism != MECHANISM_NONE ? epoll_open() : -1,
        .loses = strcmp(options->bench->name, "interrupt_signal_lost") == 0,
        .is_later = strcmp(options->bench->name, "interrupt_later") == 0,
        .leaves = options->far != NULL && operation_of(options->bench->name) == OPERATION_RESET,
        .drops = strcmp(options->bench->name, "interrupt_dropped") == 0,
        .deadline_ns = now_ns() + (uint64_t)options->milliseconds * 1000000u,
    };
    if (signals) {
        interrupts.served = watched_open(options, options->burst + SPARE_DESCRIPTORS);
    }
    if (posts) {
        ring_begin(&ring, options->burst + SPARE_DESCRIPTORS);
        interrupts.ring = &ring;
    }
    if (interrupts.drops && listen(pair.listener, 0) != 0) {
        fail_errno("listen");
    }
    samples_open(&interrupts.stolen);
    samples_open(&interrupts.gaps);
    samples_open(&interrupts.quiet);
    peer_start(&pair, send_bursts, &interrupts);
    suffer_bursts(&interrupts);
    peer_finish(&pair);
    print_theft(&interrupts);
    samples_close(&interrupts.stolen);
    samples_close(&interrupts.gaps);
    samples_close(&interrupts.quiet);
    if (interrupts.epoll >= 0) {
        close_fd(interrupts.epoll);
    }
    if (interrupts.served != NULL) {
        served_close(interrupts.served);
    }
    if (posts) {
        ring_close_all(&ring);
    }
    free(interrupts.server_fds);
    free(interrupts.clients);
    pair_close(&pair);
}
