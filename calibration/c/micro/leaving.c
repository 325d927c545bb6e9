/* When packets leave within a client's calls, and which packets a server's close handles, too.
 *
 *     peer      socket ─ connect ──┐ ······ writable          close ──┐
 *     server    spins ············· robbed ··── goes on       spins ·· robbed ·· goes on
 *                          leaves_connect  ├opened┤           leaves_reset
 *                                          ├softirq ┤
 *     server    ········ close: | the client's kernel receives its FIN |  ···
 *     peer                      |<- what is sent here interrupts nobody ->|
 *
 * The time from the begin of a client's call until the server is robbed has two parts: the call
 * until its packet has left, and the way of the interrupt, which interrupt_way measures. A
 * handshake is one softirq, in the middle of which the client finds its connection open: its next
 * packet joins that softirq if it comes before the end. A server that closes first handles its FIN
 * for a client on its machine within the call, and other packets that arrive. Each cycle opens two
 * connections: the client resets one, the server closes the other.
 * Source: Linux net/core/dev.c enqueue_to_backlog(), process_backlog(), net/ipv4/tcp.c
 * __tcp_close(). */
#include "robbed.h"

enum { SPARE_DESCRIPTORS = 600 };

enum connection { OF_REQUEST, OF_SECOND, N_CONNECTIONS };
enum line {
    LINE_SOCKET,
    LINE_CONNECT,
    LINE_OPENED,
    LINE_SOFTIRQ,
    LINE_RESET,
    LINE_CLOSING,
    LINE_CLOSE,
    N_LINES
};

static const char *const line_names[N_LINES] = {
    [LINE_SOCKET] = "leaves_socket", /* what a client does before it calls connect() */
    [LINE_CONNECT] = "leaves_connect", /* from connect() until the server is robbed */
    [LINE_OPENED] = "leaves_opened", /* from then until the client finds its connection open */
    [LINE_SOFTIRQ] = "leaves_softirq", /* from then until the server goes on */
    [LINE_RESET] = "leaves_reset", /* from close() of a client until the server is robbed */
    [LINE_CLOSING] = "leaves_closing", /* when sends began, after a server's close, that had no
                                          interrupt */
    [LINE_CLOSE] = "leaves_close", /* that close itself */
};

struct leaving {
    struct pair *pair;
    struct connections connections;
    uint64_t deadline_ns;
    struct samples lines[N_LINES];
    struct samples first, second; /* sends that interrupt, and those after them */
    struct beside beside;
    struct robbery robbery;
};

/* Return when the server was robbed since `begun`, and `back` when it went on; 0: it was not. */
static uint64_t robbed_since(struct leaving *leaving, uint64_t begun, uint64_t *back)
{
    clients_spin(leaving->pair, SETTLE_NS);
    uint64_t robbed = atomic_load(&leaving->robbery.robbed);
    if (leaving->beside.nobody_interrupts) {
        robbed = begun;
        atomic_store(&leaving->robbery.back, begun);
    }
    *back = atomic_load(&leaving->robbery.back);
    return robbed != 0 && since_ns(robbed, begun) >= 0 ? robbed : 0;
}

static int open_timed(struct leaving *leaving)
{
    meet(leaving->pair, PEER);
    spin_until(atomic_load(&leaving->robbery.due));
    uint64_t back, first = ticks_now();
    int client = client_open(leaving->pair);
    uint64_t begun = ticks_now();
    client_connect(leaving->pair, client);
    uint64_t known = client_spin_until_open(leaving->pair, client);
    uint64_t robbed = robbed_since(leaving, begun, &back);
    if (robbed != 0 && since_ns(known, robbed) >= 0) { /* or a timer's tick came first */
        samples_add(&leaving->lines[LINE_SOCKET], ticks_to_ns(begun - first), 1);
        samples_add(&leaving->lines[LINE_CONNECT], since_ns(robbed, begun), 1);
        samples_add(&leaving->lines[LINE_OPENED], since_ns(known, robbed), 1);
        samples_add(&leaving->lines[LINE_SOFTIRQ], since_ns(back, robbed), 1);
    }
    return client;
}

static void reset_timed(struct leaving *leaving, int client)
{
    meet(leaving->pair, PEER);
    spin_until(atomic_load(&leaving->robbery.due));
    uint64_t back, begun = ticks_now();
    client_close(leaving->pair, client);
    uint64_t robbed = robbed_since(leaving, begun, &back);
    if (robbed != 0) {
        samples_add(&leaving->lines[LINE_RESET], since_ns(robbed, begun), 1);
    }
}

