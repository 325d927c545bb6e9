/* Waits that sleep, and what a sleeping server adds to a round trip.
 *
 *     server   wait ......zzz...... wakes, read, write | wait ...
 *     peer           pause             byte ^        spins for the reply
 *
 * The server must reply: otherwise its read() would acknowledge the bytes by a packet of its own.
 * That costs many times the read, and is not what a server does.
 */
#include "clients.h"

#include <string.h>

enum {
    SPARE_DESCRIPTORS = 100,
    WAIT_MS = 1000,
    SCAN_NS_MAX = 500, /* a bound of what scan and registration take, for each descriptor */
};

struct rounds {
    struct pair *pair;
    const struct connections *connections;
    struct samples *samples; /* of the peer: round trips */
    double pause_ns;
    uint64_t deadline_ns;
};

static double pause_for(const struct options *options)
{
    /* The server must be asleep when the byte comes, however long its scan. */
    return (double)options->pause_us * 1000.0 + (double)options->n * SCAN_NS_MAX;
}

static void send_after_pauses(void *context)
{
    const struct rounds *rounds = context;
    int client = rounds->connections->clients[rounds->connections->n - 1];
    for (bool answered = false; meet_again(rounds->pair, PEER, 0); answered = true) {
        if (answered) {
            client_take_byte(rounds->pair, client);
        }
        clients_spin(rounds->pair, rounds->pause_ns);
        client_send(rounds->pair, client, 1);
    }
}

static void wait_for_one(struct waiter *waiter)
{
    if (waiter_wait(waiter, WAIT_MS) != 1) {
        fail("%s did not find the one ready descriptor", mechanism_name(waiter->mechanism));
    }
}

static void sleep_rounds(const struct rounds *rounds, struct waiter *waiter,
                         struct samples *samples)
{
    int fd = rounds->connections->server_fds[rounds->connections->n - 1];
    while (meet_again(rounds->pair, SERVER, rounds->deadline_ns)) {
        /* Not the rendezvous: it spins while the peer finishes its write. */
        uint64_t first_ns = thread_cpu_ns();
        wait_for_one(waiter);
        (void)receive_bytes(fd, 1);
        samples_add(samples, (double)(thread_cpu_ns() - first_ns), 1);
        send_bytes(fd, 1);
    }
}

void bench_block(const struct options *options)
{
    struct pair pair;
    struct connections connections;
    struct waiter waiter;
    struct samples samples;
    char extra[EXTRA_MAX];
    pair_open(&pair, options, options->n + SPARE_DESCRIPTORS);
    connections_open(&connections, &pair, options->n);
    waiter_open(&waiter, options->mechanism, connections.server_fds, options->n);
    samples_open(&samples);
    struct rounds rounds = {&pair, &connections, NULL, pause_for(options),
                            now_ns() + (uint64_t)options->milliseconds * 1000000u};
    struct account begin = account_now(options);
    peer_start(&pair, send_after_pauses, &rounds);
    sleep_rounds(&rounds, &waiter, &samples);
    account_print(extra, sizeof extra, options, &begin, samples.operations);
    peer_finish(&pair);
    samples_less(&samples, thread_cpu_overhead_ns());
    samples_print(&samples, options, options->bench->name, extra);
    samples_close(&samples);
    waiter_close(&waiter);
    connections_close(&connections, &pair);
    pair_close(&pair);
}

static void ask(void *context)
{
    const struct rounds *rounds = context;
    int client = rounds->connections->clients[rounds->connections->n - 1];
    uint64_t patience = ns_to_ticks(1e9 * WAIT_MS / 1000);
    while (meet_again(rounds->pair, PEER, rounds->deadline_ns)) {
        clients_spin(rounds->pair, rounds->pause_ns);
        uint64_t first = ticks_now();
        client_send(rounds->pair, client, REQUEST_BYTES);
        for (size_t n = 0; n < REPLY_BYTES;) {
            n += client_receive(rounds->pair, client, REPLY_BYTES - n);
            if (ticks_now() - first > patience) {
                fail("no reply came");
            }
        }
        samples_add(rounds->samples, ticks_to_ns(ticks_now() - first), 1);
    }
}

static void answer(const struct rounds *rounds, struct waiter *waiter, bool spins)
{
    int fd = rounds->connections->server_fds[rounds->connections->n - 1];
    while (meet_again(rounds->pair, SERVER, rounds->deadline_ns)) {
        if (!spins) {
            wait_for_one(waiter);
        }
        for (size_t n = 0; n < REQUEST_BYTES;) {
            n += receive_bytes(fd, REQUEST_BYTES - n);
        }
        send_bytes(fd, REPLY_BYTES);
    }
}

void bench_pingpong(const struct options *options)
{
    struct pair pair;
    struct connections connections;
    struct waiter waiter;
    struct samples samples;
    char extra[EXTRA_MAX];
    bool spins = strcmp(options->bench->name, "pingpong_spin") == 0;
    long n_all = options->n + 1; /* the last one is used */
    pair_open(&pair, options, n_all + SPARE_DESCRIPTORS);
    connections_open(&connections, &pair, n_all);
    /* A spinning server watches nothing. */
    waiter_open(&waiter, options->mechanism, connections.server_fds, spins ? 0 : n_all);
    samples_open(&samples);
    struct rounds rounds = {&pair, &connections, &samples, pause_for(options),
                            now_ns() + (uint64_t)options->milliseconds * 1000000u};
    struct account begin = account_now(options);
    peer_start(&pair, ask, &rounds);
    answer(&rounds, &waiter, spins);
    peer_finish(&pair);
    account_print(extra, sizeof extra, options, &begin, samples.operations);
    samples_print(&samples, options, options->bench->name, extra);
    samples_close(&samples);
    waiter_close(&waiter);
    connections_close(&connections, &pair);
    pair_close(&pair);
}
