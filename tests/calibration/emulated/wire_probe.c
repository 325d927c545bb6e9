/* A server that puts the clients of /dev/wire through single situations, one after the other.
 *
 * Prints one line a finding, `name value`; times are ns. What the values have to be, test_wire.py
 * says. Each situation has a listener and connections of its own.
 */
#include "../../../calibration/emulated/wire/wire.h"
#include "../../../calibration/c/servers/program.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { DELAY_NS = 50000, PORT = 8080, LEAD_NS = 1000000, BYTES_MAX = 65536 };

static int wire;
static int listener;
static char bytes[BYTES_MAX];

static void find(const char *name, int64_t value)
{
    printf("%s %lld\n", name, (long long)value);
}

static uint64_t soon(void)
{
    return (uint64_t)(clock_ns(CLOCK_MONOTONIC) + LEAD_NS);
}

static void sleep_ns(int64_t ns)
{
    struct timespec pause = {.tv_sec = ns / NS_PER_S, .tv_nsec = ns % NS_PER_S};
    if (nanosleep(&pause, NULL) != 0) {
        fail("nanosleep: %s", strerror(errno));
    }
}

static void order(unsigned long what, void *arguments)
{
    if (ioctl(wire, what, arguments) != 0) {
        fail("order %lu of the wire: %s", what & 0xff, strerror(errno));
    }
}

static struct wire_status status(void)
{
    struct wire_status taken;
    order(WIRE_STATUS, &taken);
    return taken;
}

/* ---- the server's side ---- */

static void begin(int backlog)
{
    struct wire_configure configure = {
        .delay_ns = DELAY_NS,
        .port = PORT,
        .connections_max = 100,
    };
    order(WIRE_CONFIGURE, &configure);
    struct sockaddr_in address = {
        .sin_family = AF_INET,
        .sin_port = htons(PORT),
        .sin_addr.s_addr = htonl(WIRE_SERVER_ADDRESS),
    };
    const int yes = 1;
    listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (listener < 0 || setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes) != 0 ||
        bind(listener, (struct sockaddr *)&address, sizeof address) != 0 ||
        listen(listener, backlog) != 0) {
        fail("cannot listen: %s", strerror(errno));
    }
}

static void finish(void)
{
    (void)close(listener);
}

static int take(void)
{
    int fd = accept(listener, NULL, NULL);
    if (fd < 0) {
        fail("accept: %s", strerror(errno));
    }
    return fd;
}

/* Bytes read, or the negative error. */
static int64_t receive(int fd)
{
    ssize_t n_read = read(fd, bytes, sizeof bytes);
    return n_read < 0 ? -errno : n_read;
}

static void reply(int fd, size_t n_bytes)
{
    if (write(fd, bytes, n_bytes) != (ssize_t)n_bytes) {
        fail("write: %s", strerror(errno));
    }
}

static int connect_one(void)
{
    struct wire_connect connect = {.n = 1};
    order(WIRE_CONNECT, &connect);
    return take();
}

/* ---- orders that are refused ---- */

static void refused(const char *name, unsigned long what, void *arguments)
{
    find(name, ioctl(wire, what, arguments) == 0 ? 0 : errno);
}

static struct wire_play good_play(struct wire_row *rows, uint64_t n_rows)
{
    uint64_t begin_ns = soon();
    return (struct wire_play){
        .n_rows = n_rows,
        .rows = (uint64_t)(uintptr_t)rows,
        .connections_max = n_rows,
        .begin_ns = begin_ns,
        .end_ns = begin_ns + NS_PER_S,
        .drain_ns = NS_PER_S,
    };
}

