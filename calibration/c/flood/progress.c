/* Computes without pause and records its progress, while datagrams arrive that no process reads.
 *
 *   chunk chunk ─────(interrupt)───── chunk chunk chunk ...      one clock reading a chunk
 *          at_ns  └─── length_ns ───┘                            a row for a long one
 *
 * Time on the CPU clock is no progress: Linux without CONFIG_IRQ_TIME_ACCOUNTING charges interrupts
 * to the process that they interrupt. So progress is counted in chunks of a fixed computation. A
 * chunk that takes too long shows when the CPU was taken away, and for how long.
 *
 * The socket is bound here and its small buffer is never emptied: a datagram goes all the way to
 * the socket and is dropped there.
 *
 * Source: Mogul and Ramakrishnan 1997, section 7: a process that counts, beside the flood.
 */
#include "../servers/program.h"

#include <errno.h>
#include <inttypes.h>
#include <linux/sock_diag.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    ROWS_MAX = 1000000,
    CHUNK_STEPS = 160, /* dependent multiplications: some 200 ns */
};

static const int64_t regular_ns = 5 * NS_PER_MS; /* a row at least this often, with the CPU clock */

struct options {
    const char *address, *samples;
    int64_t port, receive_buffer, run_ns, gap_ns;
};

/* cpu_ns is the process's CPU time after the chunk, in a regular row; 0 in one for a long chunk. */
struct row {
    int64_t at_ns, length_ns, n_chunks, cpu_ns;
};

struct samples {
    struct row *rows;
    size_t n, n_lost;
};

static void parse_progress_options(struct options *options, int argc, char **argv)
{
    *options = (struct options){
        .address = "127.0.0.1", .receive_buffer = 4096, .run_ns = NS_PER_S, .gap_ns = 1000};
    const struct option_spec specs[] = {
        {"address", OPTION_TEXT, &options->address, 0, 0,
         "local address of the socket (127.0.0.1)"},
        {"port", OPTION_INTEGER, &options->port, 0, 65535,
         "local port of the socket; 0: a free one"},
        {"receive-buffer", OPTION_INTEGER, &options->receive_buffer, 1, 1 << 30,
         "size of the socket's receive buffer, which is never read (4096)"},
        {"gap-ns", OPTION_INTEGER, &options->gap_ns, 100, NS_PER_S,
         "record a chunk that takes at least this long (1000)"},
        {"seconds", OPTION_SECONDS, &options->run_ns, 0, 0, "compute for this long (1)"},
        {"samples", OPTION_TEXT, &options->samples, 0, 0,
         "file for rows of at, length, chunks, CPU time; int64, ns"},
    };
    parse_options("computes and records its progress, beside a socket that it never reads", specs,
                  sizeof specs / sizeof *specs, argc, argv);
    if (options->samples == NULL) {
        refuse("--samples must be given");
    }
}

static int bind_socket(const struct options *options)
{
    struct sockaddr_in own = parse_address(options->address, options->port);
    socklen_t length = sizeof own;
    int bytes = (int)options->receive_buffer;
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof bytes) != 0) {
        fail("socket: %s", strerror(errno));
    }
    if (bind(fd, (struct sockaddr *)&own, sizeof own) != 0) {
        fail("bind to %s port %" PRId64 ": %s", options->address, options->port, strerror(errno));
    }
    if (getsockname(fd, (struct sockaddr *)&own, &length) != 0) {
        fail("getsockname: %s", strerror(errno));
    }
    printf("ready %d\n", ntohs(own.sin_port));
    if (fflush(stdout) != 0) {
        fail("standard output: %s", strerror(errno));
    }
    return fd;
}

static struct row *allocate_rows(void)
{
    /* Populated now: a later page fault would be a gap. */
    void *rows = mmap(NULL, ROWS_MAX * sizeof(struct row), PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (rows == MAP_FAILED) {
        fail("out of memory for %d rows: %s", ROWS_MAX, strerror(errno));
    }
    return rows;
}

static void note(struct samples *samples, struct row row)
{
    if (samples->n == ROWS_MAX) {
        samples->n_lost++;
        return;
    }
    samples->rows[samples->n++] = row;
}

static uint64_t compute_chunk(uint64_t state)
{
    for (int i = 0; i < CHUNK_STEPS; i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
    }
    return state;
}

/* Compute until *run_ns* have passed; return the number of chunks. */
static int64_t compute(struct samples *samples, const struct options *options)
{
    volatile uint64_t result = 1;
    int64_t n_chunks = 0;
    int64_t last_ns = clock_ns(CLOCK_MONOTONIC);
    int64_t end_ns = last_ns + options->run_ns;
    int64_t regular_at_ns = last_ns;
    while (last_ns < end_ns && !stop_requested()) {
        result = compute_chunk(result);
        int64_t now_ns = clock_ns(CLOCK_MONOTONIC);
        n_chunks++;
        if (now_ns >= regular_at_ns) {
            regular_at_ns += regular_ns;
            note(samples, (struct row){last_ns, now_ns - last_ns, n_chunks,
                                       clock_ns(CLOCK_PROCESS_CPUTIME_ID)});
            now_ns = clock_ns(CLOCK_MONOTONIC); /* the time for recording is no gap */
        } else if (now_ns - last_ns >= options->gap_ns) {
            note(samples, (struct row){last_ns, now_ns - last_ns, n_chunks, 0});
        }
        last_ns = now_ns;
    }
    return n_chunks;
}

/* The number of datagrams that the socket dropped, as counted by the kernel. */
static uint32_t drops_of(int fd)
{
    uint32_t information[SK_MEMINFO_VARS] = {0};
    socklen_t length = sizeof information;
    if (getsockopt(fd, SOL_SOCKET, SO_MEMINFO, information, &length) != 0) {
        fail("SO_MEMINFO: %s", strerror(errno));
    }
    return information[SK_MEMINFO_DROPS];
}

int main(int argc, char **argv)
{
    struct options options;
    parse_progress_options(&options, argc, argv);
    struct samples samples = {.rows = allocate_rows()};
    stop_on_signals();
    int fd = bind_socket(&options);
    int64_t n_chunks = compute(&samples, &options);
    uint32_t n_drops = drops_of(fd);
    FILE *file = fopen(options.samples, "wbe");
    if (file == NULL || fwrite(samples.rows, sizeof *samples.rows, samples.n, file) != samples.n ||
        fclose(file) != 0) {
        fail("cannot write the samples to \"%s\": %s", options.samples, strerror(errno));
    }
    printf("{\"chunks\": %" PRId64 ", \"rows\": %zu, \"rows_lost\": %zu, \"drops\": %" PRIu32 "}\n",
           n_chunks, samples.n, samples.n_lost, n_drops);
    (void)munmap(samples.rows, ROWS_MAX * sizeof *samples.rows);
    (void)close(fd);
    return fflush(stdout) == 0 ? EXIT_SUCCESS : EXIT_FAILED;
}
