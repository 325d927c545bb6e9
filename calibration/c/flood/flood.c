/* Sends datagrams at the times of a schedule, so that another CPU has to receive them.
 *
 *   start ──quiet──► first due ─ spin ─ send ─ spin ─ send ... ──► last ──quiet──► one line of JSON
 *
 * It spins even while it sends nothing: the sender's CPU may slow its neighbour (a shared core, a
 * shared cache). The quiet parts, with which the flood is compared, then have this effect, too.
 * A flood is bounded by its schedule, by a time, and by DATAGRAMS_MAX.
 *
 * One CPU sends no faster than another can receive. With several segments a call makes one packet,
 * and the receiver's interrupt splits it (UDP_SEGMENT, Linux 4.18) and falls behind.
 *
 * Source: Mogul and Ramakrishnan 1997, "Eliminating receive livelock in an interrupt-driven
 * kernel", section 6.1: UDP datagrams at a rate, received beside a process that computes.
 */
#include "../servers/program.h"

#include <errno.h>
#include <inttypes.h>
#include <netinet/udp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    DATAGRAMS_MAX = 4000000,
    PAYLOAD_MAX = 1400,
    SEGMENTS_MAX = 40, /* of PAYLOAD_MAX bytes: what fits a packet of 64 KiB */
    QUIET_MS_MAX = 10000,
    SEND_BUFFER_BYTES = 16 << 20, /* more than the receiving CPU's backlog can hold */
};

struct options {
    const char *address, *schedule, *records;
    int64_t port, payload, segments, quiet_ms, run_ns;
};

/* The record of each datagram: the begin of its call, from the first due time, and its length. */
struct record {
    int64_t at_ns, took_ns;
};

struct flood {
    int64_t *due_ns;
    struct record *records;
    size_t n_due, n_sent, n_refused;
};

static void parse_flood_options(struct options *options, int argc, char **argv)
{
    *options = (struct options){.address = "127.0.0.1",
                                .payload = 18,
                                .segments = 1,
                                .quiet_ms = 200,
                                .run_ns = 10 * NS_PER_S};
    const struct option_spec specs[] = {
        {"address", OPTION_TEXT, &options->address, 0, 0, "destination address (127.0.0.1)"},
        {"port", OPTION_INTEGER, &options->port, 1, 65535, "destination port"},
        {"schedule", OPTION_TEXT, &options->schedule, 0, 0,
         "file of due times in ns, int64, ascending"},
        {"records", OPTION_TEXT, &options->records, 0, 0,
         "file for begin and length of each call, in ns, int64"},
        {"payload", OPTION_INTEGER, &options->payload, 0, PAYLOAD_MAX, "bytes a datagram (18)"},
        {"segments", OPTION_INTEGER, &options->segments, 1, SEGMENTS_MAX,
         "datagrams sent by one call as one packet; the receiver splits it (1)"},
        {"quiet-ms", OPTION_INTEGER, &options->quiet_ms, 0, QUIET_MS_MAX,
         "spin this long before the first and after the last (200)"},
        {"seconds-max", OPTION_SECONDS, &options->run_ns, 0, 0,
         "end the flood after this long (10)"},
    };
    parse_options("sends datagrams at the times of a schedule", specs, sizeof specs / sizeof *specs,
                  argc, argv);
    if (options->port == 0) {
        refuse("--port must be given");
    }
    if (options->schedule == NULL) {
        refuse("--schedule must be given");
    }
    if (options->segments > 1 && options->payload == 0) {
        refuse("--payload must be at least 1 with --segments, got 0");
    }
}

/* Read the due times; refuse a file with a partial, unordered or excessive number of times. */
static void read_schedule(struct flood *flood, const char *path)
{
    FILE *file = fopen(path, "rbe");
    if (file == NULL) {
        refuse("--schedule must be a readable file, got \"%s\": %s", path, strerror(errno));
    }
    flood->due_ns = calloc(DATAGRAMS_MAX + 1, sizeof *flood->due_ns);
    if (flood->due_ns == NULL) {
        fail("out of memory for %d due times", DATAGRAMS_MAX);
    }
    size_t n_bytes = fread(flood->due_ns, 1, (DATAGRAMS_MAX + 1) * sizeof *flood->due_ns, file);
    if (ferror(file) || fclose(file) != 0) {
        refuse("--schedule must be a readable file, got \"%s\": %s", path, strerror(errno));
    }
    flood->n_due = n_bytes / sizeof *flood->due_ns;
    if (n_bytes % sizeof *flood->due_ns != 0 || flood->n_due == 0 || flood->n_due > DATAGRAMS_MAX) {
        refuse("--schedule must hold 1 to %d times of 8 bytes, got %zu bytes or more",
               DATAGRAMS_MAX, n_bytes);
    }
    for (size_t i = 0; i < flood->n_due; i++) {
        if (flood->due_ns[i] < (i == 0 ? 0 : flood->due_ns[i - 1])) {
            refuse("--schedule must ascend from 0, but time %zu is %" PRId64, i, flood->due_ns[i]);
        }
    }
    flood->records = calloc(flood->n_due, sizeof *flood->records);
    if (flood->records == NULL) {
        fail("out of memory for %zu records", flood->n_due);
    }
    /* Touched before the flood: a page fault during it would be a pause. */
    memset(flood->records, 0xff, flood->n_due * sizeof *flood->records);
}

