/* What a connection costs more among many that wait for a server than among few.
 *
 *     peer     connect x N, request x N |                                             | reset x N
 *     server   spins                    | accept, watch x N | wait | read, write, close x 1024 | ...
 *                                       |<------------------------ timed ----------------------->
 *
 * A server past its capacity accepts all that wait, and then serves them in their order. Between
 * the packets of a connection, its accept, its event and its reply, the server has handled many
 * others: with thousands their data have left the caches. Batches of FEW and of N take turns, so that
 * both find the same neighbours on the host. Only the last batch of a size counts: the first ones
 * find the caches and the allocator's lists as the other size has left them. */
#include "clients.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

enum {
    SPARE_DESCRIPTORS = 100,
    SETTLE_NS = 100000,
    SETTLE_NS_PER_CLIENT = 15000,
    FEW = 64,
    BATCHES_FEW = 6,
    TURN = BATCHES_FEW + 2 /* batches, the last two of N */
};

struct crowd {
    struct pair *pair;
    const struct options *options;
    int *clients;
    int epoll;
    struct epoll_event *events;
    char *reply;
    uint64_t deadline_ns;
    double few_ns; /* of the last batch of few; 0: there was none, or one came too late */
    struct samples more, few, many;
};

static long size_of(const struct crowd *crowd, long number)
{
    return number % TURN < BATCHES_FEW ? FEW : crowd->options->batch;
}

/* Whether batch `number` is the last one of its size in this turn. */
static bool counts(long number)
{
    return number % TURN == BATCHES_FEW - 1 || number % TURN == TURN - 1;
}

static void send_requests(void *context)
{
    const struct crowd *crowd = context;
    for (long number = 0; meet_again(crowd->pair, PEER, 0); number++) {
        long n = size_of(crowd, number);
        clients_ask(crowd->pair, crowd->clients, n);
        for (long i = 0; i < n; i++) {
            client_await_acknowledged(crowd->pair, crowd->clients[i]);
        }
        meet(crowd->pair, PEER); /* the requests are there */
        meet_unattending(crowd->pair); /* the server has closed */
        clients_catch_up(crowd->pair);
        for (long i = 0; i < n; i++) {
            client_close(crowd->pair, crowd->clients[i]);
        }
    }
}

/* Accept and watch all; false if a connection came too late. */
static bool accept_all(const struct crowd *crowd, long n)
{
    bool in_time = true;
    for (long i = 0; i < n;) {
        int fd = accept_one(crowd->pair->listener);
        if (fd >= 0) {
            epoll_control(crowd->epoll, EPOLL_CTL_ADD, fd, EPOLLIN);
            i++;
            continue;
        }
        in_time = false;
        await(crowd->pair->listener, POLLIN);
    }
    return in_time;
}

/* Read, write and close each that is ready; false if a request came too late. */
static bool serve_all(const struct crowd *crowd, long n)
{
    size_t bytes = (size_t)crowd->options->reply;
    bool in_time = true;
    while (n > 0) {
        int n_ready = epoll_wait(crowd->epoll, crowd->events, EVENTS_MAX, -1);
        if (n_ready < 0) {
            fail_errno("epoll_wait");
        }
        in_time = in_time && n_ready == (n < EVENTS_MAX ? n : EVENTS_MAX);
        for (int i = 0; i < n_ready; i++) {
            int fd = crowd->events[i].data.fd;
            if (receive_bytes(fd, REPLY_BYTES) == 0) {
                fail("a readable connection had no bytes");
            }
            if (write(fd, crowd->reply, bytes) < 0) {
                fail_errno("write");
            }
            close_fd(fd);
        }
        n -= n_ready;
    }
    return in_time;
}

/* The time of a connection in a batch of n; 0 if one came too late. */
static double batch_ns(const struct crowd *crowd, long n)
{
    uint64_t first = ticks_now();
    bool in_time = accept_all(crowd, n);
    in_time = serve_all(crowd, n) && in_time;
    double ns = ticks_to_ns(ticks_now() - first) / (double)n;
    return in_time ? ns : 0.0;
}

static void note(struct crowd *crowd, long n, double ns)
{
    if (n == FEW) {
        crowd->few_ns = ns;
    } else if (ns > 0 && crowd->few_ns > 0) {
        samples_add(&crowd->few, crowd->few_ns, FEW);
        samples_add(&crowd->many, ns, (uint64_t)n);
        samples_add(&crowd->more, ns - crowd->few_ns, (uint64_t)n);
    }
}

/* serve_crowded */
void bench_crowded(const struct options *options)
{
    struct pair pair;
    struct crowd crowd = {.pair = &pair, .options = options};
    char extra[EXTRA_MAX];
    if (options->batch <= FEW) {
        fail_usage("serve_crowded: --batch must be above %d", FEW);
    }
    pair_open(&pair, options, 2 * options->batch + SPARE_DESCRIPTORS);
    crowd.epoll = epoll_open();
    crowd.events = allocate(EVENTS_MAX, sizeof *crowd.events);
    crowd.clients = allocate((size_t)options->batch, sizeof(int));
    crowd.reply = allocate((size_t)options->reply, 1);
    samples_open(&crowd.more);
    samples_open(&crowd.few);
    samples_open(&crowd.many);
    crowd.deadline_ns = now_ns() + (uint64_t)options->milliseconds * 1000000u;
    peer_start(&pair, send_requests, &crowd);
    /* One turn at least, however little time there is. */
    for (long number = 0; meet_again(&pair, SERVER, number < TURN ? UINT64_MAX : crowd.deadline_ns);
         number++) {
        long n = size_of(&crowd, number);
        meet(&pair, SERVER);
        spin_ns(SETTLE_NS + (double)n * SETTLE_NS_PER_CLIENT);
        double ns = batch_ns(&crowd, n);
        if (counts(number)) {
            note(&crowd, n, ns);
        }
        meet(&pair, SERVER);
    }
    peer_finish(&pair);
    (void)snprintf(extra, sizeof extra, ", \"few_ns\": %.1f, \"many_ns\": %.1f",
                   samples_median(&crowd.few), samples_median(&crowd.many));
    samples_print(&crowd.more, options, "serve_crowded", extra);
    samples_close(&crowd.more);
    samples_close(&crowd.few);
    samples_close(&crowd.many);
    close_fd(crowd.epoll);
    free(crowd.events);
    free(crowd.clients);
    free(crowd.reply);
    pair_close(&pair);
}