static void refusals_of_plays(void)
{
    struct wire_row rows[] = {{5, 1, 64, 128, 0}, {4, 1, 64, 128, 0}};
    struct wire_play play = good_play(rows, 2);
    refused("unsorted_rows", WIRE_PLAY, &play);
    play = good_play(NULL, 2);
    refused("rows_nowhere", WIRE_PLAY, &play);
    rows[1] = (struct wire_row){6, 1, WIRE_REQUEST_BYTES_MAX + 1, 128, 0};
    play = good_play(rows, 2);
    refused("request_too_long", WIRE_PLAY, &play);
    rows[1].request_bytes = 64;
    play = good_play(rows, 2);
    play.begin_ns = 1;
    refused("begin_in_the_past", WIRE_PLAY, &play);
    play = good_play(rows, 2);
    play.connections_max = 101;
    refused("more_than_configured", WIRE_PLAY, &play);
    play = good_play(rows, 2);
    play.closed = 1;
    refused("no_users", WIRE_PLAY, &play);
}

static void refusals(void)
{
    struct wire_status taken;
    refused("not_configured", WIRE_STATUS, &taken);
    struct wire_configure configure = {.delay_ns = DELAY_NS, .port = 0, .connections_max = 1};
    refused("port_0", WIRE_CONFIGURE, &configure);
    configure = (struct wire_configure){WIRE_DELAY_NS_MAX + 1, PORT, 1, 0};
    refused("delay_too_long", WIRE_CONFIGURE, &configure);
    configure = (struct wire_configure){DELAY_NS, PORT, WIRE_CONNECTIONS_MAX + 1, 0};
    refused("too_many_connections", WIRE_CONFIGURE, &configure);
    begin(16);
    refused("unknown_order", _IO('w', 99), NULL);
    find("nothing_played", read(wire, bytes, 40) < 0 ? errno : 0);
    struct wire_send send = {.first = 0, .n = 1, .request_bytes = 64, .reply_bytes = 128};
    refused("unknown_connection", WIRE_SEND, &send);
    struct wire_connect connect = {.n = UINT64_MAX};
    refused("n_too_large", WIRE_CONNECT, &connect);
    refusals_of_plays();
    finish();
}

/* ---- by hand ---- */

static void bytes_and_reset_on_time(void)
{
    begin(16);
    int fd = connect_one();
    struct wire_send send = {.n = 1, .at_ns = soon(), .request_bytes = 1, .flags = WIRE_RAW};
    order(WIRE_SEND, &send);
    find("raw_bytes", receive(fd));
    find("raw_late_ns", clock_ns(CLOCK_MONOTONIC) - (int64_t)send.at_ns - DELAY_NS);
    uint64_t n_packets = status().n_packets_to_server;
    reply(fd, 10);
    sleep_ns(39 * NS_PER_MS);
    find("acknowledged_after_39_ms", (int64_t)(status().n_packets_to_server - n_packets));
    sleep_ns(2 * NS_PER_MS);
    find("acknowledged_after_41_ms", (int64_t)(status().n_packets_to_server - n_packets));
    struct wire_reset reset = {.n = 1, .at_ns = soon()};
    order(WIRE_RESET, &reset);
    find("reset_error", -receive(fd));
    find("reset_late_ns", clock_ns(CLOCK_MONOTONIC) - (int64_t)reset.at_ns - DELAY_NS);
    find("gone", (int64_t)status().n_manual_gone);
    (void)close(fd);
    finish();
}

static void questions_by_hand(void)
{
    begin(16);
    int fd = connect_one();
    struct wire_send send = {
        .n = 1,
        .request_bytes = WIRE_REQUEST_BYTES_MAX,
        .reply_bytes = 3000,
        .flags = WIRE_KEEP_ALIVE,
    };
    order(WIRE_SEND, &send);
    sleep_ns(NS_PER_MS);
    find("long_request_bytes", receive(fd));
    bytes[WIRE_REQUEST_BYTES_MAX] = '\0';
    find("long_request_begins", strncmp(bytes, "GET /3000 HTTP/1.1\r\nP:xxx", 25) == 0);
    find("long_request_end", strstr(bytes, "\r\n\r\n") - bytes);
    reply(fd, 3000);
    sleep_ns(NS_PER_MS);
    send = (struct wire_send){.n = 1, .request_bytes = 40, .reply_bytes = 128};
    order(WIRE_SEND, &send);
    find("short_request_bytes", receive(fd));
    find("short_request_is_good",
         memcmp(bytes, "GET /128 HTTP/1.0\r\nP:xxxxxxxxxxxxxxx\r\n\r\n", 40) == 0);
    reply(fd, 128);
    sleep_ns(NS_PER_MS);
    find("after_the_last_reply", -receive(fd));
    find("replies_by_hand", (int64_t)status().n_manual_replies);
    (void)close(fd);
    finish();
}

