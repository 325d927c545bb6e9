/* The client's reset at the last byte of a reply, before or after the server's close.
 *
 *     interrupt_reset   request x B | write, close x B | resets                in the campaign
 *     close_ended       request x B | write x B | resets | tick | close x B: sends nothing
 */
#include "far_end.h"

#include <string.h>

static void answer_all(const struct connections *connections, const struct options *options,
                       bool closes)
{
    for (long k = 0; k < connections->n; k++) {
        take_request(connections->server_fds[k]);
        reply(connections->server_fds[k], options->reply);
        if (closes) {
            close_fd(connections->server_fds[k]);
        }
    }
}

static double close_all(const struct connections *connections)
{
    await_quiet((uint64_t)connections->n * PACKET_NS_MAX);
    uint64_t first = ticks_now();
    for (long k = 0; k < connections->n; k++) {
        close_fd(connections->server_fds[k]);
    }
    return (double)(ticks_now() - first) / (double)connections->n;
}

/* interrupt_reset; close_ended, with interrupt_reset_open */
void bench_far_answered(const struct options *options)
{
    struct pair pair;
    struct gaps gaps;
    struct thefts thefts;
    struct samples closes;
    long n = options->burst;
    bool ended = strcmp(options->bench->name, "close_ended") == 0;
    /* The last connection is complete before the first client receives its packet. */
    uint64_t delay = DELAY_NS + (uint64_t)n * PACKET_NS_MAX;
    pair_open_delayed(&pair, options, n + SPARE_DESCRIPTORS, delay);
    gaps_open(&gaps);
    thefts_open(&thefts);
    samples_open(&closes);
    for (int i = 0; i < REPETITIONS; i++) {
        struct connections connections;
        connections_open(&connections, &pair, n);
        uint64_t due_ns = monotonic_ns() + delay + SETTLE_NS;
        clients_send((uint64_t)connections.clients[0], n, due_ns, 0, 0, options->reply);
        sleep_until(due_ns + (uint64_t)n * PACKET_NS_MAX + SETTLE_NS);
        await_quiet(4 * delay + SETTLE_NS);
        uint64_t written_ns = monotonic_ns();
        answer_all(&connections, options, !ended);
        struct window window = {written_ns, written_ns + 4 * delay + SETTLE_NS};
        be_robbed(&gaps, window, n, i, &thefts);
        if (ended) {
            add_warm(&closes, i, close_all(&connections), (uint64_t)n);
        }
        connections.n = 0; /* closed already */
        connections_close(&connections, &pair);
    }
    thefts_print(&thefts, options, ended ? "interrupt_reset_open" : options->bench->name);
    if (ended) {
        print_mean(&closes, options, options->bench->name, "");
    }
    samples_close(&closes);
    gaps_close(&gaps);
    pair_close(&pair);
}
