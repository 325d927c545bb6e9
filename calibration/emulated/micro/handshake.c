/* What a client sees, by the records of a play: from its SYN until the SYN-ACK is there.
 *
 *     client   SYN ........ SYN-ACK, request ........ reply
 *     server      (softirq)            read, write
 *
 * The delay is known and no client needs time, so all beyond two delays is the server's. */
#include "far_end.h"

#include <string.h>

struct talk {
    struct pair *pair;
    bool sleeps; /* while the client connects */
};

static void spin_until(uint64_t ns)
{
    while (monotonic_ns() < ns) {
        spend_instructions();
    }
}

static void talk_through(void *context)
{
    struct talk *talk = context;
    uint64_t connected_ns = monotonic_ns() + 3 * far_end_delay_ns() + 2 * SETTLE_NS;
    if (talk->sleeps) {
        sleep_until(connected_ns);
    } else {
        spin_until(connected_ns);
    }
    int fd = accept_one(talk->pair->listener);
    if (fd < 0) {
        fail("the client did not come");
    }
    while (receive_bytes(fd, REQUEST_BYTES) == 0)
        ;
    reply(fd, REPLY_BYTES);
    close_fd(fd);
}

/* handshake_idle, handshake_spin */
void bench_far_handshake(const struct options *options)
{
    struct pair pair;
    struct samples samples;
    pair_open(&pair, options, SPARE_DESCRIPTORS);
    struct talk talk = {&pair, strcmp(options->bench->name, "handshake_idle") == 0};
    struct wire_row row = {
        .n_requests = 1, .request_bytes = REQUEST_BYTES, .reply_bytes = REPLY_BYTES};
    samples_open(&samples);
    for (int i = 0; i < REPETITIONS; i++) {
        await_quiet(tick_period_ns() / 2);
        struct wire_record record = clients_play(&row, 1, talk_through, &talk);
        add_warm(&samples, i, (double)(record.connected_ns - record.started_ns), 1);
    }
    samples_print(&samples, options, options->bench->name, "");
    samples_close(&samples);
    pair_close(&pair);
}