/* ---- plays of one row or a few ---- */

static struct wire_play start(struct wire_row *rows, uint64_t n_rows, uint64_t timeout_ns)
{
    struct wire_play play = good_play(rows, n_rows);
    play.timeout_ns = timeout_ns;
    order(WIRE_PLAY, &play);
    return play;
}

static void print_records(const char *name, size_t n_records)
{
    struct wire_record records[16];
    ssize_t n_bytes = (ssize_t)(n_records * sizeof *records);
    if (pread(wire, records, sizeof records, 0) != n_bytes) {
        fail("the records of %s are not there: %s", name, strerror(errno));
    }
    for (size_t i = 0; i < n_records; i++) {
        printf("%s_status_%zu %lld\n", name, i, (long long)records[i].status);
        printf("%s_done_%zu %lld\n", name, i, (long long)records[i].done_ns);
    }
}

static void closed_without_a_word(void)
{
    struct wire_row row = {0, 1, 64, 128, 0};
    begin(16);
    (void)start(&row, 1, 0);
    int fd = take();
    find("while_playing", read(wire, bytes, 40) < 0 ? errno : 0);
    (void)receive(fd);
    (void)close(fd);
    sleep_ns(NS_PER_MS);
    print_records("speechless", 1);
    finish();
}

static void too_much_of_an_answer(void)
{
    struct wire_row row = {0, 1, 64, 128, 0};
    begin(16);
    (void)start(&row, 1, 0);
    int fd = take();
    (void)receive(fd);
    reply(fd, 129);
    sleep_ns(NS_PER_MS);
    print_records("talkative", 1);
    (void)close(fd);
    finish();
}

static void no_answer(void)
{
    struct wire_row row = {0, 1, 64, 128, 0};
    begin(16);
    struct wire_play play = start(&row, 1, 10 * NS_PER_MS);
    int fd = take();
    (void)receive(fd);
    find("given_up_error", -receive(fd));
    find("given_up_late_ns",
         clock_ns(CLOCK_MONOTONIC) - (int64_t)(play.begin_ns + play.timeout_ns) - DELAY_NS);
    print_records("mute", 1);
    (void)close(fd);
    finish();
}

/* The queue holds backlog + 1 = 2. The third's request comes again until there is room for it. */
static void no_room_at_first(void)
{
    struct wire_row rows[] = {
        {0, 1, 64, 128, 0}, {NS_PER_MS, 1, 64, 128, 0}, {NS_PER_MS, 1, 64, 128, 0}};
    begin(1);
    (void)start(rows, 3, 0);
    sleep_ns(300 * NS_PER_MS);
    for (int i = 0; i < 3; i++) {
        int fd = take();
        (void)receive(fd);
        reply(fd, 128);
        (void)close(fd);
    }
    sleep_ns(NS_PER_MS);
    print_records("crowd", 3);
    find("crowd_request_retries", (int64_t)status().n_request_retries);
    finish();
}

int main(void)
{
    wire = open(WIRE_DEVICE, O_RDWR | O_CLOEXEC);
    if (wire < 0) {
        fail("cannot open %s: %s", WIRE_DEVICE, strerror(errno));
    }
    refusals();
    bytes_and_reset_on_time();
    questions_by_hand();
    closed_without_a_word();
    too_much_of_an_answer();
    no_answer();
    no_room_at_first();
    find("lost", (int64_t)status().n_lost);
    return fflush(stdout) == 0 ? EXIT_SUCCESS : EXIT_FAILED;
}
