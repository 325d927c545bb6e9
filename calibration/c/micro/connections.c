/* Connections between the two sides. */
#include "clients.h"

#include <stdlib.h>

enum { CONNECTING_MAX = 256 };

struct dial {
    const struct pair *pair;
    struct connections *connections;
    _Alignas(CACHE_LINE) atomic_long accepted;
};

static void dial_all(void *context)
{
    struct dial *dial = context;
    for (long i = 0; i < dial->connections->n; i++) {
        while (i - atomic_load(&dial->accepted) >= CONNECTING_MAX) {
            (void)clients_attend(dial->pair); /* the listener's queue must not overflow */
        }
        int client = client_open(dial->pair);
        client_hurry(dial->pair, client);
        client_connect(dial->pair, client);
        /* One after the other, so that both sides number them in the same order. */
        (void)client_await_open(dial->pair, client);
        dial->connections->clients[i] = client;
    }
}

void connections_open(struct connections *connections, struct pair *pair, long n)
{
    size_t items = (size_t)n;
    *connections = (struct connections){
        .n = n,
        .server_fds = allocate(items, sizeof(int)),
        .clients = allocate(items, sizeof(int)),
    };
    struct dial dial = {.pair = pair, .connections = connections};
    peer_start(pair, dial_all, &dial);
    for (long i = 0; i < n;) {
        int fd = accept_one(pair->listener);
        if (fd < 0) {
            await(pair->listener, POLLIN);
            continue;
        }
        connections->server_fds[i++] = fd;
        atomic_store(&dial.accepted, i);
    }
    peer_finish(pair);
}

struct wake {
    const struct pair *pair;
    const struct connections *connections;
    long first, n;
};

static void hang_up_all(void *context)
{
    const struct wake *wake = context;
    for (long i = 0; i < wake->n; i++) {
        client_close(wake->pair, wake->connections->clients[i]);
    }
}

void connections_close(struct connections *connections, struct pair *pair)
{
    /* The peer first, by reset; then the server's close sends nothing. */
    struct wake all = {.pair = pair, .connections = connections, .n = connections->n};
    peer_start(pair, hang_up_all, &all);
    peer_finish(pair);
    for (long i = 0; i < connections->n; i++) {
        close_fd(connections->server_fds[i]);
    }
    free(connections->server_fds);
    free(connections->clients);
}

static void send_one_byte_each(void *context)
{
    const struct wake *wake = context;
    for (long i = 0; i < wake->n; i++) {
        client_send(wake->pair, wake->connections->clients[wake->first + i], 1);
    }
}

void connections_ready(const struct connections *connections, struct pair *pair, long first, long n)
{
    struct wake wake = {.pair = pair, .connections = connections, .first = first, .n = n};
    peer_start(pair, send_one_byte_each, &wake);
    peer_finish(pair);
    for (long i = 0; i < n; i++) {
        await(connections->server_fds[first + i], POLLIN);
    }
}
