/* What a request on a kept connection costs more if many other connections had one since its last.
 *
 *     peer     request x 64, settling |                            | takes 64 replies
 *     server   reads the clock ..GAP..| epoll_wait, (read, write) x 64 |
 *              |<--- received ------->|<--------- served ---------->|
 *
 * A turn has CHUNKS_FEW chunks on the same 64 connections (few), then chunks on all n, 64 after 64
 * (many). All chunks have the same size and pace, so that interrupts are shared alike; their number
 * is printed. With a thousand connections the kernel's data of each have left the caches by its next
 * request. The first chunks of the few find the caches as the many have left them, and the first
 * chunk of the many is that of the few: neither counts. Nor does a turn in which clients may have
 * acknowledged replies by their timer of 40 ms. */
#include "clients.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>

enum {
    SPARE_DESCRIPTORS = 100,
    PAUSE_NS = 20000,
    SETTLE_NS = 350000,
    CHUNK = 64,
    CHUNKS_FEW = 8,
    CHUNKS_FEW_COUNT = 3,
    N_PARTS = 3,
    TURN_NS_MAX = 35000000, /* clients acknowledge 40 ms after a reply, if they ask nothing */
};

/* Samples of the chunks of this turn, and of all turns: their medians, and many less few. */
enum kind { FEW, MANY, FEW_ALL, MANY_ALL, MORE, N_KINDS };

/* What a chunk takes for each request. */
struct part {
    struct samples of[N_KINDS];
};

struct kept {
    struct pair *pair;
    struct connections *connections;
    const struct options *options;
    int epoll;
    struct epoll_event events[CHUNK];
    uint64_t deadline_ns;
    struct part received, served; /* ns */
    struct part entries;          /* interrupts */
    _Alignas(CACHE_LINE) atomic_bool over; /* all requests have come */
};

static long turn_of(const struct kept *kept)
{
    return CHUNKS_FEW + kept->options->n / CHUNK;
}

/* The first connection of the chunk at that position in its turn. */
static long first_of(long position)
{
    return position < CHUNKS_FEW ? 0 : (position - CHUNKS_FEW) * CHUNK;
}

static void ask_chunks(void *context)
{
    struct kept *kept = context;
    for (long number = 0; meet_again(kept->pair, PEER, 0); number++) {
        const int *clients = &kept->connections->clients[first_of(number % turn_of(kept))];
        clients_spin(kept->pair, PAUSE_NS);
        for (long i = 0; i < CHUNK; i++) {
            client_send(kept->pair, clients[i], REQUEST_BYTES);
        }
        clients_spin(kept->pair, SETTLE_NS);
        atomic_store(&kept->over, true);
        meet(kept->pair, PEER);       /* the requests are there */
        meet_unattending(kept->pair); /* the replies have left */
        for (long i = 0; i < CHUNK; i++) {
            client_await_data(kept->pair, clients[i]);
            if (client_receive(kept->pair, clients[i], REPLY_BYTES) != REPLY_BYTES) {
                fail("a reply came in pieces");
            }
        }
    }
}

/* The time of a chunk; 0 if a request came too late for the first wait. */
static double served_ns(struct kept *kept)
{
    uint64_t first = ticks_now();
    int n_first = 0;
    for (int n = 0; n < CHUNK;) {
        int n_ready = epoll_wait(kept->epoll, kept->events, CHUNK, -1);
        if (n_ready < 0) {
            fail_errno("epoll_wait");
        }
        for (int i = 0; i < n_ready; i++) {
            int fd = kept->events[i].data.fd;
            if (receive_bytes(fd, REQUEST_BYTES) != REQUEST_BYTES) {
                fail("a request came in pieces");
            }
            send_bytes(fd, REPLY_BYTES);
        }
        n_first = n == 0 ? n_ready : n_first;
        n += n_ready;
    }
    return n_first == CHUNK ? ticks_to_ns(ticks_now() - first) : 0;
}

/* Add what a chunk took, if it counts. */
static void part_add(struct part *part, long position, double chunk)
{
    if (position >= CHUNKS_FEW - CHUNKS_FEW_COUNT && position < CHUNKS_FEW) {
        samples_add(&part->of[FEW], chunk / CHUNK, CHUNK);
    } else if (position > CHUNKS_FEW) {
        samples_add(&part->of[MANY], chunk / CHUNK, CHUNK);
    }
}