static void send_beside(struct leaving *leaving, const int *clients)
{
    meet(leaving->pair, PEER);
    uint64_t due = atomic_load(&leaving->robbery.due);
    beside_wait(&leaving->beside, due);
    uint64_t begun;
    double taken_ns = timed_send_ns(leaving->pair, clients[OF_REQUEST], &begun);
    beside_add(&leaving->beside, since_ns(begun, due), taken_ns);
    clients_spin(leaving->pair, SETTLE_NS);
}

static void send_alone(struct leaving *leaving, const int *clients)
{
    meet(leaving->pair, PEER);
    uint64_t begun;
    double first_ns = timed_send_ns(leaving->pair, clients[OF_REQUEST], &begun);
    double second_ns = timed_send_ns(leaving->pair, clients[OF_SECOND], &begun);
    samples_add(&leaving->first, first_ns, 1);
    samples_add(&leaving->second, second_ns, 1);
    clients_spin(leaving->pair, SETTLE_NS);
}

static void use_connections(void *context)
{
    struct leaving *leaving = context;
    const int *clients = leaving->connections.clients;
    while (meet_again(leaving->pair, PEER, 0)) {
        int one = open_timed(leaving);
        meet(leaving->pair, PEER); /* it is accepted */
        reset_timed(leaving, one);

        int other = client_open(leaving->pair);
        client_connect(leaving->pair, other);
        (void)client_spin_until_open(leaving->pair, other);
        meet(leaving->pair, PEER);
        send_beside(leaving, clients);
        send_alone(leaving, clients);
        client_close(leaving->pair, other);
        for (int i = 0; i < N_CONNECTIONS; i++) {
            client_await_data(leaving->pair, clients[i]);
            (void)client_receive(leaving->pair, clients[i], REPLY_BYTES);
        }
    }
}

static int accept_next(int listener)
{
    int fd;
    while ((fd = accept_one(listener)) < 0) {
        await(listener, POLLIN);
    }
    return fd;
}

/* Announce when the peer is to begin, and spin until then; packets come meanwhile. */
static void be_robbed(struct leaving *leaving)
{
    uint64_t due = announce(&leaving->robbery);
    meet(leaving->pair, SERVER);
    be_robbed_until(&leaving->robbery, due + ns_to_ticks(SETTLE_NS));
}

static void serve(struct leaving *leaving)
{
    const int *fds = leaving->connections.server_fds;
    int listener = leaving->pair->listener;
    while (meet_again(leaving->pair, SERVER, leaving->deadline_ns)) {
        be_robbed(leaving);
        int one = accept_next(listener);
        meet(leaving->pair, SERVER);
        be_robbed(leaving);
        close_fd(one); /* which the client has reset */

        int other = accept_next(listener);
        meet(leaving->pair, SERVER);
        uint64_t due = announce(&leaving->robbery);
        meet(leaving->pair, SERVER);
        spin_until(due);
        uint64_t begun = ticks_now();
        close_fd(other);
        samples_add(&leaving->lines[LINE_CLOSE], ticks_to_ns(ticks_now() - begun), 1);
        spin_ns(SETTLE_NS);

        meet(leaving->pair, SERVER);
        spin_ns(SETTLE_NS);
        for (int i = 0; i < N_CONNECTIONS; i++) {
            await(fds[i], POLLIN);
            (void)receive_bytes(fds[i], N_CONNECTIONS * REQUEST_BYTES);
            send_bytes(fds[i], REPLY_BYTES);
        }
    }
}

void bench_leaving(const struct options *options)
{
    struct pair pair;
    pair_open(&pair, options, SPARE_DESCRIPTORS);
    struct leaving leaving = {
        .pair = &pair,
        .deadline_ns = now_ns() + (uint64_t)options->milliseconds * 1000000u,
    };
    beside_open(&leaving.beside, options);
    connections_open(&leaving.connections, &pair, N_CONNECTIONS);
    samples_open(&leaving.first);
    samples_open(&leaving.second);
    for (int line = 0; line < N_LINES; line++) {
        samples_open(&leaving.lines[line]);
    }
    peer_start(&pair, use_connections, &leaving);
    serve(&leaving);
    peer_finish(&pair);
    beside_tell_apart(&leaving.beside, &leaving.second, &leaving.first,
                      &leaving.lines[LINE_CLOSING]);
    for (int line = 0; line < N_LINES; line++) {
        samples_print(&leaving.lines[line], options, line_names[line], "");
        samples_close(&leaving.lines[line]);
    }
    samples_close(&leaving.first);
    samples_close(&leaving.second);
    connections_close(&leaving.connections, &pair);
    beside_close(&leaving.beside);
    pair_close(&pair);
}
