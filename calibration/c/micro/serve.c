/* The system calls of a server at saturation, in batches.
 *
 *     peer     connect x B, request x B |                                    | reset x B
 *     server   spins                    | accept x B, read x B, write x B... | spins
 *
 * As in the machine under test, the server's write and close also receive packets for a client's
 * kernel (reply, FIN): that is part of their costs. With a client machine they do not, and its
 * reactions come after the calls: a reply's acknowledgement is in interrupt_reset. A
 * mechanism of the server's own watches after the accepts, and unwatches before the closes; that of
 * epoll itself leaves the removal to close. */
#include "clients.h"
#include "watched.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

enum { SPARE_DESCRIPTORS = 100, SETTLE_NS = 100000 };

enum call {
    CALL_ACCEPT,
    CALL_ACCEPT_AGAIN,
    CALL_ADD,
    CALL_READ,
    CALL_READ_AGAIN,
    CALL_WRITE,
    CALL_DELETE,
    CALL_CLOSE,
    N_CALLS
};

static const char *const call_names[N_CALLS] = {
    [CALL_ACCEPT] = "serve_accept",         [CALL_ACCEPT_AGAIN] = "serve_accept_again",
    [CALL_ADD] = "serve_epoll_add",         [CALL_READ] = "serve_read",
    [CALL_READ_AGAIN] = "serve_read_again", [CALL_WRITE] = "serve_write",
    [CALL_DELETE] = "serve_unwatch",        [CALL_CLOSE] = "serve_close",
};

struct serve {
    struct pair *pair;
    const struct options *options;
    int *server_fds, *clients;
    char *reply;
    int epoll;             /* -1: not by epoll_ctl itself */
    struct served *served; /* NULL: not by a mechanism of the server */
    uint64_t deadline_ns;
    uint64_t bytes_written, n_writes;
    struct samples samples[N_CALLS];
};

static bool is_made(const struct serve *serve, enum call call)
{
    if (call == CALL_ADD) {
        return serve->epoll >= 0 || serve->served != NULL;
    }
    return call != CALL_DELETE || serve->served != NULL;
}

static const char *name_of(const struct serve *serve, enum call call)
{
    return call == CALL_ADD && serve->served != NULL ? "serve_watch" : call_names[call];
}

static void send_requests(void *context)
{
    const struct serve *serve = context;
    long n = serve->options->batch;
    while (meet_again(serve->pair, PEER, 0)) {
        clients_ask(serve->pair, serve->clients, n);
        meet(serve->pair, PEER); /* the requests are there */
        meet_unattending(serve->pair); /* the server has closed */
        clients_catch_up(serve->pair);
        for (long i = 0; i < n; i++) {
            client_close(serve->pair, serve->clients[i]);
        }
    }
}

/* Each of these does one call to every connection of the batch; false if one was too early. */
static bool accept_all(struct serve *serve)
{
    bool in_time = true;
    for (long i = 0; i < serve->options->batch;) {
        int fd = accept_one(serve->pair->listener);
        if (fd >= 0) {
            serve->server_fds[i++] = fd;
            continue;
        }
        in_time = false;
        await(serve->pair->listener, POLLIN);
    }
    return in_time;
}

static bool accept_again(struct serve *serve)
{
    if (accept_one(serve->pair->listener) >= 0) {
        fail("there are more connections than the peer made");
    }
    return true;
}

static bool add_all(struct serve *serve)
{
    for (long i = 0; i < serve->options->batch; i++) {
        if (serve->served != NULL) {
            watch(serve->served, serve->server_fds[i]);
        } else {
            epoll_control(serve->epoll, EPOLL_CTL_ADD, serve->server_fds[i], EPOLLIN);
        }
    }
    return true;
}

static bool read_all(struct serve *serve)
{
    bool in_time = true;
    for (long i = 0; i < serve->options->batch; i++) {
        while (receive_bytes(serve->server_fds[i], REPLY_BYTES) == 0) {
            in_time = false;
            await(serve->server_fds[i], POLLIN);
        }
    }
    return in_time;
}

static bool read_again_all(struct serve *serve)
{
    for (long i = 0; i < serve->options->batch; i++) {
        if (receive_bytes(serve->server_fds[i], REPLY_BYTES) != 0) {
            fail("a request came in pieces");
        }
    }
    return true;
}

static bool write_all(struct serve *serve)
{
    for (long i = 0; i < serve->options->batch; i++) {
        ssize_t sent = write(serve->server_fds[i], serve->reply, (size_t)serve->options->reply);
        if (sent < 0) {
            fail_errno("write");
        }
        serve->bytes_written += (uint64_t)sent;
    }
    serve->n_writes += (uint64_t)serve->options->batch;
    return true;
}

