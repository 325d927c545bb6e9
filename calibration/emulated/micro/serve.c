/* The system calls of a server, in batches, each alone: no packet comes while they are timed.
 *
 *     connect x B, request x B | accept x B | tick | add x B | tick | read x B | tick | ...
 *
 * The clients are so far away that what they answer comes when all is over. */
#include "far_end.h"

#include <stdlib.h>
#include <sys/epoll.h>

enum { ALL_NS_MAX = 25000 }; /* a bound of what a connection takes from accept to close */

enum call {
    CALL_ACCEPT,
    CALL_ACCEPT_AGAIN,
    CALL_ADD,
    CALL_READ,
    CALL_READ_AGAIN,
    CALL_PARSE,
    CALL_WRITE,
    CALL_MODIFY,
    CALL_DELETE,
    CALL_CLOSE,
    CALL_ALL,
    N_CALLS
};

static const char *const call_names[N_CALLS] = {
    [CALL_ACCEPT] = "serve_accept",
    [CALL_ACCEPT_AGAIN] = "serve_accept_again",
    [CALL_ADD] = "serve_epoll_add",
    [CALL_READ] = "serve_read",
    [CALL_READ_AGAIN] = "serve_read_again",
    [CALL_PARSE] = "serve_parse",
    [CALL_WRITE] = "serve_write",
    [CALL_MODIFY] = "serve_epoll_mod",
    [CALL_DELETE] = "serve_epoll_del",
    [CALL_CLOSE] = "serve_close",
    [CALL_ALL] = "serve_all",
};

struct serve {
    struct pair *pair;
    const struct options *options;
    int *fds;
    int epoll;             /* -1: not by epoll_ctl itself */
    struct served *served; /* NULL: not by a mechanism of the server */
    int repetition;
    struct samples samples[N_CALLS];
};

static bool is_made(const struct serve *serve, enum call call)
{
    if (call == CALL_MODIFY) {
        return serve->epoll >= 0; /* of the server's mechanisms most have no such call */
    }
    bool of_watching = call == CALL_ADD || call == CALL_DELETE;
    return !of_watching || serve->epoll >= 0 || serve->served != NULL;
}

static const char *name_of(const struct serve *serve, enum call call)
{
    if (serve->served != NULL && call == CALL_ADD) {
        return "serve_watch";
    }
    if (serve->served != NULL && call == CALL_DELETE) {
        return "serve_unwatch";
    }
    return call_names[call];
}

static void do_call(struct serve *serve, enum call call, long i)
{
    static const char text[] =
        "GET /128 HTTP/1.0\r\nX: 3456789012345678901234567890123456789\r\n\r\n";
    int fd = serve->fds[i];
    switch (call) {
    case CALL_ACCEPT:
        serve->fds[i] = accept_one(serve->pair->listener);
        if (serve->fds[i] < 0) {
            fail("a connection did not come in time");
        }
        break;
    case CALL_ACCEPT_AGAIN:
        if (accept_one(serve->pair->listener) >= 0) {
            fail("there are more connections than the clients made");
        }
        break;
    case CALL_ADD:
        if (serve->served != NULL) {
            watch(serve->served, fd);
        } else {
            epoll_control(serve->epoll, EPOLL_CTL_ADD, fd, EPOLLIN);
        }
        break;
    case CALL_READ:
        take_request(fd);
        break;
    case CALL_READ_AGAIN:
        if (receive_bytes(fd, REPLY_BYTES) != 0) {
            fail("a request came in pieces");
        }
        break;
    case CALL_PARSE:
        if (!served_parse(text, sizeof text - 1)) {
            fail("a request is not understood");
        }
        break;
    case CALL_WRITE:
        reply(fd, serve->options->reply);
        break;
    case CALL_MODIFY:
        epoll_control(serve->epoll, EPOLL_CTL_MOD, fd, EPOLLIN);
        break;
    case CALL_DELETE:
        if (serve->served != NULL) {
            unwatch(serve->served, fd);
        } else {
            epoll_control(serve->epoll, EPOLL_CTL_DEL, fd, 0);
        }
        break;
    case CALL_CLOSE:
        close_fd(fd);
        break;
    default:
        break;
    }
}

