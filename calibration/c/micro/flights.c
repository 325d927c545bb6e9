/* The server's CPU time for a long reply, flight by flight, until all of it is acknowledged.
 *
 *     peer     connect, request |          reads ... reads ... reads all | settling | reset
 *     server   accepts, reads   | write | clock, clock, ..GAP.., write | clock, ..GAP.. |
 *
 * A write that finds room takes time, and so do gaps between two readings of the clock: interrupts,
 * which take acknowledgements, send what the window then allows, and receive it for the peer, whose
 * packets are handled where they are sent. Waiting for acknowledgements is no cost. A connection
 * serves once, so that each begins with the same window, and the kernel has counted for it what
 * came and went. */
#include "clients.h"
#include "flights.h"

#include <errno.h>
#include <netinet/in.h>
#include <linux/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    SPARE_DESCRIPTORS = 100,
    GAP_NS_MIN = 400,   /* a reading takes some 20 ns, an interrupt 1 us and more */
    CALM_NS = 100000,   /* before the write */
    SETTLE_NS = 100000, /* after the last byte has been read: acknowledgements come late */
};

struct flights {
    struct pair *pair;
    const struct options *options;
    char *reply;
    uint64_t deadline_ns;
    _Alignas(CACHE_LINE) atomic_bool over; /* the reply has been read, and all is calm again */
};

/* Of all replies. */
struct tally {
    struct samples busy, written, gaps;
    uint64_t n, n_gaps, segments_out, segments_in;
};

static void take_reply(struct flights *flights, int client)
{
    for (size_t left = (size_t)flights->options->reply; left > 0;) {
        client_await_data(flights->pair, client);
        left -= client_receive(flights->pair, client, left);
    }
}

static void ask_for_replies(void *context)
{
    struct flights *flights = context;
    while (meet_again(flights->pair, PEER, 0)) {
        int client = client_open(flights->pair);
        client_connect(flights->pair, client);
        (void)client_await_open(flights->pair, client);
        client_send(flights->pair, client, REQUEST_BYTES);
        meet(flights->pair, PEER); /* the request is there */
        take_reply(flights, client);
        clients_spin(flights->pair, SETTLE_NS);
        atomic_store(&flights->over, true);
        meet(flights->pair, PEER); /* the server has closed */
        client_close(flights->pair, client);
    }
}

static struct tcp_info info_of(int fd)
{
    struct tcp_info info;
    socklen_t length = sizeof info;
    if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &length) != 0) {
        fail_errno("TCP_INFO");
    }
    return info;
}

static int accept_asker(struct flights *flights)
{
    int fd;
    while ((fd = accept_one(flights->pair->listener)) < 0) {
        await(flights->pair->listener, POLLIN);
    }
    for (size_t n = 0; n < REQUEST_BYTES;) {
        n += receive_bytes(fd, REQUEST_BYTES - n);
    }
    return fd;
}

/* Write what finds room; return how many bytes, and add the ticks if there were any. */
static size_t write_some(struct flights *flights, int fd, size_t from, uint64_t *ticks)
{
    size_t left = (size_t)flights->options->reply - from;
    uint64_t first = ticks_now();
    ssize_t sent = left > 0 ? write(fd, flights->reply + from, left) : 0;
    if (sent < 0 && errno != EAGAIN) {
        fail_errno("write");
    }
    if (sent <= 0) {
        return 0;
    }
    *ticks += ticks_now() - first;
    return (size_t)sent;
}

static void serve_one(struct flights *flights, int fd, struct tally *tally)
{
    uint64_t gap_min = ns_to_ticks(GAP_NS_MIN), written = 0, stolen = 0, n_gaps = 0;
    struct tcp_info before = info_of(fd);
    size_t sent = write_some(flights, fd, 0, &written);
    uint64_t last = ticks_now();
    while (!atomic_load_explicit(&flights->over, memory_order_relaxed)) {
        uint64_t now = ticks_now(), gap = now - last;
        last = now;
        if (gap < gap_min) {
            continue;
        }
        stolen += gap;
        n_gaps++;
        /* Acknowledgements may have made room: a write that fails with EAGAIN is not counted. */
        sent += write_some(flights, fd, sent, &written);
        last = ticks_now();
    }
    if (sent != (size_t)flights->options->reply) {
        fail("only %zu of %ld bytes were written", sent, flights->options->reply);
    }
    struct tcp_info after = info_of(fd);
    samples_add(&tally->busy, ticks_to_ns(written + stolen), 1);
    samples_add(&tally->written, ticks_to_ns(written), 1);
    samples_add(&tally->gaps, (double)n_gaps, 1);
    tally->n++;
    tally->segments_out += after.tcpi_segs_out - before.tcpi_segs_out;
    tally->segments_in += after.tcpi_segs_in - before.tcpi_segs_in;
}

static void serve_all(struct flights *flights, struct tally *tally)
{
    while (meet_again(flights->pair, SERVER, flights->deadline_ns)) {
        atomic_store(&flights->over, false);
        int fd = accept_asker(flights);
        spin_ns(CALM_NS);
        meet(flights->pair, SERVER);
        serve_one(flights, fd, tally);
        close_fd(fd);
        meet(flights->pair, SERVER);
    }
}

/* write_flights */
void bench_flights(const struct options *options)
{
    struct pair pair;
    struct tally tally = {0};
    char extra[EXTRA_MAX];
    pair_open(&pair, options, SPARE_DESCRIPTORS);
    struct flights flights = {
        .pair = &pair,
        .options = options,
        .reply = allocate((size_t)options->reply, 1),
        .deadline_ns = now_ns() + (uint64_t)options->milliseconds * 1000000u,
    };
    samples_open(&tally.busy);
    samples_open(&tally.written);
    samples_open(&tally.gaps);
    peer_start(&pair, ask_for_replies, &flights);
    serve_all(&flights, &tally);
    peer_finish(&pair);
    double n = (double)(tally.n > 0 ? tally.n : 1);
    (void)snprintf(extra, sizeof extra,
                   ", \"written_ns\": %.2f, \"interrupts_per_operation\": %.3f, "
                   "\"segments_out\": %.3f, \"segments_in\": %.3f",
                   samples_median(&tally.written), samples_median(&tally.gaps),
                   (double)tally.segments_out / n, (double)tally.segments_in / n);
    samples_print(&tally.busy, options, options->bench->name, extra);
    samples_close(&tally.busy);
    samples_close(&tally.written);
    samples_close(&tally.gaps);
    free(flights.reply);
    pair_close(&pair);
}
