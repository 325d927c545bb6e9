/* The gaps of a CPU: times at which a program that does nothing but read the clock did not run.
 *
 *     spins ████████   ███████████████████  ████████     every read of the clock is close to the
 *                   gap                   gap            one before it, but for gaps
 *
 * The host that runs another machine, the timer tick, an interrupt, a thread of the kernel: all
 * look alike from here. Never at a real-time priority: Linux takes 50 ms of every second from a
 * SCHED_FIFO thread that spins (sched_rt_runtime_us), and those would be gaps.
 *
 * See also: cyclictest, hwlatdetect, Linux Documentation/trace/osnoise-tracer.rst. */
#include "micro.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum {
    LEAST_NS = 1000,     /* shorter ones may be reads of the clock */
    RECORDED_NS = 5000, /* longer ones are kept with their times */
};

/* One little-endian row of a recording; all machines that this is built for are. */
struct gap {
    int64_t at_ns, length_ns;
};

struct recording {
    uint64_t n, lost_ns, elapsed_ns, worst_ns;
    size_t n_kept;
    struct gap *kept;
};

struct sender {
    const struct options *options;
    struct sockaddr_in address;
    atomic_bool stop;
};

/* Send a datagram every pause from the client's side, on the server's CPU. */
static void *sender_main(void *context)
{
    struct sender *sender = context;
    struct timespec pause = {.tv_sec = sender->options->pause_us / 1000000,
                             .tv_nsec = sender->options->pause_us % 1000000 * 1000};
    pin_to_cpu(sender->options->server_cpu);
    enter_namespace(sender->options->peer_netns);
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        fail_errno("socket");
    }
    while (!atomic_load(&sender->stop)) {
        char payload[REQUEST_BYTES] = {0};
        /* What finds no room is lost, as the socket is never read: it has interrupted by then. */
        (void)sendto(fd, payload, sizeof payload, 0, (const struct sockaddr *)&sender->address,
                     sizeof sender->address);
        (void)clock_nanosleep(CLOCK_MONOTONIC, 0, &pause, NULL);
    }
    close_fd(fd);
    return NULL;
}

static int sink_open(struct sockaddr_in *address, const char *text)
{
    int fd = listener_open(address, text); /* for its checks: a free port of that address */
    close_fd(fd);
    fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || bind(fd, (const struct sockaddr *)address, sizeof *address) != 0) {
        fail_errno("a socket for datagrams on %s", text);
    }
    return fd;
}

static void keep(struct recording *recording, uint64_t at_ns, uint64_t length_ns)
{
    if (recording->n_kept == SAMPLES_MAX) {
        fail("more than %d gaps above %d us: shorten --milliseconds", SAMPLES_MAX,
             RECORDED_NS / 1000);
    }
    recording->kept[recording->n_kept++] =
        (struct gap){.at_ns = (int64_t)at_ns, .length_ns = (int64_t)length_ns};
}

static void spin(struct recording *recording, struct samples *samples, uint64_t length_ns)
{
    const uint64_t least = ns_to_ticks(LEAST_NS);
    const uint64_t first = ticks_now();
    const uint64_t last = first + ns_to_ticks((double)length_ns);
    uint64_t before = first;
    while (before < last) {
        uint64_t now = ticks_now();
        if (now - before > least) {
            uint64_t gap_ns = (uint64_t)ticks_to_ns(now - before);
            samples_add(samples, (double)gap_ns, 1);
            recording->n++;
            recording->lost_ns += gap_ns;
            recording->worst_ns = gap_ns > recording->worst_ns ? gap_ns : recording->worst_ns;
            if (gap_ns > RECORDED_NS) {
                keep(recording, (uint64_t)ticks_to_ns(before - first), gap_ns);
            }
            now = ticks_now(); /* what the notes took is no gap */
        }
        before = now;
    }
    recording->elapsed_ns = (uint64_t)ticks_to_ns(before - first);
}

static void write_recording(const struct recording *recording, const char *path)
{
    FILE *file = fopen(path, "wbe");
    if (file == NULL) {
        fail_errno("--recording %s", path);
    }
    size_t n = fwrite(recording->kept, sizeof *recording->kept, recording->n_kept, file);
    if (n != recording->n_kept || fclose(file) != 0) {
        fail_errno("--recording %s", path);
    }
}

void bench_gaps(const struct options *options)
{
    struct recording recording = {.kept = allocate(SAMPLES_MAX, sizeof *recording.kept)};
    struct samples samples;
    struct sender sender = {.options = options};
    pthread_t thread;
    int sink = -1;
    samples_open(&samples);
    if (options->pause_us > 0) {
        enter_namespace(options->server_netns);
        sink = sink_open(&sender.address, options->server_address);
        if (pthread_create(&thread, NULL, sender_main, &sender) != 0) {
            fail("a thread that sends could not be begun");
        }
    }
    pin_to_cpu(options->cpu);
    spin(&recording, &samples, (uint64_t)options->milliseconds * 1000000u);
    if (sink >= 0) {
        atomic_store(&sender.stop, true);
        (void)pthread_join(thread, NULL);
        close_fd(sink);
    }
    if (options->recording != NULL) {
        write_recording(&recording, options->recording);
    }
    if (recording.n == 0) {
        samples_add(&samples, 0.0, 0); /* a machine without gaps has a result, too */
    }
    char extra[EXTRA_MAX];
    (void)snprintf(extra, sizeof extra,
                   ", \"lost_ns\": %" PRIu64 ", \"elapsed_ns\": %" PRIu64 ", \"worst_ns\": %" PRIu64
                   ", \"above_ns\": %d",
                   recording.lost_ns, recording.elapsed_ns, recording.worst_ns, RECORDED_NS);
    samples_print(&samples, options, options->bench->name, extra);
    samples_close(&samples);
    free(recording.kept);
}
