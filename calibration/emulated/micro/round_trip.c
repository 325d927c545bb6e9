/* What a client sees, by the records of a play: a handshake, a request and its reply.
 *
 *     client   SYN ........ SYN-ACK, request ........ reply, request ........ reply
 *     server      (softirq)            wait, read, write        ...
 *
 * The delay is known and no client needs time, so all beyond two delays is the server's. */
#include "far_end.h"

#include <stdio.h>
#include <string.h>

enum { REQUESTS = 64 };

struct talk {
    const struct options *options;
    struct pair *pair;
    struct served *served; /* NULL: spins */
    long n_requests;
    bool sleeps_first; /* while the client connects */
    int fd;
    double busy_ns; /* of the requests */
};

static void spin_until(uint64_t ns)
{
    while (monotonic_ns() < ns)
        spend_instructions();
}

static void answer_one(struct talk *talk)
{
    if (talk->served != NULL)
        wait_for(talk->served, 1);
    while (receive_bytes(talk->fd, REQUEST_BYTES) == 0)
        ;
    reply(talk->fd, talk->options->reply);
}

static void talk_through(void *context)
{
    struct talk *talk = context;
    uint64_t connected_ns = monotonic_ns() + 3 * far_end_delay_ns() + 2 * SETTLE_NS;
    if (talk->sleeps_first)
        sleep_until(connected_ns);
    else
        spin_until(connected_ns);
    talk->fd = accept_one(talk->pair->listener);
    if (talk->fd < 0)
        fail("the client did not come");
    if (talk->served != NULL)
        watch(talk->served, talk->fd);
    answer_one(talk); /* it was there before the server was ready for it */
    uint64_t begin_ns = monotonic_ns();
    uint64_t idle_ns = far_end_status().idle_ns;
    for (long i = 1; i < talk->n_requests; i++)
        answer_one(talk);
    idle_ns = far_end_status().idle_ns - idle_ns;
    talk->busy_ns = (double)(monotonic_ns() - begin_ns) - (double)idle_ns;
    if (talk->served != NULL)
        unwatch(talk->served, talk->fd);
    close_fd(talk->fd);
}

/* handshake_idle, handshake_spin: from the SYN until the SYN-ACK is at the client. */
void bench_far_handshake(const struct options *options)
{
    struct pair pair;
    struct samples samples;
    pair_open(&pair, options, SPARE_DESCRIPTORS);
    struct talk talk = {.options = options, .pair = &pair, .n_requests = 1,
                        .sleeps_first = strcmp(options->bench->name, "handshake_idle") == 0};
    struct wire_row row = {.n_requests = 1, .request_bytes = REQUEST_BYTES,
                           .reply_bytes = REPLY_BYTES};
    samples_open(&samples);
    for (int i = 0; i < REPETITIONS; i++) {
        await_quiet(tick_period_ns() / 2);
        struct wire_record record = clients_play(&row, 1, talk_through, &talk);
        samples_add(&samples, (double)(record.connected_ns - record.started_ns), 1);
    }
    samples_print(&samples, options, options->bench->name, "");
    samples_close(&samples);
    pair_close(&pair);
}

/* pingpong_spin, pingpong_block: from a request until its reply is at the client. */
void bench_far_pingpong(const struct options *options)
{
    struct pair pair;
    struct connections others;
    struct samples samples;
    double busy_ns = 0.0;
    char extra[EXTRA_MAX];
    bool spins = strcmp(options->bench->name, "pingpong_spin") == 0;
    pair_open(&pair, options, options->n + SPARE_DESCRIPTORS);
    connections_open(&others, &pair, options->n);
    struct talk talk = {.options = options, .pair = &pair, .n_requests = REQUESTS};
    if (!spins)
        talk.served = watched_open(options, options->n + SPARE_DESCRIPTORS);
    for (long i = 0; !spins && i < options->n; i++)
        watch(talk.served, others.server_fds[i]);
    struct wire_row row = {.n_requests = REQUESTS, .request_bytes = REQUEST_BYTES,
                           .reply_bytes = (uint64_t)options->reply};
    samples_open(&samples);
    for (int i = 0; i < REPETITIONS; i++) {
        struct wire_record record = clients_play(&row, 1, talk_through, &talk);
        samples_add(&samples, (double)(record.done_ns - record.connected_ns) / REQUESTS, REQUESTS);
        busy_ns = talk.busy_ns / (REQUESTS - 1);
    }
    (void)snprintf(extra, sizeof extra, ", \"busy_ns\": %.1f, \"delay_ns\": %d", busy_ns, DELAY_NS);
    samples_print(&samples, options, options->bench->name, extra);
    samples_close(&samples);
    if (!spins)
        served_close(talk.served);
    connections_close(&others, &pair);
    pair_close(&pair);
}
