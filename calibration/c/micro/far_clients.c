/* Clients that are packets of a client machine, in the peer's thread. */
#include "../far_end/far.h"
#include "clients.h"

#include <arpa/inet.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

/* The times of a connection that no time is known of. */
static const uint64_t patience_ns = 10000000000u;
static const double between_timers_ns = 100000; /* they have a resolution of 1 ms */

struct far_client {
    bool is_open;
    bool is_broken; /* reset by the server, or without any reply */
    size_t n_waiting; /* bytes that have come and were not received */
    uint64_t open_ticks;
    const char *text; /* sent last */
    size_t n_text;
};

struct far_peer {
    struct far far;
    struct far_client *clients; /* by slot */
    uint64_t timers_ticks;      /* when to look for those that have ended */
};

static struct far_client *client_of(struct far *far, int32_t slot)
{
    struct far_peer *peer = far->owner;
    return &peer->clients[slot];
}

void far_flush(struct far *far)
{
    (void)wire_flush(&far->wire);
}

void peer_opened(struct far *far, int32_t slot)
{
    struct far_client *client = client_of(far, slot);
    client->is_open = true;
    client->open_ticks = ticks_now();
}

void peer_writable(struct far *far, int32_t slot)
{
    (void)far; /* what is sent here is shorter than any window */
    (void)slot;
}

bool peer_heard(struct far *far, int32_t slot, const struct segment *segment, uint32_t skip)
{
    client_of(far, slot)->n_waiting += segment->n_data - skip;
    return true;
}

void peer_ended(struct far *far, int32_t slot, int error)
{
    if (error != 0) {
        client_of(far, slot)->is_broken = true;
        wheel_clear(&far->wheel, slot);
    }
}

size_t peer_request(struct far *far, int32_t slot, size_t offset, const char **bytes)
{
    const struct far_client *client = client_of(far, slot);
    size_t n_text = client->n_text;
    if (client->text == padding) { /* of several sends the bytes are the same */
        *bytes = padding;
        return PADDING_BYTES;
    }
    *bytes = client->text + (offset < n_text ? offset : n_text);
    return offset < n_text ? n_text - offset : 0;
}

static bool far_attend(const struct pair *pair)
{
    struct far_peer *peer = pair->far;
    int n_done = 0;
    while (n_done < FRAMES_AT_ONCE && far_take_frame(&peer->far)) {
        n_done++;
    }
    if (n_done == 0 && ticks_now() >= peer->timers_ticks) {
        peer->timers_ticks = ticks_now() + ns_to_ticks(between_timers_ns);
        n_done = far_take_timer(&peer->far, to_ms(far_now_ns()));
    }
    if (n_done > 0) {
        far_flush(&peer->far);
    }
    return n_done > 0;
}

static int far_client_open(const struct pair *pair)
{
    struct far_peer *peer = pair->far;
    int32_t slot = peers_take(&peer->far.peers);
    if (slot == NO_SLOT) {
        fail("more connections than the --sources addresses allow");
    }
    peer->clients[slot] = (struct far_client){.text = padding};
    return slot;
}

static void far_client_hurry(const struct pair *pair, int client)
{
    (void)pair; /* tcp.c puts nothing off */
    (void)client;
}

static void far_client_connect(const struct pair *pair, int client)
{
    struct far_peer *peer = pair->far;
    tcp_connect(&peer->far, client, NULL);
    far_flush(&peer->far);
}

static bool is_open(const struct far_peer *peer, int slot)
{
    return peer->clients[slot].is_open;
}

static bool has_data(const struct far_peer *peer, int slot)
{
    return peer->clients[slot].n_waiting > 0;
}

static bool is_acknowledged(const struct far_peer *peer, int slot)
{
    const struct peer *known = &peer->far.peers.slots[slot];
    return known->snd_una == known->snd_nxt;
}

/* Attend until the client is as it should be. */
static void far_await(const struct pair *pair, int slot,
                      bool (*is_so)(const struct far_peer *peer, int slot), const char *word)
{
    struct far_peer *peer = pair->far;
    uint64_t patience = ns_to_ticks((double)patience_ns);
    uint64_t first = ticks_now();
    while (!is_so(peer, slot)) {
        (void)far_attend(pair);
        if (peer->clients[slot].is_broken) {
            fail("a connection broke");
        }
        if (ticks_now() - first > patience) {
            fail("a connection did not become %s", word);
        }
    }
}