static bool unwatch_all(struct serve *serve)
{
    for (long i = 0; i < serve->options->batch; i++) {
        unwatch(serve->served, serve->server_fds[i]);
    }
    return true;
}

static bool close_all(struct serve *serve)
{
    for (long i = 0; i < serve->options->batch; i++) {
        close_fd(serve->server_fds[i]);
    }
    return true;
}

static void serve_batch(struct serve *serve, uint64_t overhead)
{
    static bool (*const stages[N_CALLS])(struct serve *) = {
        [CALL_ACCEPT] = accept_all,  [CALL_ACCEPT_AGAIN] = accept_again, [CALL_ADD] = add_all,
        [CALL_READ] = read_all,      [CALL_READ_AGAIN] = read_again_all, [CALL_WRITE] = write_all,
        [CALL_DELETE] = unwatch_all, [CALL_CLOSE] = close_all,
    };
    uint64_t ticks[N_CALLS] = {0};
    bool in_time = true;
    for (int call = 0; call < N_CALLS; call++) {
        if (!is_made(serve, (enum call)call)) {
            continue;
        }
        uint64_t first = ticks_now();
        in_time = stages[call](serve) && in_time;
        uint64_t elapsed = ticks_now() - first;
        ticks[call] = elapsed > overhead ? elapsed - overhead : 0;
    }
    /* A batch that had to wait for a connection or a request is no cost of a call. */
    if (!in_time) {
        return;
    }
    for (int call = 0; call < N_CALLS; call++) {
        if (!is_made(serve, (enum call)call)) {
            continue;
        }
        long n = call == CALL_ACCEPT_AGAIN ? 1 : serve->options->batch;
        samples_add(&serve->samples[call], ticks_to_ns(ticks[call]) / (double)n, (uint64_t)n);
    }
}

static void serve_batches(struct serve *serve, struct waiter *idle)
{
    uint64_t stamp = ticks_now();
    uint64_t overhead = ticks_now() - stamp;
    while (meet_again(serve->pair, SERVER, serve->deadline_ns)) {
        meet(serve->pair, SERVER);
        spin_ns(SETTLE_NS);
        /* The idle connections matter only to a cache that has just been asked for them. */
        if (idle->n > 0) {
            waiter_check(idle);
        }
        serve_batch(serve, overhead);
        meet(serve->pair, SERVER);
    }
}

static void print_calls(struct serve *serve)
{
    char extra[EXTRA_MAX];
    (void)snprintf(extra, sizeof extra, ", \"bytes_written\": %.1f",
                   (double)serve->bytes_written / (double)(serve->n_writes + !serve->n_writes));
    for (int call = 0; call < N_CALLS; call++) {
        if (is_made(serve, (enum call)call)) {
            samples_print(&serve->samples[call], serve->options, name_of(serve, (enum call)call),
                          call == CALL_WRITE ? extra : "");
        }
        samples_close(&serve->samples[call]);
    }
}

void bench_serve_calls(const struct options *options)
{
    struct pair pair;
    struct connections idle;
    struct waiter waiter;
    if (options->mechanism == MECHANISM_SELECT || options->mechanism == MECHANISM_POLL) {
        fail_usage("serve_calls --mechanism must be none, epoll or one of the server's, got %s",
                   mechanism_name(options->mechanism));
    }
    pair_open(&pair, options, options->n + options->batch + SPARE_DESCRIPTORS);
    connections_open(&idle, &pair, options->n);
    waiter_open(&waiter, MECHANISM_POLL, idle.server_fds, idle.n);
    struct serve serve = {
        .pair = &pair,
        .options = options,
        .server_fds = allocate((size_t)options->batch, sizeof(int)),
        .clients = allocate((size_t)options->batch, sizeof(int)),
        .reply = allocate((size_t)options->reply, 1),
        .epoll = options->mechanism == MECHANISM_EPOLL ? epoll_open() : -1,
        .deadline_ns = now_ns() + (uint64_t)options->milliseconds * 1000000u,
    };
    if (options->mechanism > MECHANISM_EPOLL) {
        serve.served = watched_open(options, options->n + options->batch + SPARE_DESCRIPTORS);
    }
    for (int call = 0; call < N_CALLS; call++) {
        samples_open(&serve.samples[call]);
    }
    peer_start(&pair, send_requests, &serve);
    serve_batches(&serve, &waiter);
    peer_finish(&pair);
    print_calls(&serve);
    if (serve.epoll >= 0) {
        close_fd(serve.epoll);
    }
    if (serve.served != NULL) {
        served_close(serve.served);
    }
    free(serve.server_fds);
    free(serve.clients);
    free(serve.reply);
    waiter_close(&waiter);
    connections_close(&idle, &pair);
    pair_close(&pair);
}
