/* A connection that comes alone to a CPU that was idle: its handshake, and the server's first calls.
 *
 *     bare      connect .. open, reset | pause | connect .. open, reset | pause ...
 *     served    connect .. open, request ........... reply, reset | pause ...
 *               server: asleep, wakes, accepts, watches, reads, writes, closes, asleep
 *     awake     the same, but the server computes until the connection is there
 *
 * All handshakes find an idle CPU. Those of served connections take longer: the server's calls have
 * displaced the code of handshakes from the caches. Likewise calls after idleness take longer than
 * calls after a computation: others have used the core.
 */
#include "clients.h"

#include <sys/epoll.h>

enum { SPARE_DESCRIPTORS = 200, AT_ONCE = 20, WAIT_MS = 1000, SETTLE_NS = 30000 };

enum line { LINE_BARE, LINE_OPEN, LINE_CALLS, LINE_AWAKE, N_LINES };

static const char *const line_names[N_LINES] = {
    [LINE_BARE] = "lone_bare",
    [LINE_OPEN] = "lone_open",
    [LINE_CALLS] = "lone_calls",
    [LINE_AWAKE] = "lone_awake",
};

struct lone {
    struct pair *pair;
    int epoll;
    bool stays_awake;
    uint64_t deadline_ns;
    _Alignas(CACHE_LINE) atomic_bool is_there; /* the connection, for a server that stays awake */
    _Alignas(CACHE_LINE) atomic_bool is_watched; /* it is time for the request */
    struct samples samples[N_LINES];
};

static void add_span(struct lone *lone, enum line line, uint64_t first, uint64_t last)
{
    samples_add(&lone->samples[line], ticks_to_ns(last - first), 1);
}

/* Connect after a pause; return the client, and the ticks of begin and end. */
static int connect_alone(const struct lone *lone, uint64_t *first, uint64_t *last)
{
    const struct pair *pair = lone->pair;
    int client = client_open(pair);
    clients_spin(pair, (double)pair->options->pause_us * 1000.0);
    *first = ticks_now();
    client_connect(pair, client);
    *last = client_spin_until_open(pair, client);
    return client;
}

static void shake_hands(void *context)
{
    struct lone *lone = context;
    for (int i = 0; i < AT_ONCE; i++) {
        uint64_t first, last;
        client_close(lone->pair, connect_alone(lone, &first, &last));
        if (i > 0) { /* before the first, the server has accepted */
            add_span(lone, LINE_BARE, first, last);
        }
    }
}

static void ask(void *context)
{
    struct lone *lone = context;
    for (int i = 0; i < AT_ONCE; i++) {
        uint64_t first, last;
        int client = connect_alone(lone, &first, &last);
        if (lone->stays_awake) {
            clients_spin(lone->pair, SETTLE_NS);
            atomic_store(&lone->is_there, true);
        } else if (i > 0) { /* before the first, the server has computed */
            add_span(lone, LINE_OPEN, first, last);
        }
        while (!atomic_exchange(&lone->is_watched, false)) {
            (void)clients_attend(lone->pair);
        }
        client_send(lone->pair, client, REQUEST_BYTES);
        client_await_data(lone->pair, client);
        client_close(lone->pair, client);
    }
}

static int wait_for_one(const struct lone *lone)
{
    struct epoll_event event;
    if (epoll_wait(lone->epoll, &event, 1, WAIT_MS) != 1) {
        fail("epoll_wait found nothing ready");
    }
    return event.data.fd;
}

static void serve_one(struct lone *lone)
{
    int listener = lone->pair->listener;
    if (lone->stays_awake) {
        while (!atomic_exchange(&lone->is_there, false)) {
            relax();
        }
    }
    if (wait_for_one(lone) != listener) {
        fail("a connection is ready that was closed");
    }
    uint64_t first = ticks_now();
    int fd = accept_one(listener);
    bool is_alone = accept_one(listener) < 0;
    epoll_control(lone->epoll, EPOLL_CTL_ADD, fd, EPOLLIN);
    uint64_t last = ticks_now();
    if (fd < 0 || !is_alone) {
        fail("there must be one connection");
    }
    atomic_store(&lone->is_watched, true);
    add_span(lone, lone->stays_awake ? LINE_AWAKE : LINE_CALLS, first, last);
    if (wait_for_one(lone) != fd) {
        fail("another connection has a request");
    }
    (void)receive_bytes(fd, REQUEST_BYTES);
    send_bytes(fd, REPLY_BYTES);
    close_fd(fd);
}

static void take_rounds(struct lone *lone)
{
    struct pair *pair = lone->pair;
    do {
        peer_start(pair, shake_hands, lone);
        peer_finish(pair); /* asleep */
        accept_and_close(pair->listener);
        for (int awake = 0; awake < 2; awake++) {
            lone->stays_awake = awake == 1;
            peer_start(pair, ask, lone);
            for (int i = 0; i < AT_ONCE; i++) {
                serve_one(lone);
            }
            peer_finish(pair);
        }
    } while (now_ns() < lone->deadline_ns);
}

void bench_lone(const struct options *options)
{
    struct pair pair;
    pair_open(&pair, options, SPARE_DESCRIPTORS);
    struct lone lone = {
        .pair = &pair,
        .epoll = epoll_open(),
        .deadline_ns = now_ns() + (uint64_t)options->milliseconds * 1000000u,
    };
    epoll_control(lone.epoll, EPOLL_CTL_ADD, pair.listener, EPOLLIN);
    for (int line = 0; line < N_LINES; line++) {
        samples_open(&lone.samples[line]);
    }
    take_rounds(&lone);
    for (int line = 0; line < N_LINES; line++) {
        samples_print(&lone.samples[line], options, line_names[line], "");
        samples_close(&lone.samples[line]);
    }
    close_fd(lone.epoll);
    pair_close(&pair);
}