/* One call to every connection of the batch. */
static void time_call(struct serve *serve, enum call call)
{
    long n = call == CALL_ACCEPT_AGAIN ? 1 : serve->options->batch;
    if (!is_made(serve, call)) {
        return;
    }
    await_quiet((uint64_t)n * PACKET_NS_MAX);
    uint64_t first = ticks_now();
    for (long i = 0; i < n; i++) {
        do_call(serve, call, i);
    }
    uint64_t ticks = ticks_now() - first;
    add_warm(&serve->samples[call], serve->repetition, (double)ticks / (double)n, (uint64_t)n);
}

static void come(struct serve *serve)
{
    long n = serve->options->batch;
    uint64_t flight_ns = far_end_delay_ns() + (uint64_t)n * PACKET_NS_MAX + SETTLE_NS;
    uint64_t due_ns = monotonic_ns() + flight_ns;
    uint64_t first = clients_connect(n, due_ns, 0);
    sleep_until(due_ns + 2 * flight_ns);
    due_ns = monotonic_ns() + flight_ns;
    clients_send(first, n, due_ns, 0, 0, serve->options->reply);
    sleep_until(due_ns + flight_ns);
}

static void go(const struct serve *serve)
{
    /* The resets that answer the replies; sockets and timers are gone after them. */
    sleep_until(monotonic_ns() + 2 * far_end_delay_ns() +
                (uint64_t)serve->options->batch * PACKET_NS_MAX + SETTLE_NS);
}

/* The calls alternating, as the server makes them: is the whole the sum of its parts? */
static void time_all(struct serve *serve)
{
    static const enum call in_turn[] = {CALL_READ, CALL_PARSE, CALL_WRITE, CALL_DELETE, CALL_CLOSE};
    long n = serve->options->batch;
    come(serve);
    await_quiet((uint64_t)n * ALL_NS_MAX);
    uint64_t first = ticks_now();
    for (long i = 0; i < n; i++) {
        do_call(serve, CALL_ACCEPT, i);
        if (is_made(serve, CALL_ADD)) {
            do_call(serve, CALL_ADD, i);
        }
    }
    for (long i = 0; i < n; i++) {
        for (size_t k = 0; k < sizeof in_turn / sizeof in_turn[0]; k++) {
            if (is_made(serve, in_turn[k])) {
                do_call(serve, in_turn[k], i);
            }
        }
    }
    uint64_t ticks = ticks_now() - first;
    add_warm(&serve->samples[CALL_ALL], serve->repetition, (double)ticks / (double)n, (uint64_t)n);
    go(serve);
}

void bench_far_serve(const struct options *options)
{
    struct pair pair;
    struct connections others;
    long n = options->batch;
    uint64_t delay = DELAY_NS + N_CALLS * tick_period_ns();
    pair_open_delayed(&pair, options, n + options->n + SPARE_DESCRIPTORS, delay);
    struct serve serve = {
        .pair = &pair,
        .options = options,
        .fds = allocate((size_t)n, sizeof(int)),
        .epoll = options->mechanism == MECHANISM_EPOLL ? epoll_open() : -1,
    };
    if (options->mechanism > MECHANISM_EPOLL) {
        serve.served = watched_open(options, n + options->n + SPARE_DESCRIPTORS);
    }
    connections_open(&others, &pair, options->n);
    for (long i = 0; serve.epoll >= 0 && i < others.n; i++) {
        epoll_control(serve.epoll, EPOLL_CTL_ADD, others.server_fds[i], EPOLLIN);
    }
    for (long i = 0; serve.served != NULL && i < others.n; i++) {
        watch(serve.served, others.server_fds[i]);
    }
    for (int call = 0; call < N_CALLS; call++) {
        samples_open(&serve.samples[call]);
    }
    for (serve.repetition = 0; serve.repetition < REPETITIONS; serve.repetition++) {
        come(&serve);
        for (int call = CALL_ACCEPT; call <= CALL_CLOSE; call++) {
            time_call(&serve, (enum call)call);
        }
        go(&serve);
        time_all(&serve);
    }
    for (int call = 0; call < N_CALLS; call++) {
        if (serve.samples[call].n > 0) {
            print_mean(&serve.samples[call], options, name_of(&serve, (enum call)call), "");
        }
        samples_close(&serve.samples[call]);
    }
    if (serve.epoll >= 0) {
        close_fd(serve.epoll);
    }
    if (serve.served != NULL) {
        served_close(serve.served);
    }
    free(serve.fds);
    connections_close(&others, &pair);
    pair_close(&pair);
}
