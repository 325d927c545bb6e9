/* What a connection costs the load generator's CPU, while the server's CPU is busy. */
#include "clients.h"

#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

enum { SPARE_DESCRIPTORS = 100, SETTLE_NS = 100000 };

enum call { CALL_CONNECT, CALL_SEND, CALL_RECEIVE, CALL_CLOSE, N_CALLS };

static const char *const call_names[N_CALLS] = {
    [CALL_CONNECT] = "client_connect",
    [CALL_SEND] = "client_send",
    [CALL_RECEIVE] = "client_receive",
    [CALL_CLOSE] = "client_close",
};

struct client {
    struct pair *pair;
    const struct options *options;
    int *server_fds, *clients;
    int epoll; /* of sockets */
    uint64_t deadline_ns;
    struct samples samples[N_CALLS];
};

static void connect_all(struct client *client)
{
    for (long i = 0; i < client->options->batch; i++) {
        int one = client_open(client->pair);
        client_connect(client->pair, one);
        if (client->options->far == NULL) {
            epoll_control(client->epoll, EPOLL_CTL_ADD, one, EPOLLIN);
        }
        client->clients[i] = one;
    }
}

static void send_all(struct client *client)
{
    for (long i = 0; i < client->options->batch; i++) {
        client_send(client->pair, client->clients[i], REQUEST_BYTES);
    }
}

static void receive_all(struct client *client)
{
    for (long i = 0; i < client->options->batch; i++) {
        struct epoll_event event = {.data.fd = client->clients[i]};
        if (client->options->far == NULL && epoll_wait(client->epoll, &event, 1, 0) != 1) {
            fail("a reply is missing");
        }
        if (client_receive(client->pair, event.data.fd, REPLY_BYTES) != REPLY_BYTES) {
            fail("a reply came in pieces");
        }
    }
}

static void close_all(struct client *client)
{
    for (long i = 0; i < client->options->batch; i++) {
        client_close(client->pair, client->clients[i]);
    }
}

static void measure(struct client *client, enum call call, void (*stage)(struct client *))
{
    uint64_t first = ticks_now();
    stage(client);
    samples_add(&client->samples[call],
                ticks_to_ns(ticks_now() - first) / (double)client->options->batch,
                (uint64_t)client->options->batch);
}

static void use_server(void *context)
{
    struct client *client = context;
    client->epoll = epoll_open(); /* here: it belongs to the peer's descriptor table */
    while (meet_again(client->pair, PEER, 0)) {
        measure(client, CALL_CONNECT, connect_all);
        for (long i = 0; i < client->options->batch; i++) {
            (void)client_await_open(client->pair, client->clients[i]);
        }
        measure(client, CALL_SEND, send_all);
        meet(client->pair, PEER); /* the requests are there */
        meet_unattending(client->pair); /* the replies are there */
        measure(client, CALL_RECEIVE, receive_all);
        measure(client, CALL_CLOSE, close_all);
        meet(client->pair, PEER); /* the server may close */
    }
    close_fd(client->epoll);
}

static void serve_all(struct client *client)
{
    for (long i = 0; i < client->options->batch;) {
        int fd = accept_one(client->pair->listener);
        if (fd < 0) {
            await(client->pair->listener, POLLIN);
            continue;
        }
        client->server_fds[i++] = fd;
    }
    for (long i = 0; i < client->options->batch; i++) {
        await(client->server_fds[i], POLLIN);
        if (receive_bytes(client->server_fds[i], REPLY_BYTES) != REQUEST_BYTES) {
            fail("a request came in pieces");
        }
        send_bytes(client->server_fds[i], REPLY_BYTES);
    }
}

static void serve_client(struct client *client)
{
    while (meet_again(client->pair, SERVER, client->deadline_ns)) {
        meet(client->pair, SERVER);
        serve_all(client);
        spin_ns(SETTLE_NS);
        meet(client->pair, SERVER);
        meet(client->pair, SERVER);
        for (long i = 0; i < client->options->batch; i++) {
            close_fd(client->server_fds[i]);
        }
    }
}

void bench_client_calls(const struct options *options)
{
    struct pair pair;
    pair_open(&pair, options, options->batch + SPARE_DESCRIPTORS);
    struct client client = {
        .pair = &pair,
        .options = options,
        .server_fds = allocate((size_t)options->batch, sizeof(int)),
        .clients = allocate((size_t)options->batch, sizeof(int)),
        .deadline_ns = now_ns() + (uint64_t)options->milliseconds * 1000000u,
    };
    for (int call = 0; call < N_CALLS; call++) {
        samples_open(&client.samples[call]);
    }
    peer_start(&pair, use_server, &client);
    serve_client(&client);
    peer_finish(&pair);
    for (int call = 0; call < N_CALLS; call++) {
        samples_print(&client.samples[call], options, call_names[call], "");
        samples_close(&client.samples[call]);
    }
    free(client.server_fds);
    free(client.clients);
    pair_close(&pair);
}
