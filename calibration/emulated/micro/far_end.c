/* The peer of the emulated target: a driver that receives the clients' actions by ioctl. */
#include "far_end.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <unistd.h>

enum { FAR_CONNECTIONS_MAX = 40000 };

static const char server_address[] = "10.213.0.1"; /* WIRE_SERVER_ADDRESS */
static int device = -1;
static uint64_t delay_ns = DELAY_NS;

const char *steering(const struct options *options)
{
    (void)options;
    return "wire";
}

void pin_to_cpu(long cpu)
{
    (void)cpu; /* there is one */
}

static void tell(unsigned long what, void *argument, const char *name)
{
    if (ioctl(device, what, argument) != 0) {
        fail_errno("%s", name);
    }
}

static void need_descriptors(long n)
{
    struct rlimit limit = {.rlim_cur = (rlim_t)n, .rlim_max = (rlim_t)n};
    if (setrlimit(RLIMIT_NOFILE, &limit) != 0) {
        fail_errno("%ld descriptors", n);
    }
}

void pair_open_delayed(struct pair *pair, const struct options *options, long n_descriptors,
                       uint64_t given_delay_ns)
{
    *pair = (struct pair){.options = options};
    need_descriptors(n_descriptors);
    pair->listener = listener_open(&pair->address, server_address);
    device = open(WIRE_DEVICE, O_RDWR | O_CLOEXEC);
    if (device < 0) {
        fail_errno("%s", WIRE_DEVICE);
    }
    delay_ns = given_delay_ns;
    struct wire_configure configure = {
        .delay_ns = delay_ns,
        .port = ntohs(pair->address.sin_port),
        .connections_max = FAR_CONNECTIONS_MAX,
    };
    tell(WIRE_CONFIGURE, &configure, "WIRE_CONFIGURE");
}

void pair_open(struct pair *pair, const struct options *options, long n_descriptors)
{
    pair_open_delayed(pair, options, n_descriptors, DELAY_NS);
}

void pair_close(struct pair *pair)
{
    if (far_end_status().n_lost != 0) {
        fail("%s: the wire lost packets", pair->options->bench->name);
    }
    close_fd(pair->listener);
    close_fd(device);
}

uint64_t far_end_delay_ns(void)
{
    return delay_ns;
}

struct wire_status far_end_status(void)
{
    struct wire_status status;
    tell(WIRE_STATUS, &status, "WIRE_STATUS");
    return status;
}

/* What is due at the server then leaves the client so much earlier. */
static uint64_t leaves_at(uint64_t due_ns)
{
    return due_ns > delay_ns ? due_ns - delay_ns : 0;
}

uint64_t clients_connect(long n, uint64_t due_ns, uint64_t gap_ns)
{
    struct wire_connect connect = {.n = (uint64_t)n, .at_ns = leaves_at(due_ns), .gap_ns = gap_ns};
    tell(WIRE_CONNECT, &connect, "WIRE_CONNECT");
    return connect.first;
}

void clients_send(uint64_t first, long n, uint64_t due_ns, uint64_t gap_ns, uint64_t flags,
                  long reply_bytes)
{
    struct wire_send request = {
        .first = first,
        .n = (uint64_t)n,
        .at_ns = leaves_at(due_ns),
        .gap_ns = gap_ns,
        .request_bytes = flags == WIRE_RAW ? 1 : REQUEST_BYTES,
        .reply_bytes = flags == WIRE_RAW ? 0 : (uint64_t)reply_bytes,
        .flags = flags,
    };
    tell(WIRE_SEND, &request, "WIRE_SEND");
}

void clients_reset(uint64_t first, long n, uint64_t due_ns, uint64_t gap_ns)
{
    struct wire_reset reset = {
        .first = first, .n = (uint64_t)n, .at_ns = leaves_at(due_ns), .gap_ns = gap_ns};
    tell(WIRE_RESET, &reset, "WIRE_RESET");
}

static uint64_t began_ns;

uint64_t play_begin_ns(void)
{
    return began_ns;
}

struct wire_record clients_play(const struct wire_row *row, uint64_t n_connections,
                                void (*serve)(void *context), void *context)
{
    struct wire_row rows[1] = {*row};
    uint64_t begin_ns = monotonic_ns() + SETTLE_NS;
    struct wire_play play = {
        .closed = 1,
        .n_users = 1,
        .n_rows = 1,
        .rows = (uintptr_t)rows,
        .connections_max = n_connections,
        .begin_ns = begin_ns,
        .end_ns = begin_ns + 2000000000u,
        .drain_ns = 1000000000u,
    };
    began_ns = begin_ns;
    tell(WIRE_PLAY, &play, "WIRE_PLAY");
    serve(context);
    struct wire_record record = {.status = WIRE_STATUS_OPEN};
    while (far_end_status().playing != 0) {
        sleep_until(monotonic_ns() + SETTLE_NS);
    }
    /* One after the other, so the last one is the warmest. */
    off_t last = (off_t)((n_connections - 1) * sizeof record);
    if (pread(device, &record, sizeof record, last) != (ssize_t)sizeof record) {
        fail_errno("the record of a connection");
    }
    if (record.status != WIRE_STATUS_REPLIED) {
        fail("a connection ended with status %lld", (long long)record.status);
    }
    return record;
}
