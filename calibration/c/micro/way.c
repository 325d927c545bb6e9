/* How an interrupt gets to a CPU that is busy, and when none is needed.
 *
 *     peer      send ──── with an interrupt ────┐        send ─ without ─┐
 *     server    spins ·····························robbed ·····
 *                       |<---- on its way ---->|
 *     server    ········ write: | own reply is received |  ····
 *                               |<- what comes here -->|    needs none: packets are handled already
 *
 * Whoever sends to another CPU of its machine makes it receive, by an interrupt: that takes the
 * sender's time, and is on its way for a while. A CPU that is at its packets needs none, and a
 * server that writes to a client on its machine handles its own reply before the call is over. So
 * the peer sends at a random time beside a write: from how long its call takes it is known whether
 * there was an interrupt. Three kinds of cycles take turns: a request and no write, a request
 * beside a write, and a write whose reply the peer waits for, spinning.
 * Source: Linux net/core/dev.c enqueue_to_backlog(), net_rps_send_ipi(), process_backlog(). */
#include "clients.h"

#include <stdlib.h>

enum {
    SPARE_DESCRIPTORS = 100,
    AHEAD_NS = 8000,   /* that a write is announced */
    EARLIEST_NS = -6000, /* that a request is sent beside it */
    LATEST_NS = 9000,
    SETTLE_NS = 60000,
    GAP_NS_MIN = 400,  /* a reading takes some 20 ns */
};

enum kind { KIND_ALONE, KIND_BESIDE, KIND_SEEN, N_KINDS };
enum connection { OF_REPLY, OF_REQUEST, OF_SECOND, N_CONNECTIONS };
enum line { LINE_WAY, LINE_SEND, LINE_SECOND, LINE_BESIDE, LINE_SEEN, LINE_WRITE, N_LINES };

static const char *const line_names[N_LINES] = {
    [LINE_WAY] = "way_interrupt", /* from the call until the server is robbed */
    [LINE_SEND] = "way_send",     /* the call, with an interrupt */
    [LINE_SECOND] = "way_second", /* the call after it, without */
    [LINE_BESIDE] = "way_beside", /* when those began, after a write, that had none */
    [LINE_SEEN] = "way_seen",     /* from a write until its reply is there */
    [LINE_WRITE] = "way_write",   /* the write itself */
};

struct way {
    struct pair *pair;
    struct connections connections;
    uint64_t deadline_ns;
    uint32_t random;
    struct samples lines[N_LINES];
    double *begun_ns, *taken_ns; /* of the requests beside writes */
    size_t n_beside;
    enum kind kind;
    bool is_loopback;
    _Alignas(CACHE_LINE) atomic_uint_least64_t due; /* ticks at which the server writes */
    _Alignas(CACHE_LINE)
        atomic_uint_least64_t robbed; /* ticks at which it was robbed; 0: not yet */
};

static double since_ns(uint64_t now, uint64_t then)
{
    return now >= then ? ticks_to_ns(now - then) : -ticks_to_ns(then - now);
}

/* Return a time from EARLIEST_NS to LATEST_NS (xorshift). */
static double random_phase_ns(struct way *way)
{
    way->random ^= way->random << 13;
    way->random ^= way->random >> 17;
    way->random ^= way->random << 5;
    return EARLIEST_NS + (double)(way->random % (uint32_t)(LATEST_NS - EARLIEST_NS));
}

static void spin_until(uint64_t ticks)
{
    while ((int64_t)(ticks_now() - ticks) < 0) {
        relax();
    }
}

static double timed_send_ns(const struct way *way, int client, uint64_t *begun)
{
    *begun = ticks_now();
    client_send(way->pair, client, REQUEST_BYTES);
    return ticks_to_ns(ticks_now() - *begun);
}

static void send_alone(struct way *way, const int *clients)
{
    uint64_t begun, second;
    double taken_ns = timed_send_ns(way, clients[OF_REQUEST], &begun);
    double second_ns = timed_send_ns(way, clients[OF_SECOND], &second);
    clients_spin(way->pair, SETTLE_NS);
    uint64_t robbed = atomic_load(&way->robbed);
    if (way->is_loopback) {
        robbed = begun; /* the sender's CPU receives, and nobody is robbed */
    } else if (robbed == 0 || since_ns(robbed, begun) < 0) {
        return; /* a timer's tick came first */
    }
    samples_add(&way->lines[LINE_WAY], since_ns(robbed, begun), 1);
    samples_add(&way->lines[LINE_SEND], taken_ns, 1);
    samples_add(&way->lines[LINE_SECOND], second_ns, 1);
}

static void send_beside(struct way *way, const int *clients, uint64_t due)
{
    double phase_ns = random_phase_ns(way);
    uint64_t begun;
    spin_until(phase_ns < 0 ? due - ns_to_ticks(-phase_ns) : due + ns_to_ticks(phase_ns));
    double taken_ns = timed_send_ns(way, clients[OF_REQUEST], &begun);
    if (way->n_beside < SAMPLES_MAX) {
        way->begun_ns[way->n_beside] = since_ns(begun, due);
        way->taken_ns[way->n_beside++] = taken_ns;
    }
    client_send(way->pair, clients[OF_SECOND], REQUEST_BYTES);
    clients_spin(way->pair, SETTLE_NS);
}

