/* Calls that sleep by themselves: read, accept, and io_uring_enter for a receive.
 *
 *     server   call ......zzz...... wakes, returns | close    CPU time of the server's thread
 *     peer           pause   byte or connection ^  | close
 *
 * As block.c has it for waits. */
#include "clients.h"
#include "repeated.h"
#include "ring.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum call { CALL_READ, CALL_ACCEPT, CALL_ENTER };

struct sleeper {
    struct pair pair;
    struct connections connections; /* one, but of accept */
    struct ring ring;               /* of io_uring_enter */
    enum call call;
    double pause_ns;
    uint64_t deadline_ns;
};

static void wake_after_pauses(void *context)
{
    struct sleeper *sleeper = context;
    bool knocks = sleeper->call == CALL_ACCEPT;
    for (bool answered = false; meet_again(&sleeper->pair, PEER, 0); answered = true) {
        int client = knocks ? client_open(&sleeper->pair) : sleeper->connections.clients[0];
        if (answered && !knocks) {
            client_take_byte(&sleeper->pair, client);
        }
        clients_spin(&sleeper->pair, sleeper->pause_ns);
        if (knocks) {
            client_connect(&sleeper->pair, client);
        } else {
            client_send(&sleeper->pair, client, 1);
        }
        meet(&sleeper->pair, PEER); /* the call has returned */
        if (knocks) {
            client_close(&sleeper->pair, client);
        }
    }
}

/* The connection, if that is what the call returns. */
static int make_call(struct sleeper *sleeper)
{
    char byte;
    int result = 0;
    switch (sleeper->call) {
    case CALL_ACCEPT:
        result = accept4(sleeper->pair.listener, NULL, NULL, SOCK_CLOEXEC);
        if (result < 0) {
            fail_errno("accept4");
        }
        return result;
    case CALL_READ:
        if (read(sleeper->connections.server_fds[0], &byte, 1) != 1) {
            fail_errno("read");
        }
        return -1;
    case CALL_ENTER:
        break;
    }
    ring_receive(&sleeper->ring, sleeper->connections.server_fds[0]);
    ring_go(&sleeper->ring, RING_WAIT);
    if (ring_see(&sleeper->ring, &result, 1) != 1 || result != 1) {
        fail("a byte was not received");
    }
    return -1;
}

static void sleep_again_and_again(struct sleeper *sleeper, struct samples *samples)
{
    while (meet_again(&sleeper->pair, SERVER, sleeper->deadline_ns)) {
        uint64_t first_ns = thread_cpu_ns();
        int fd = make_call(sleeper);
        samples_add(samples, (double)(thread_cpu_ns() - first_ns), 1);
        if (fd < 0) {
            send_bytes(sleeper->connections.server_fds[0], 1);
        }
        meet(&sleeper->pair, SERVER);
        if (fd >= 0) {
            close_fd(fd);
        }
    }
}

static void sleeper_open(struct sleeper *sleeper, const struct options *options)
{
    const char *name = options->bench->name;
    *sleeper = (struct sleeper){
        .call = strcmp(name, "accept_block") == 0 ? CALL_ACCEPT
                : strcmp(name, "read_block") == 0 ? CALL_READ
                                                  : CALL_ENTER,
        .pause_ns = (double)options->pause_us * 1000.0,
    };
    pair_open(&sleeper->pair, options, 1 + SPARE_DESCRIPTORS);
    connections_open(&sleeper->connections, &sleeper->pair, sleeper->call == CALL_ACCEPT ? 0 : 1);
    let_block(sleeper->call == CALL_ACCEPT ? sleeper->pair.listener
                                           : sleeper->connections.server_fds[0]);
    if (sleeper->call == CALL_ENTER) {
        ring_begin(&sleeper->ring, SPARE_DESCRIPTORS);
    }
    sleeper->deadline_ns = now_ns() + (uint64_t)options->milliseconds * 1000000u;
}

/* read_block, accept_block, ring_block */
void bench_asleep(const struct options *options)
{
    struct sleeper sleeper;
    struct samples samples;
    char extra[EXTRA_MAX];
    sleeper_open(&sleeper, options);
    samples_open(&samples);
    struct account begin = account_now(options);
    peer_start(&sleeper.pair, wake_after_pauses, &sleeper);
    sleep_again_and_again(&sleeper, &samples);
    account_print(extra, sizeof extra, options, &begin, samples.operations);
    peer_finish(&sleeper.pair);
    samples_less(&samples, thread_cpu_overhead_ns());
    samples_print(&samples, options, options->bench->name, extra);
    samples_close(&samples);
    if (sleeper.call == CALL_ENTER) {
        ring_close_all(&sleeper.ring);
    }
    connections_close(&sleeper.connections, &sleeper.pair);
    pair_close(&sleeper.pair);
}