static uint64_t far_client_await_open(const struct pair *pair, int client)
{
    far_await(pair, client, is_open, "writable");
    return pair->far->clients[client].open_ticks;
}

static void far_client_send(const struct pair *pair, int client, const char *text, size_t bytes)
{
    struct far_peer *peer = pair->far;
    if (bytes > PADDING_BYTES) {
        fail("only %d of %zu bytes can be written at once", PADDING_BYTES, bytes);
    }
    if (!peer->clients[client].is_open || peer->clients[client].is_broken) {
        fail("a connection broke");
    }
    peer->clients[client].text = text;
    peer->clients[client].n_text = bytes;
    tcp_begin_request(&peer->far, client);
    size_t sent = tcp_send(&peer->far, client, text, bytes);
    far_flush(&peer->far);
    if (sent != bytes) {
        fail("only %zu of %zu bytes could be written", sent, bytes);
    }
}

static void far_client_await_acknowledged(const struct pair *pair, int client)
{
    far_await(pair, client, is_acknowledged, "acknowledged");
}

static void far_client_await_data(const struct pair *pair, int client)
{
    far_await(pair, client, has_data, "readable");
}

static size_t far_client_receive(const struct pair *pair, int slot, size_t bytes)
{
    struct far_client *client = &pair->far->clients[slot];
    while (client->n_waiting == 0 && far_attend(pair))
        ;
    if (client->is_broken) {
        fail("the other side closed a connection");
    }
    size_t n = client->n_waiting < bytes ? client->n_waiting : bytes;
    client->n_waiting -= n;
    return n;
}

static void far_client_close(const struct pair *pair, int client)
{
    struct far_peer *peer = pair->far;
    if (peer->clients[client].is_broken) {
        peers_release(&peer->far.peers, client); /* there is nothing left to reset */
        return;
    }
    tcp_abort(&peer->far, client);
    far_flush(&peer->far);
}

static void far_client_leave(const struct pair *pair, int client)
{
    struct far_peer *peer = pair->far;
    while (peer->clients[client].n_waiting == 0 && far_take_frame(&peer->far))
        ;
    far_client_close(pair, client);
}

static void far_end(const struct pair *pair)
{
    far_abort_all(&pair->far->far);
    far_close(&pair->far->far);
    free(pair->far->clients);
    free(pair->far);
}

const struct client_kind far_clients = {
    .open = far_client_open,
    .hurry = far_client_hurry,
    .connect = far_client_connect,
    .await_open = far_client_await_open,
    .spin_until_open = far_client_await_open,
    .send = far_client_send,
    .await_acknowledged = far_client_await_acknowledged,
    .await_data = far_client_await_data,
    .receive = far_client_receive,
    .close = far_client_close,
    .leave = far_client_leave,
    .attend = far_attend,
    .end = far_end,
};

void far_clients_begin(struct pair *pair, long n)
{
    struct far_peer *peer = allocate(1, sizeof *peer);
    peer->far.options = pair->options->far;
    peer->far.owner = peer;
    peer->clients = allocate((size_t)n, sizeof *peer->clients);
    far_open(&peer->far, &pair->address, n);
    pair->far = peer;
    pair->clients = &far_clients;
}

void far_clients_options(struct options *options)
{
    static struct far_options far;
    const struct far_texts texts = {options->interface, options->mac, options->server_mac,
                                    options->source};
    if (texts.interface == NULL && texts.mac == NULL && texts.server_mac == NULL &&
        texts.source == NULL) {
        return;
    }
    struct in_addr server;
    if (options->server_netns == NULL ||
        inet_pton(AF_INET, options->server_address, &server) != 1) {
        fail_usage("--interface needs --server-netns, --peer-netns and --server-address");
    }
    far.n_sources = options->sources;
    far_options_read(&far, &texts, ntohl(server.s_addr));
    options->far = &far;
}

/* ---- what ../servers/program.h has beside `fail` ---- */

void refuse(const char *format, ...)
{
    char line[512];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(line, sizeof line, format, arguments);
    fail_usage("%s", line);
}

bool stop_requested(void)
{
    return false;
}