static void converse(void *context)
{
    struct way *way = context;
    const int *clients = way->connections.clients;
    while (meet_again(way->pair, PEER, 0)) {
        bool has_seen = false;
        meet(way->pair, PEER); /* the server has said when */
        uint64_t due = atomic_load(&way->due);
        if (way->kind == KIND_ALONE) {
            send_alone(way, clients);
        } else if (way->kind == KIND_BESIDE) {
            send_beside(way, clients, due);
        } else {
            while (client_receive(way->pair, clients[OF_REPLY], REPLY_BYTES) == 0) {
                relax();
            }
            samples_add(&way->lines[LINE_SEEN], since_ns(ticks_now(), due), 1);
            has_seen = true;
            client_send(way->pair, clients[OF_REQUEST], REQUEST_BYTES);
            client_send(way->pair, clients[OF_SECOND], REQUEST_BYTES);
        }
        for (int i = has_seen ? OF_REQUEST : OF_REPLY; i < N_CONNECTIONS; i++) {
            client_await_data(way->pair, clients[i]);
            (void)client_receive(way->pair, clients[i], REPLY_BYTES);
        }
        client_send(way->pair, clients[OF_REPLY], REQUEST_BYTES); /* the next request there */
    }
}

/* Read the clock until `until`; publish when the first reading was late. */
static void be_robbed_until(struct way *way, uint64_t until)
{
    uint64_t gap_min = ns_to_ticks(GAP_NS_MIN);
    for (uint64_t last = ticks_now(), now; (int64_t)(last - until) < 0; last = now) {
        now = ticks_now();
        if (now - last >= gap_min &&
            atomic_load_explicit(&way->robbed, memory_order_relaxed) == 0) {
            atomic_store(&way->robbed, last);
        }
    }
}

static void serve(struct way *way)
{
    const int *fds = way->connections.server_fds;
    while (meet_again(way->pair, SERVER, way->deadline_ns)) {
        await(fds[OF_REPLY], POLLIN);
        (void)receive_bytes(fds[OF_REPLY], REQUEST_BYTES);
        spin_ns(SETTLE_NS);
        way->kind = (enum kind)((way->kind + 1) % N_KINDS);
        uint64_t due = ticks_now() + ns_to_ticks(AHEAD_NS);
        atomic_store(&way->robbed, 0);
        atomic_store(&way->due, due);
        meet(way->pair, SERVER);
        if (way->kind == KIND_ALONE) {
            be_robbed_until(way, due + ns_to_ticks(SETTLE_NS));
            send_bytes(fds[OF_REPLY], REPLY_BYTES);
        } else {
            spin_until(due);
            uint64_t begun = ticks_now();
            send_bytes(fds[OF_REPLY], REPLY_BYTES);
            if (way->kind == KIND_SEEN) {
                samples_add(&way->lines[LINE_WRITE], ticks_to_ns(ticks_now() - begun), 1);
            }
            spin_ns(SETTLE_NS);
        }
        for (int i = OF_REQUEST; i < N_CONNECTIONS; i++) {
            await(fds[i], POLLIN);
            (void)receive_bytes(fds[i], REQUEST_BYTES);
            send_bytes(fds[i], REPLY_BYTES);
        }
    }
}

/* Keep when those began that took no longer than halfway from the second to the first call. */
static void tell_apart(struct way *way)
{
    double limit_ns =
        (samples_median(&way->lines[LINE_SECOND]) + samples_median(&way->lines[LINE_SEND])) / 2;
    for (size_t i = 0; i < way->n_beside; i++) {
        if (way->is_loopback || way->taken_ns[i] < limit_ns) { /* there nobody interrupts */
            samples_add(&way->lines[LINE_BESIDE], way->begun_ns[i], 1);
        }
    }
}

static void send_first(void *context)
{
    struct way *way = context;
    client_send(way->pair, way->connections.clients[OF_REPLY], REQUEST_BYTES);
}

void bench_way(const struct options *options)
{
    struct pair pair;
    pair_open(&pair, options, SPARE_DESCRIPTORS);
    struct way way = {
        .pair = &pair,
        .deadline_ns = now_ns() + (uint64_t)options->milliseconds * 1000000u,
        .random = 1,
        .is_loopback = options->server_netns == NULL,
        .begun_ns = allocate(SAMPLES_MAX, sizeof(double)),
        .taken_ns = allocate(SAMPLES_MAX, sizeof(double)),
    };
    connections_open(&way.connections, &pair, N_CONNECTIONS);
    for (int line = 0; line < N_LINES; line++) {
        samples_open(&way.lines[line]);
    }
    peer_start(&pair, send_first, &way);
    peer_finish(&pair);
    peer_start(&pair, converse, &way);
    serve(&way);
    peer_finish(&pair);
    tell_apart(&way);
    for (int line = 0; line < N_LINES; line++) {
        samples_print(&way.lines[line], options, line_names[line], "");
        samples_close(&way.lines[line]);
    }
    connections_close(&way.connections, &pair);
    free(way.begun_ns);
    free(way.taken_ns);
    pair_close(&pair);
}