static int open_socket(const struct options *options)
{
    struct sockaddr_in to = parse_address(options->address, options->port);
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    int bytes = SEND_BUFFER_BYTES;
    if (fd < 0) {
        fail("socket: %s", strerror(errno));
    }
    /* Datagrams in the receiving CPU's backlog count as unsent; without permission for a large
     * buffer some sends may be refused, and are counted. */
    if (setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &bytes, sizeof bytes) != 0 &&
        setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes) != 0) {
        fail("SO_SNDBUF: %s", strerror(errno));
    }
    int segment_bytes = (int)options->payload;
    if (options->segments > 1 &&
        setsockopt(fd, SOL_UDP, UDP_SEGMENT, &segment_bytes, sizeof segment_bytes) != 0) {
        fail("UDP_SEGMENT: %s", strerror(errno));
    }
    if (connect(fd, (struct sockaddr *)&to, sizeof to) != 0) {
        fail("connect to %s: %s", options->address, strerror(errno));
    }
    return fd;
}

static int64_t spin_until(int64_t at_ns)
{
    int64_t now_ns = clock_ns(CLOCK_MONOTONIC);
    while (now_ns < at_ns && !stop_requested()) {
        now_ns = clock_ns(CLOCK_MONOTONIC);
    }
    return now_ns;
}

/* Send one datagram without sleeping; the kernel may refuse it. */
static void send_one(struct flood *flood, int fd, const char *payload, size_t n_bytes)
{
    if (send(fd, payload, n_bytes, MSG_DONTWAIT) >= 0) {
        flood->n_sent++;
        return;
    }
    /* ECONNREFUSED belongs to an earlier datagram that found no socket bound to its port. */
    if (errno != EAGAIN && errno != ENOBUFS && errno != ECONNREFUSED) {
        fail("send of datagram %zu: %s", flood->n_sent + 1, strerror(errno));
    }
    flood->n_refused++;
}

static void send_all(struct flood *flood, int fd, const struct options *options, int64_t begin_ns)
{
    static const char payload[PAYLOAD_MAX * SEGMENTS_MAX];
    for (size_t i = 0; i < flood->n_due; i++) {
        int64_t at_ns = spin_until(begin_ns + flood->due_ns[i]);
        if (stop_requested() || at_ns - begin_ns >= options->run_ns) {
            break;
        }
        send_one(flood, fd, payload, (size_t)(options->payload * options->segments));
        flood->records[i] = (struct record){
            .at_ns = at_ns - begin_ns,
            .took_ns = clock_ns(CLOCK_MONOTONIC) - at_ns,
        };
    }
}

static void write_records(const struct flood *flood, const char *path)
{
    FILE *file = fopen(path, "wbe");
    size_t n = flood->n_sent + flood->n_refused;
    if (file == NULL || fwrite(flood->records, sizeof *flood->records, n, file) != n ||
        fclose(file) != 0) {
        fail("cannot write the records to \"%s\": %s", path, strerror(errno));
    }
}

int main(int argc, char **argv)
{
    struct options options;
    struct flood flood = {0};
    parse_flood_options(&options, argc, argv);
    read_schedule(&flood, options.schedule);
    stop_on_signals();
    int fd = open_socket(&options);
    int64_t quiet_ns = options.quiet_ms * NS_PER_MS;
    int64_t begin_ns = clock_ns(CLOCK_MONOTONIC) + quiet_ns;
    printf("start %" PRId64 "\n", begin_ns);
    if (fflush(stdout) != 0) {
        fail("standard output: %s", strerror(errno));
    }
    (void)spin_until(begin_ns);
    send_all(&flood, fd, &options, begin_ns);
    int64_t end_ns = clock_ns(CLOCK_MONOTONIC);
    (void)spin_until(end_ns + quiet_ns);
    if (options.records != NULL) {
        write_records(&flood, options.records);
    }
    printf("{\"due\": %zu, \"sent\": %zu, \"refused\": %zu, \"elapsed_ns\": %" PRId64 "}\n",
           flood.n_due, flood.n_sent, flood.n_refused, end_ns - begin_ns);
    free(flood.due_ns);
    free(flood.records);
    (void)close(fd);
    return fflush(stdout) == 0 ? EXIT_SUCCESS : EXIT_FAILED;
}