/* The turn is over: add its medians, if it counts. */
static void part_end_turn(struct part *part, bool counts, uint64_t n)
{
    if (counts && part->of[FEW].n > 0 && part->of[MANY].n > 0) {
        double few = samples_median(&part->of[FEW]), many = samples_median(&part->of[MANY]);
        samples_add(&part->of[FEW_ALL], few, 1);
        samples_add(&part->of[MANY_ALL], many, 1);
        samples_add(&part->of[MORE], many - few, n);
    }
    part->of[FEW].n = part->of[MANY].n = 0;
}

static void part_print(const struct kept *kept, const struct part *part, const char *name)
{
    char extra[EXTRA_MAX];
    const struct part *entries = &kept->entries;
    (void)snprintf(extra, sizeof extra,
                   ", \"few_ns\": %.1f, \"many_ns\": %.1f, \"few_interrupts\": %.4f, "
                   "\"many_interrupts\": %.4f",
                   samples_median(&part->of[FEW_ALL]), samples_median(&part->of[MANY_ALL]),
                   samples_mean(&entries->of[FEW_ALL]), samples_mean(&entries->of[MANY_ALL]));
    samples_print(&part->of[MORE], kept->options, name, extra);
}

/* serve_kept */
void bench_kept(const struct options *options)
{
    struct pair pair;
    struct connections connections;
    struct kept kept = {.pair = &pair, .connections = &connections, .options = options};
    if (options->n <= CHUNK || options->n % CHUNK != 0) {
        fail_usage("serve_kept: --n must be a multiple of %d above it", CHUNK);
    }
    pair_open(&pair, options, options->n + SPARE_DESCRIPTORS);
    connections_open(&connections, &pair, options->n);
    kept.epoll = epoll_open();
    for (long i = 0; i < options->n; i++) {
        epoll_control(kept.epoll, EPOLL_CTL_ADD, connections.server_fds[i], EPOLLIN);
    }
    struct part *parts[N_PARTS] = {&kept.received, &kept.served, &kept.entries};
    for (int i = 0; i < N_PARTS * N_KINDS; i++) {
        samples_open(&parts[i / N_KINDS]->of[i % N_KINDS]);
    }
    kept.deadline_ns = now_ns() + (uint64_t)options->milliseconds * 1000000u;
    peer_start(&pair, ask_chunks, &kept);
    uint64_t turn_began_ns = 0;
    /* One turn at least, however little time there is. */
    for (long number = 0;
         meet_again(&pair, SERVER, number < turn_of(&kept) ? UINT64_MAX : kept.deadline_ns);
         number++) {
        long position = number % turn_of(&kept), n_entries;
        if (position == 0) {
            turn_began_ns = now_ns();
        }
        double received_ns = stolen_ns(&kept.over, &n_entries);
        meet(&pair, SERVER);
        double ns = served_ns(&kept);
        atomic_store(&kept.over, false);
        meet(&pair, SERVER);
        if (ns > 0) {
            part_add(&kept.received, position, received_ns);
            part_add(&kept.served, position, ns);
            part_add(&kept.entries, position, (double)n_entries);
        }
        if (position == turn_of(&kept) - 1) {
            bool counts = now_ns() - turn_began_ns <= TURN_NS_MAX;
            for (int i = 0; i < N_PARTS; i++) {
                part_end_turn(parts[i], counts, (uint64_t)options->n);
            }
        }
    }
    peer_finish(&pair);
    if (kept.served.of[MORE].n == 0) {
        fail("no operation was completed: no turn of %ld connections ended within %d ms, when "
             "clients acknowledge: try more --milliseconds, or fewer connections",
             options->n, TURN_NS_MAX / 1000000);
    }
    part_print(&kept, &kept.received, "kept_received");
    part_print(&kept, &kept.served, "kept_served");
    for (int i = 0; i < N_PARTS * N_KINDS; i++) {
        samples_close(&parts[i / N_KINDS]->of[i % N_KINDS]);
    }
    close_fd(kept.epoll);
    connections_close(&connections, &pair);
    pair_close(&pair);
}
