/* From connect to writable, as a spinning client sees it. */
#include "clients.h"

#include <string.h>

enum { SPARE_DESCRIPTORS = 600, HANDSHAKES_PER_ROUND = 100 };

struct handshakes {
    struct pair *pair;
    struct samples samples;
};

static double handshake_ns(const struct pair *pair)
{
    int client = client_open(pair);
    uint64_t first = ticks_now();
    client_connect(pair, client);
    double ns = ticks_to_ns(client_spin_until_open(pair, client) - first);
    client_close(pair, client);
    return ns;
}

static void shake_hands(void *context)
{
    struct handshakes *handshakes = context;
    double pause_ns = (double)handshakes->pair->options->pause_us * 1000.0;
    for (int i = 0; i < HANDSHAKES_PER_ROUND; i++) {
        clients_spin(handshakes->pair, pause_ns); /* until the server's CPU sleeps again */
        samples_add(&handshakes->samples, handshake_ns(handshakes->pair), 1);
    }
}

void bench_handshake(const struct options *options)
{
    struct pair pair;
    bool spins = strcmp(options->bench->name, "handshake_spin") == 0;
    pair_open(&pair, options, SPARE_DESCRIPTORS);
    struct handshakes handshakes = {.pair = &pair};
    char extra[EXTRA_MAX];
    samples_open(&handshakes.samples);
    struct account begin = account_now(options);
    uint64_t deadline_ns = now_ns() + (uint64_t)options->milliseconds * 1000000u;
    do {
        peer_start(&pair, shake_hands, &handshakes);
        while (spins && !atomic_load(&pair.task_over)) {
            relax();
        }
        peer_finish(&pair); /* asleep, if it does not spin */
        accept_and_close(pair.listener);
    } while (now_ns() < deadline_ns);
    account_print(extra, sizeof extra, options, &begin, handshakes.samples.operations);
    samples_print(&handshakes.samples, options, options->bench->name, extra);
    samples_close(&handshakes.samples);
    pair_close(&pair);
}
