/* What packets take from a server that makes calls, more than from one that computes.
 *
 *     peer     connect, ask ..  x n      | connect, ask ..  x n       |
 *     server   reads the clock ..GAP..   | serves n ..GAP.. reads ..  | serves n
 *              |<---- computing ------->|<------- amid packets ----->|<- quiet ->|
 *
 * To serve is to accept and watch one after the other, and then to read from each, stop watching it
 * and close it. The close resets the connection, so that no client sends a packet because of it. In
 * the middle part the server serves the connections of the first part, and then reads the clock
 * until the last packet has come. Where this part takes longer than the other two together, packets
 * and calls have displaced each other's code and data from the caches. They overlap in part only, so
 * the difference is a lower bound. In every other round the quiet part makes each kind of call for all
 * connections before the next kind: calls displace each other, too.
 */
#include "clients.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

enum {
    SPARE_DESCRIPTORS = 100,
    SETTLE_NS = 60000, /* until the softirq of the last packet has ended */
};

enum part { COMPUTING, AMID, QUIET, BY_KIND, N_PARTS };
enum {
    N_SPANS = 3, /* of a round: its last part is quiet, or by kind */
    N_ENTRIES = 2, /* parts in which packets come, the first ones */
};

struct amid {
    struct pair *pair;
    const struct options *options;
    int *server_fds, *clients;
    int epoll;
    uint64_t deadline_ns;
    struct samples more, parts[N_PARTS], entries[N_ENTRIES];
    _Alignas(CACHE_LINE) atomic_bool over; /* all packets have come */
};

/* Begin all connections of a batch and ask on each, --burst of them at once. */
static void make(const struct amid *amid, int *clients)
{
    long n = amid->options->batch, at_once = amid->options->burst;
    for (long first = 0; first < n; first += at_once) {
        clients_ask(amid->pair, &clients[first], n - first < at_once ? n - first : at_once);
    }
    for (long i = 0; i < n; i++) {
        client_await_acknowledged(amid->pair, clients[i]);
    }
    clients_spin(amid->pair, SETTLE_NS);
}

/* Those that the server has reset. */
static void forget(const struct amid *amid, const int *clients)
{
    clients_catch_up(amid->pair);
    for (long i = 0; i < amid->options->batch; i++) {
        client_close(amid->pair, clients[i]);
    }
}

static void make_batches(void *context)
{
    struct amid *amid = context;
    int *batches[] = {amid->clients, &amid->clients[amid->options->batch]};
    while (meet_again(amid->pair, PEER, 0)) {
        for (int part = COMPUTING; part <= AMID; part++) {
            meet(amid->pair, PEER);
            make(amid, batches[part]);
            atomic_store(&amid->over, true);
        }
        meet(amid->pair, PEER); /* all are served */
        forget(amid, batches[COMPUTING]);
        forget(amid, batches[AMID]);
        meet(amid->pair, PEER);
    }
}

static void take(const struct amid *amid, long i)
{
    amid->server_fds[i] = accept_one(amid->pair->listener);
    if (amid->server_fds[i] < 0) {
        fail("a connection is missing");
    }
}

static void watch_one(const struct amid *amid, long i)
{
    epoll_control(amid->epoll, EPOLL_CTL_ADD, amid->server_fds[i], EPOLLIN);
}

static void read_one(const struct amid *amid, long i)
{
    if (receive_bytes(amid->server_fds[i], REPLY_BYTES) != REQUEST_BYTES) {
        fail("a request is missing");
    }
}

static void unwatch_one(const struct amid *amid, long i)
{
    epoll_control(amid->epoll, EPOLL_CTL_DEL, amid->server_fds[i], 0);
}

static void end(const struct amid *amid, long i)
{
    close_fd(amid->server_fds[i]);
}

typedef void (*step)(const struct amid *amid, long i);

/* Make these calls for one connection after the other. */
static void make_calls(const struct amid *amid, const step *calls, int n_calls)
{
    for (long i = 0; i < amid->options->batch; i++) {
        for (int call = 0; call < n_calls; call++) {
            calls[call](amid, i);
        }
    }
}

/* Serve the connections that wait; return the time. */
static double served_ns(const struct amid *amid, bool by_kind)
{
    static const step calls[] = {take, watch_one, read_one, unwatch_one, end};
    enum { N_CALLS = sizeof calls / sizeof calls[0], N_FIRST = 2 };
    uint64_t first = ticks_now();
    if (by_kind) {
        for (int call = 0; call < N_CALLS; call++) {
            make_calls(amid, &calls[call], 1);
        }
    } else {
        make_calls(amid, calls, N_FIRST);
        make_calls(amid, &calls[N_FIRST], N_CALLS - N_FIRST);
    }
    return ticks_to_ns(ticks_now() - first);
}

/* The column of a CPU: /proc/interrupts has those online only. */
static long column_of(const char *header, long cpu)
{
    char name[32];
    (void)snprintf(name, sizeof name, "CPU%ld", cpu);
    long column = 0;
    for (const char *at = header; *(at += strspn(at, " ")) != '\0' && *at != '\n'; column++) {
        size_t length = strcspn(at, " \n");
        if (length == strlen(name) && strncmp(at, name, length) == 0) {
            return column;
        }
        at += length;
    }
    fail("/proc/interrupts has no column %s", name);
}

