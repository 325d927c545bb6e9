/* Connections whose other ends are scripted clients. A peer's "descriptor" is its number. */
#include "far_end.h"

#include <stdlib.h>

/* At most as many at once as the listener's queue takes. */
enum { CHUNK = 2048, GAP_NS = 20000 };

static void knock(struct connections *connections, long from, long n)
{
    uint64_t due_ns = monotonic_ns() + far_end_delay_ns() + SETTLE_NS;
    uint64_t first = clients_connect(n, due_ns, GAP_NS);
    for (long i = 0; i < n; i++) {
        connections->clients[from + i] = (int)first + (int)i;
    }
    sleep_until(due_ns + (uint64_t)n * GAP_NS + 2 * far_end_delay_ns() + SETTLE_NS);
}

static void let_in(struct connections *connections, const struct pair *pair, long from, long n)
{
    for (long i = from; i < from + n; i++) {
        connections->server_fds[i] = accept_one(pair->listener);
        if (connections->server_fds[i] < 0) {
            fail("connection %ld of %ld did not come", i, connections->n);
        }
    }
}

static struct connections none_of(long n)
{
    return (struct connections){
        .n = n,
        .server_fds = allocate((size_t)n, sizeof(int)),
        .clients = allocate((size_t)n, sizeof(int)),
    };
}

void connections_open(struct connections *connections, struct pair *pair, long n)
{
    *connections = none_of(n);
    for (long from = 0; from < n; from += CHUNK) {
        long chunk = n - from < CHUNK ? n - from : CHUNK;
        knock(connections, from, chunk);
        let_in(connections, pair, from, chunk);
    }
}

void connections_queue(struct connections *connections, long n)
{
    *connections = none_of(n);
    knock(connections, 0, n);
}

void connections_accept(struct connections *connections, const struct pair *pair)
{
    let_in(connections, pair, 0, connections->n);
}

void connections_close(struct connections *connections, struct pair *pair)
{
    (void)pair;
    if (connections->n > 0) {
        /* The clients first, by reset; then the server's close sends nothing. */
        uint64_t due_ns = monotonic_ns() + far_end_delay_ns() + SETTLE_NS;
        clients_reset((uint64_t)connections->clients[0], connections->n, due_ns, 0);
        sleep_until(due_ns + (uint64_t)connections->n * PACKET_NS_MAX + SETTLE_NS);
    }
    for (long i = 0; i < connections->n; i++) {
        close_fd(connections->server_fds[i]);
    }
    free(connections->server_fds);
    free(connections->clients);
}

void connections_ready(const struct connections *connections, struct pair *pair, long first, long n)
{
    (void)pair;
    if (n == 0) {
        return;
    }
    uint64_t due_ns = monotonic_ns() + far_end_delay_ns() + SETTLE_NS;
    clients_send((uint64_t)connections->clients[first], n, due_ns, 0, WIRE_RAW, 0);
    for (long i = 0; i < n; i++) {
        await(connections->server_fds[first + i], POLLIN);
    }
}
