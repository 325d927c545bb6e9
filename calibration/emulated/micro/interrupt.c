/* What incoming packets take from a busy CPU: one gap an interrupt, exact to the instruction.
 *
 *     prepare | tick | ......gap(burst)...... |
 *                    ^ due: all b packets at once, so one interrupt and one poll for many
 */
#include "far_end.h"

#include <string.h>
#include <sys/socket.h>

enum {
    EARLY_NS = 3000, /* looking at the counters takes some time, too */
    BYTES_BEFORE = 2 /* the first of them queues a signal, or finds the queue full */
};

static struct window window_of(uint64_t due_ns, long n)
{
    return (struct window){due_ns - EARLY_NS, due_ns + (uint64_t)n * PACKET_NS_MAX + SETTLE_NS};
}

/* Bytes that are not read: the kernel has reported each connection, or could not. */
static void send_before(const struct connections *connections)
{
    for (int i = 0; i < BYTES_BEFORE; i++) {
        uint64_t due_ns = monotonic_ns() + far_end_delay_ns() + SETTLE_NS;
        clients_send((uint64_t)connections->clients[0], connections->n, due_ns, 0, WIRE_RAW, 0);
        sleep_until(due_ns + (uint64_t)connections->n * PACKET_NS_MAX + SETTLE_NS);
    }
}

/* Packets on connections that were accepted; of interrupt_data_queued: that still wait for it; of
 * interrupt_data_more: with bytes that were not read, or reported by signals, yet. */
void bench_far_interrupt(const struct options *options)
{
    struct pair pair;
    struct connections others;
    struct gaps gaps;
    struct thefts thefts;
    bool queued = strcmp(options->bench->name, "interrupt_data_queued") == 0;
    bool more = strcmp(options->bench->name, "interrupt_data_more") == 0;
    long n = options->burst;
    pair_open(&pair, options, n + options->n + SPARE_DESCRIPTORS);
    connections_open(&others, &pair, options->n);
    struct served *served = NULL;
    if (options->mechanism != MECHANISM_NONE) {
        served = watched_open(options, n + options->n + SPARE_DESCRIPTORS);
    }
    gaps_open(&gaps);
    thefts_open(&thefts);
    for (int i = 0; i < REPETITIONS; i++) {
        struct connections connections;
        connections_queue(&connections, n);
        if (!queued) {
            connections_accept(&connections, &pair);
        }
        for (long k = 0; served != NULL && k < n; k++) {
            watch(served, connections.server_fds[k]);
        }
        if (more) {
            send_before(&connections);
        }
        await_quiet(window_of(0, n).to_ns + far_end_delay_ns() + SETTLE_NS);
        struct window window = window_of(monotonic_ns() + far_end_delay_ns() + SETTLE_NS, n);
        uint64_t first = (uint64_t)connections.clients[0];
        clients_send(first, n, window.from_ns + EARLY_NS, 0, more ? WIRE_RAW : WIRE_KEEP_ALIVE,
                     options->reply);
        be_robbed(&gaps, window, n, i, &thefts);
        for (long k = 0; served != NULL && k < n; k++) {
            unwatch(served, connections.server_fds[k]);
        }
        if (queued) {
            connections_accept(&connections, &pair);
        }
        connections_close(&connections, &pair);
        discard_signals();
    }
    thefts_print(&thefts, options, options->bench->name);
    if (served != NULL) {
        served_close(served);
    }
    gaps_close(&gaps);
    connections_close(&others, &pair);
    pair_close(&pair);
}

static void accept_and_end(struct pair *pair, uint64_t first, long n)
{
    struct connections connections = {
        .n = n,
        .server_fds = allocate((size_t)n, sizeof(int)),
        .clients = allocate((size_t)n, sizeof(int)),
    };
    for (long i = 0; i < n; i++) {
        connections.clients[i] = (int)first + (int)i;
    }
    connections_accept(&connections, pair);
    connections_close(&connections, pair);
}

/* interrupt_connect: the SYNs at once, then the acknowledgements that end the handshakes. */
void bench_far_connect(const struct options *options)
{
    struct pair pair;
    struct connections others;
    struct gaps gaps;
    struct thefts syns, acks;
    long n = options->burst;
    /* All SYNs are handled before the first answer comes back. */
    uint64_t delay = DELAY_NS + (uint64_t)n * PACKET_NS_MAX / 2;
    pair_open_delayed(&pair, options, n + options->n + SPARE_DESCRIPTORS, delay);
    connections_open(&others, &pair, options->n);
    struct served *served = NULL;
    if (options->mechanism != MECHANISM_NONE) {
        served = watched_open(options, n + options->n + SPARE_DESCRIPTORS);
        watch(served, pair.listener);
    }
    gaps_open(&gaps);
    thefts_open(&syns);
    thefts_open(&acks);
    for (int i = 0; i < REPETITIONS; i++) {
        await_quiet(4 * delay + 2 * SETTLE_NS);
        uint64_t due_ns = monotonic_ns() + delay + SETTLE_NS;
        uint64_t first = clients_connect(n, due_ns, 0);
        uint64_t middle_ns = due_ns + 2 * delay - EARLY_NS;
        be_robbed(&gaps, (struct window){due_ns - EARLY_NS, middle_ns}, n, i, &syns);
        be_robbed(&gaps, (struct window){middle_ns, middle_ns + delay + SETTLE_NS}, n, i, &acks);
        accept_and_end(&pair, first, n);
    }
    thefts_print(&syns, options, "interrupt_syn");
    thefts_print(&acks, options, "interrupt_ack");
    if (served != NULL) {
        served_close(served);
    }
    gaps_close(&gaps);
    connections_close(&others, &pair);
    pair_close(&pair);
}

/* interrupt_syn_dropped: SYNs that find the accept queue full. They will be sent again for many
 * seconds, so nothing should be measured in this guest afterwards. */
void bench_far_dropped(const struct options *options)
{
    struct pair pair;
    struct connections queued;
    struct gaps gaps;
    struct thefts thefts;
    long n = options->burst;
    pair_open(&pair, options, SPARE_DESCRIPTORS);
    connections_queue(&queued, 2); /* one more than the backlog is full */
    if (listen(pair.listener, 1) != 0) {
        fail_errno("listen");
    }
    gaps_open(&gaps);
    thefts_open(&thefts);
    for (int i = 0; i < REPETITIONS; i++) {
        await_quiet(tick_period_ns() / 2);
        uint64_t due_ns = monotonic_ns() + far_end_delay_ns() + SETTLE_NS;
        (void)clients_connect(n, due_ns, 0);
        struct window window = window_of(due_ns, n);
        be_robbed(&gaps, window, n, i, &thefts);
    }
    thefts_print(&thefts, options, options->bench->name);
    gaps_close(&gaps);
    pair_close(&pair);
}
