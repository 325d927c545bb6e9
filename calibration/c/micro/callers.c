/* Clients on hardware: sockets of the peer. */
#include "callers.h"
#include "clients.h"

#include "../load/request_text.h"

#include <linux/tcp.h>
#include <stdlib.h>
#include <sys/socket.h>

enum { SPARE_DESCRIPTORS = 100, SETTLE_NS = 100000, SETTLE_NS_PER_CALLER = 15000 };

static const double patience_ns = 2e9;

void callers_open(struct callers *callers, const struct options *options, long n, long reply_bytes,
                  int n_steps)
{
    (void)n_steps; /* what they have to receive is received inside the server's calls */
    *callers = (struct callers){
        .n = n, .reply_bytes = reply_bytes, .clients = allocate((size_t)n, sizeof(int))};
    pair_open(&callers->pair, options, n + SPARE_DESCRIPTORS);
}

void callers_close(struct callers *callers)
{
    free(callers->clients);
    pair_close(&callers->pair);
}

static void connect_all(void *context)
{
    struct callers *callers = context;
    for (long i = 0; i < callers->n; i++) {
        callers->clients[i] = client_open(&callers->pair);
        client_connect(&callers->pair, callers->clients[i]);
    }
    for (long i = 0; i < callers->n; i++) {
        (void)client_await_open(&callers->pair, callers->clients[i]);
    }
}

static void ask_all(void *context)
{
    const struct callers *callers = context;
    static char text[TRACE_REQUEST_BYTES_MAX];
    request_text(text, REQUEST_BYTES, (uint32_t)callers->reply_bytes, false);
    for (long i = 0; i < callers->n; i++) {
        client_send_text(&callers->pair, callers->clients[i], text, REQUEST_BYTES);
    }
    for (long i = 0; i < callers->n; i++) {
        client_await_acknowledged(&callers->pair, callers->clients[i]);
    }
}

static void close_all(void *context)
{
    const struct callers *callers = context;
    for (long i = 0; i < callers->n; i++) {
        client_close(&callers->pair, callers->clients[i]);
    }
}

static void let_them(struct callers *callers, peer_task task)
{
    peer_start(&callers->pair, task, callers);
    peer_finish(&callers->pair);
    spin_ns(SETTLE_NS + (double)callers->n * SETTLE_NS_PER_CALLER);
}

/* A client is connected when the SYN-ACK has come, and is accepted when its answer has. */
static void await_all_acceptable(const struct callers *callers)
{
    uint64_t first = ticks_now();
    uint64_t patience = ns_to_ticks(patience_ns);
    struct tcp_info info = {0};
    do {
        socklen_t length = sizeof info;
        if (getsockopt(callers->pair.listener, IPPROTO_TCP, TCP_INFO, &info, &length) != 0) {
            fail_errno("TCP_INFO");
        }
        if (ticks_now() - first > patience) {
            fail("only %u of %ld connections can be accepted", info.tcpi_unacked, callers->n);
        }
    } while (info.tcpi_unacked < (unsigned long)callers->n); /* a listener's: its accept queue */
}

void callers_come(struct callers *callers)
{
    let_them(callers, connect_all);
    await_all_acceptable(callers);
}

void callers_ask(struct callers *callers)
{
    let_them(callers, ask_all);
}

void callers_go(struct callers *callers)
{
    let_them(callers, close_all);
}
