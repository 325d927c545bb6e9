/* The cost of repeating a connection request without a reply, for the load generator's kernel.
 *
 *     peer      connect x B, reads the clock ........GAPS........ reads the clock | as long, quiet
 *     server    its queue is full, it drops all      1 s later
 *
 * The requests of a batch are lost within some milliseconds. Timers of the peer's CPU repeat them
 * together: the time missing then, less the time missing in an equal window without them, is the
 * cost of all. */
#include "clients.h"

#include <sys/socket.h>

#include <stdlib.h>

enum { SPARE_DESCRIPTORS = 100, GAP_NS_MIN = 400 /* as in interrupt.c */ };

/* From the first connect to the window: Linux waits for 1 s, and its timers are up to 36 ms late
 * then. A window that is not longer than it must be has less of the neighbours in it. */
static const uint64_t before_ns = 995000000u;
static const uint64_t window_ns = 65000000u;

struct again {
    struct pair *pair;
    const struct options *options;
    int *clients;
    uint64_t deadline_ns;
    struct samples samples;
};

/* Read the clock until then; return what is missing in it, in ns. */
static double robbed_until(const struct pair *pair, uint64_t until_ns)
{
    uint64_t gap_min = ns_to_ticks(GAP_NS_MIN), stolen = 0, last = ticks_now();
    uint64_t end = last + ns_to_ticks((double)until_ns - (double)now_ns());
    while (last < end) {
        (void)clients_attend(pair); /* a timer of the client machine is a gap, too */
        uint64_t now = ticks_now(), gap = now - last;
        last = now;
        stolen += gap < gap_min ? 0 : gap;
    }
    return ticks_to_ns(stolen);
}

static void connect_in_vain(struct again *again)
{
    long n = again->options->batch;
    uint64_t first_ns = now_ns();
    for (long i = 0; i < n; i++) {
        again->clients[i] = client_open(again->pair);
        client_connect(again->pair, again->clients[i]);
    }
    (void)robbed_until(again->pair, first_ns + before_ns);
    double busy_ns = robbed_until(again->pair, first_ns + before_ns + window_ns);
    double quiet_ns = robbed_until(again->pair, first_ns + before_ns + 2 * window_ns);
    samples_add(&again->samples, (busy_ns - quiet_ns) / (double)n, (uint64_t)n);
    for (long i = 0; i < n; i++) {
        client_close(again->pair, again->clients[i]);
    }
}

static void repeat_requests(void *context)
{
    struct again *again = context;
    int in_the_way = client_open(again->pair);
    client_connect(again->pair, in_the_way);
    (void)client_await_open(again->pair, in_the_way);
    while (meet_again(again->pair, PEER, 0)) {
        connect_in_vain(again);
    }
    client_close(again->pair, in_the_way);
}

void bench_client_again(const struct options *options)
{
    struct pair pair;
    pair_open(&pair, options, options->batch + SPARE_DESCRIPTORS);
    struct again again = {
        .pair = &pair,
        .options = options,
        .clients = allocate((size_t)options->batch, sizeof(int)),
        .deadline_ns = now_ns() + (uint64_t)options->milliseconds * 1000000u,
    };
    if (listen(pair.listener, 0) != 0) {
        fail_errno("listen");
    }
    samples_open(&again.samples);
    peer_start(&pair, repeat_requests, &again);
    while (meet_again(&pair, SERVER, again.deadline_ns))
        ;
    peer_finish(&pair);
    samples_print(&again.samples, options, options->bench->name, "");
    samples_close(&again.samples);
    free(again.clients);
    pair_close(&pair);
}
