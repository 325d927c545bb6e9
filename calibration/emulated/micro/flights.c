/* The CPU's time for a long reply, until all of it is acknowledged.
 *
 *     request | tick | write | clock, clock, ..gap.. [write], clock, ..gap.., ...
 *
 * The gaps are interrupts: they take acknowledgements and send what the window then allows. As an
 * event loop does, the bench writes on once poll() reports room. Each connection serves one reply,
 * so all begin with the same window. */
#include "far_end.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum {
    SEGMENT_NS_MAX = 20000,    /* a bound of what a segment and its acknowledgement take */
    LAST_ACK_NS_MAX = 45000000 /* the client delays the acknowledgement of an odd segment */
};

struct flights {
    const char *reply;
    size_t bytes, sent;
    int fd;
    uint64_t written; /* ticks of writes */
    double n_writes, first_bytes;
};

static void write_some(struct flights *flights)
{
    uint64_t first = ticks_now();
    ssize_t sent =
        write(flights->fd, flights->reply + flights->sent, flights->bytes - flights->sent);
    uint64_t ticks = ticks_now() - first;
    if (sent < 0) {
        fail_errno("write");
    }
    flights->written += ticks;
    flights->first_bytes = flights->n_writes > 0 ? flights->first_bytes : (double)sent;
    flights->n_writes++;
    flights->sent += (size_t)sent;
}

static void write_on(void *context)
{
    struct flights *flights = context;
    struct pollfd room = {.fd = flights->fd, .events = POLLOUT};
    if (flights->sent < flights->bytes && poll(&room, 1, 0) == 1) {
        write_some(flights);
    }
}

static void ask(const struct connections *connections, long bytes)
{
    uint64_t due_ns = monotonic_ns() + far_end_delay_ns() + SETTLE_NS;
    clients_send((uint64_t)connections->clients[0], 1, due_ns, 0, WIRE_KEEP_ALIVE, bytes);
    sleep_until(due_ns + PACKET_NS_MAX + SETTLE_NS);
    take_request(connections->server_fds[0]);
}

/* write_flights */
void bench_far_flights(const struct options *options)
{
    struct pair pair;
    struct gaps gaps;
    struct samples busy, written, entries, writes, firsts, packets, answers;
    struct samples *const all[] = {&busy, &written, &entries, &writes, &firsts, &packets, &answers};
    char extra[EXTRA_MAX];
    char *reply = allocate((size_t)options->reply, 1);
    uint64_t most_ns =
        20 * DELAY_NS + SETTLE_NS + (uint64_t)options->reply / 1000u * SEGMENT_NS_MAX;
    pair_open(&pair, options, SPARE_DESCRIPTORS);
    gaps_open(&gaps);
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        samples_open(all[i]);
    }
    for (int i = 0; i < REPETITIONS; i++) {
        struct connections connections;
        connections_open(&connections, &pair, 1);
        struct flights flights = {
            .reply = reply, .bytes = (size_t)options->reply, .fd = connections.server_fds[0]};
        ask(&connections, options->reply);
        await_quiet(most_ns);
        struct wire_status before = far_end_status();
        write_some(&flights);
        uint64_t first_ns = monotonic_ns();
        gaps_record_doing(&gaps, first_ns + most_ns, write_on, &flights);
        struct wire_status after = far_end_status();
        if (flights.sent != flights.bytes) {
            fail("only %zu of %ld bytes were written", flights.sent, options->reply);
        }
        struct theft theft = gaps_between(&gaps, first_ns, first_ns + most_ns);
        add_warm(&busy, i, (double)flights.written + theft.ns, 1);
        add_warm(&written, i, (double)flights.written, 1);
        add_warm(&entries, i, theft.n, 1);
        add_warm(&writes, i, flights.n_writes, 1);
        add_warm(&firsts, i, flights.first_bytes, 1);
        add_warm(&packets, i, (double)(after.n_packets_to_server - before.n_packets_to_server), 1);
        add_warm(&answers, i, (double)(after.n_packets_from_server - before.n_packets_from_server),
                 1);
        sleep_until(monotonic_ns() + LAST_ACK_NS_MAX);
        connections_close(&connections, &pair);
    }
    (void)snprintf(extra, sizeof extra,
                   ", \"written_ns\": %.2f, \"interrupts_per_operation\": %.3f, "
                   "\"writes_per_operation\": %.3f, \"first_write_bytes\": %.1f, "
                   "\"segments_in\": %.3f, \"segments_out\": %.3f",
                   samples_mean(&written), samples_mean(&entries), samples_mean(&writes),
                   samples_mean(&firsts), samples_mean(&packets), samples_mean(&answers));
    print_mean(&busy, options, options->bench->name, extra);
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        samples_close(all[i]);
    }
    gaps_close(&gaps);
    free(reply);
    pair_close(&pair);
}
