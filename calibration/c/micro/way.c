/* How an interrupt reaches a busy CPU, and when none is needed.
 *
 *     peer      send ──── with an interrupt ────┐        send ─ without ─┐
 *     server    spins ·····························robbed ·····
 *                       |<---- on its way ---->|
 *     server    ········ write: | own reply is received |  ····
 *                               |<- what comes here -->|    needs none: packets are handled already
 *
 * A thread that sends to another CPU of its machine makes that CPU receive, by an interrupt. This
 * costs the sender time, and the interrupt takes a while to arrive. A CPU that is handling packets
 * needs none, and a server that writes to a client on its machine handles its own reply within the
 * call. So the peer sends at a random time beside a write: the length of its call shows whether
 * there was an interrupt. Three kinds of cycles take turns: a request and no write, a request
 * beside a write, and a write whose reply the peer waits for, spinning.
 * Source: Linux net/core/dev.c enqueue_to_backlog(), net_rps_send_ipi(), process_backlog(). */
#include "robbed.h"

enum { SPARE_DESCRIPTORS = 100 };

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
    struct samples lines[N_LINES];
    struct beside beside; /* requests beside writes */
    enum kind kind;
    struct robbery robbery;
};

static void send_alone(struct way *way, const int *clients)
{
    uint64_t begun, second;
    double taken_ns = timed_send_ns(way->pair, clients[OF_REQUEST], &begun);
    double second_ns = timed_send_ns(way->pair, clients[OF_SECOND], &second);
    clients_spin(way->pair, SETTLE_NS);
    uint64_t robbed = atomic_load(&way->robbery.robbed);
    if (way->beside.nobody_interrupts) {
        robbed = begun; /* no time is lost */
    } else if (robbed == 0 || since_ns(robbed, begun) < 0) {
        return; /* a timer's tick came first */
    }
    samples_add(&way->lines[LINE_WAY], since_ns(robbed, begun), 1);
    samples_add(&way->lines[LINE_SEND], taken_ns, 1);
    samples_add(&way->lines[LINE_SECOND], second_ns, 1);
}

static void send_beside(struct way *way, const int *clients, uint64_t due)
{
    beside_wait(&way->beside, due);
    uint64_t begun;
    double taken_ns = timed_send_ns(way->pair, clients[OF_REQUEST], &begun);
    beside_add(&way->beside, since_ns(begun, due), taken_ns);
    client_send(way->pair, clients[OF_SECOND], REQUEST_BYTES);
    clients_spin(way->pair, SETTLE_NS);
}

static void converse(void *context)
{
    struct way *way = context;
    const int *clients = way->connections.clients;
    while (meet_again(way->pair, PEER, 0)) {
        bool has_seen = false;
        meet(way->pair, PEER); /* the server has announced the time */
        uint64_t due = atomic_load(&way->robbery.due);
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

static void serve(struct way *way)
{
    const int *fds = way->connections.server_fds;
    while (meet_again(way->pair, SERVER, way->deadline_ns)) {
        await(fds[OF_REPLY], POLLIN);
        (void)receive_bytes(fds[OF_REPLY], REQUEST_BYTES);
        spin_ns(SETTLE_NS);
        way->kind = (enum kind)((way->kind + 1) % N_KINDS);
        uint64_t due = announce(&way->robbery);
        meet(way->pair, SERVER);
        if (way->kind == KIND_ALONE) {
            be_robbed_until(&way->robbery, due + ns_to_ticks(SETTLE_NS));
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
    };
    beside_open(&way.beside, options);
    connections_open(&way.connections, &pair, N_CONNECTIONS);
    for (int line = 0; line < N_LINES; line++) {
        samples_open(&way.lines[line]);
    }
    peer_start(&pair, send_first, &way);
    peer_finish(&pair);
    peer_start(&pair, converse, &way);
    serve(&way);
    peer_finish(&pair);
    beside_tell_apart(&way.beside, &way.lines[LINE_SECOND], &way.lines[LINE_SEND],
                      &way.lines[LINE_BESIDE]);
    for (int line = 0; line < N_LINES; line++) {
        samples_print(&way.lines[line], options, line_names[line], "");
        samples_close(&way.lines[line]);
    }
    connections_close(&way.connections, &pair);
    beside_close(&way.beside);
    pair_close(&pair);
}