/* Function calls that other CPUs sent to the server's CPU: of packets, mostly. */
static double calls_received(const struct options *options)
{
    FILE *file = fopen("/proc/interrupts", "r");
    char *line = NULL;
    size_t size = 0;
    if (file == NULL || getline(&line, &size, file) < 0) {
        fail_errno("/proc/interrupts");
    }
    long column = column_of(line, options->server_cpu);
    bool found = false;
    while (!found && getline(&line, &size, file) >= 0) {
        found = strncmp(line + strspn(line, " "), "CAL:", 4) == 0;
    }
    if (!found) {
        fail("/proc/interrupts has no line CAL: these calls are counted on x86 only");
    }
    char *at = strchr(line, ':') + 1;
    uint64_t n = 0;
    for (long i = 0; i <= column; i++) {
        n = strtoull(at, &at, 10);
    }
    free(line);
    if (fclose(file) != 0) {
        fail_errno("/proc/interrupts");
    }
    return (double)n;
}

static void take_round(struct amid *amid, enum part last)
{
    double ns[N_SPANS], begun[N_ENTRIES + 1];
    long n_gaps;
    begun[COMPUTING] = calls_received(amid->options);
    meet(amid->pair, SERVER);
    ns[COMPUTING] = stolen_ns(&amid->over, &n_gaps);
    atomic_store(&amid->over, false);
    begun[AMID] = calls_received(amid->options);
    meet(amid->pair, SERVER);
    ns[AMID] = served_ns(amid, false);
    ns[AMID] += stolen_ns(&amid->over, &n_gaps);
    atomic_store(&amid->over, false);
    begun[N_ENTRIES] = calls_received(amid->options);
    ns[QUIET] = served_ns(amid, last == BY_KIND);
    meet(amid->pair, SERVER);
    double n = (double)amid->options->batch;
    for (int i = 0; i < N_SPANS; i++) {
        samples_add(&amid->parts[i == QUIET ? last : (enum part)i], ns[i] / n, (uint64_t)n);
    }
    for (int i = 0; i < N_ENTRIES; i++) {
        samples_add(&amid->entries[i], (begun[i + 1] - begun[i]) / n, (uint64_t)n);
    }
    if (last == QUIET) {
        samples_add(&amid->more, (ns[AMID] - ns[QUIET] - ns[COMPUTING]) / n, (uint64_t)n);
    }
    meet(amid->pair, SERVER);
}

/* serve_amid */
void bench_amid(const struct options *options)
{
    struct pair pair;
    pair_open(&pair, options, 2 * options->batch + SPARE_DESCRIPTORS);
    struct linger linger = {.l_onoff = 1, .l_linger = 0}; /* accepted ones inherit it */
    if (setsockopt(pair.listener, SOL_SOCKET, SO_LINGER, &linger, sizeof linger) != 0) {
        fail_errno("SO_LINGER");
    }
    struct amid amid = {
        .pair = &pair,
        .options = options,
        .server_fds = allocate((size_t)options->batch, sizeof(int)),
        .clients = allocate(2 * (size_t)options->batch, sizeof(int)),
        .epoll = epoll_open(),
        .deadline_ns = now_ns() + (uint64_t)options->milliseconds * 1000000u,
    };
    samples_open(&amid.more);
    for (int part = 0; part < N_PARTS; part++) {
        samples_open(&amid.parts[part]);
    }
    for (int part = 0; part < N_ENTRIES; part++) {
        samples_open(&amid.entries[part]);
    }
    peer_start(&pair, make_batches, &amid);
    /* A round of each kind at least, however little time there is. */
    for (long round = 0; meet_again(&pair, SERVER, round < 2 ? UINT64_MAX : amid.deadline_ns);
         round++) {
        take_round(&amid, round % 2 == 0 ? QUIET : BY_KIND);
    }
    peer_finish(&pair);
    char extra[EXTRA_MAX];
    (void)snprintf(extra, sizeof extra,
                   ", \"computing_ns\": %.1f, \"amid_ns\": %.1f, \"quiet_ns\": %.1f, "
                   "\"by_kind_ns\": %.1f, \"computing_interrupts\": %.3f, "
                   "\"amid_interrupts\": %.3f",
                   samples_median(&amid.parts[COMPUTING]), samples_median(&amid.parts[AMID]),
                   samples_median(&amid.parts[QUIET]), samples_median(&amid.parts[BY_KIND]),
                   samples_median(&amid.entries[COMPUTING]), samples_median(&amid.entries[AMID]));
    samples_print(&amid.more, options, "serve_amid", extra);
    samples_close(&amid.more);
    for (int part = 0; part < N_PARTS; part++) {
        samples_close(&amid.parts[part]);
    }
    for (int part = 0; part < N_ENTRIES; part++) {
        samples_close(&amid.entries[part]);
    }
    close_fd(amid.epoll);
    free(amid.server_fds);
    free(amid.clients);
    pair_close(&pair);
}
