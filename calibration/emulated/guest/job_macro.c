/* One operating point: the unchanged server under the load of a trace, seen twice.
 *
 *     server ─► `ready` ─► idle population ─► begin ──warm-up──┬──window──┬──after──► drained
 *                                        whole second       snapshot   snapshot
 *
 * Frames, in this order:
 *
 *     counters_before  counters_after   the server's counters file
 *     wire_before      wire_after       struct wire_status
 *     usage_before     usage_after      struct usage, below
 *     wire_end                          struct wire_status when the play was over
 *     times                             int64: begin, window begin, window end (CLOCK_MONOTONIC)
 *     records                           struct wire_record of each connection started
 */
#include "console.h"
#include "job.h"
#include "marker.h"

#include "../../c/load/trace.h"
#include "../../c/servers/counters.h"
#include "../../c/servers/program.h"
#include "../wire/wire.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    PATIENCE_S = 60, /* of the machine's own time, for the server and for the idle population */
    LEAD_NS = 100000000, /* the rows of a long trace are copied meanwhile */
};

static const char output_path[] = "/tmp/server.out";
static const char counters_path[] = "/tmp/counters";

/* The kernel's account of the server process: the time it ran, as the scheduler counts it (all
 * that interrupted it included), and how often it gave the CPU away. */
struct usage {
    int64_t run_ns;
    int64_t n_switches_voluntary;
    int64_t n_switches_involuntary;
};

struct snapshot {
    struct counters counters;
    struct wire_status wire;
    struct usage usage;
};

struct run {
    pid_t server;
    int wire_fd;
    const struct counters *counters;
    struct trace trace;
};

static void sleep_until(int64_t at_ns)
{
    struct timespec at = {.tv_sec = at_ns / NS_PER_S, .tv_nsec = at_ns % NS_PER_S};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL) == EINTR) {
    }
}

/* Let a millisecond pass; ends the program if the server has ended or *deadline_ns* has passed. */
static void wait_a_little(const struct run *run, int64_t deadline_ns, const char *what)
{
    int status = 0;
    int64_t now_ns = clock_ns(CLOCK_MONOTONIC);
    if (waitpid(run->server, &status, WNOHANG) != 0) {
        fail("the server ended while waiting for %s", what);
    }
    if (now_ns > deadline_ns) {
        fail("%s did not come within %d s", what, PATIENCE_S);
    }
    sleep_until(now_ns + NS_PER_MS);
}

static struct wire_status wire_status(const struct run *run)
{
    struct wire_status status;
    if (ioctl(run->wire_fd, WIRE_STATUS, &status) != 0) {
        fail("WIRE_STATUS: %s", strerror(errno));
    }
    return status;
}

static void start_server(struct run *run)
{
    struct stat output = {0};
    run->server = job_start_program(output_path, NULL);
    int64_t deadline_ns = clock_ns(CLOCK_MONOTONIC) + PATIENCE_S * NS_PER_S;
    while (stat(output_path, &output) != 0 || output.st_size == 0) {
        wait_a_little(run, deadline_ns, "the server's `ready`");
    }
    int fd = open(counters_path, O_RDONLY | O_CLOEXEC);
    void *mapped = mmap(NULL, sizeof(struct counters), PROT_READ, MAP_SHARED, fd, 0);
    if (fd < 0 || mapped == MAP_FAILED) {
        fail("cannot map the server's counters %s: %s", counters_path, strerror(errno));
    }
    run->counters = mapped;
}

static void open_wire(struct run *run)
{
    struct wire_configure configure = {
        .delay_ns = (uint64_t)job_setting("delay_ns"),
        .port = (uint64_t)job_setting("port"),
        .connections_max = (uint64_t)job_setting("connections_max"),
        .quick_acks = (uint64_t)job_setting("quick_acks"),
    };
    run->wire_fd = open(WIRE_DEVICE, O_RDWR | O_CLOEXEC);
    if (run->wire_fd < 0 || ioctl(run->wire_fd, WIRE_CONFIGURE, &configure) != 0) {
        fail("cannot configure %s: %s", WIRE_DEVICE, strerror(errno));
    }
}

/* The idle population is complete when both ends count it. */
static void connect_idle(const struct run *run)
{
    uint64_t n_idle = (uint64_t)job_setting("idle");
    struct wire_connect connect = {.n = n_idle, .gap_ns = (uint64_t)job_setting("idle_gap_ns")};
    if (n_idle == 0) {
        return;
    }
    if (ioctl(run->wire_fd, WIRE_CONNECT, &connect) != 0) {
        fail("WIRE_CONNECT of %llu: %s", (unsigned long long)n_idle, strerror(errno));
    }
    int64_t deadline_ns = clock_ns(CLOCK_MONOTONIC) + PATIENCE_S * NS_PER_S;
    while (*(const volatile uint64_t *)&run->counters->connections_open < n_idle) {
        wait_a_little(run, deadline_ns, "the idle population");
    }
}

static void play(const struct run *run, int64_t begin_ns)
{
    struct wire_row *rows = calloc((size_t)run->trace.n_rows, sizeof *rows);
    if (rows == NULL) {
        fail("out of memory for %lld rows", (long long)run->trace.n_rows);
    }
    for (int64_t i = 0; i < run->trace.n_rows; i++) {
        rows[i] = (struct wire_row){
            .at_ns = (uint64_t)run->trace.rows[i].at_ns,
            .n_requests = run->trace.rows[i].n_requests,
            .request_bytes = run->trace.rows[i].request_bytes,
            .reply_bytes = run->trace.rows[i].reply_bytes,
            .think_ns = (uint64_t)run->trace.rows[i].think_ns,
        };
    }
    struct wire_play order = {
        .closed = run->trace.loop == LOOP_CLOSED,
        .n_users = (uint64_t)run->trace.n_users,
        .n_rows = (uint64_t)run->trace.n_rows,
        .rows = (uint64_t)(uintptr_t)rows,
        .connections_max = (uint64_t)job_setting("records_max"),
        .begin_ns = (uint64_t)begin_ns,
        .end_ns = (uint64_t)(begin_ns + job_setting("load_ns")),
        .drain_ns = (uint64_t)job_setting("drain_ns"),
        .timeout_ns = (uint64_t)job_setting("timeout_ns"),
    };
    if (ioctl(run->wire_fd, WIRE_PLAY, &order) != 0) {
        fail("WIRE_PLAY of %lld rows: %s", (long long)run->trace.n_rows, strerror(errno));
    }
    free(rows);
}

static struct usage server_usage(const struct run *run)
{
    struct usage usage = {0};
    clockid_t clock;
    if (clock_getcpuclockid(run->server, &clock) != 0) {
        fail("the server ended during the run");
    }
    usage.run_ns = clock_ns(clock);
    char path[64];
    char line[128];
    (void)snprintf(path, sizeof path, "/proc/%d/status", (int)run->server);
    FILE *file = fopen(path, "re");
    if (file == NULL) {
        fail("cannot read %s: %s", path, strerror(errno));
    }
    while (fgets(line, sizeof line, file) != NULL) {
        (void)sscanf(line, "voluntary_ctxt_switches: %ld", &usage.n_switches_voluntary);
        (void)sscanf(line, "nonvoluntary_ctxt_switches: %ld", &usage.n_switches_involuntary);
    }
    (void)fclose(file);
    return usage;
}

/* The counters and the wire first, and what marks the place beside them for a profiler: reading
 * the rest takes the CPU some microseconds. */
static struct snapshot take_snapshot(const struct run *run, void (*mark)(void))
{
    struct snapshot snapshot = {.wire = wire_status(run)};
    mark();
    memcpy(&snapshot.counters, run->counters, sizeof snapshot.counters);
    snapshot.usage = server_usage(run);
    return snapshot;
}

static void print_snapshots(const struct snapshot *before, const struct snapshot *after)
{
    console_frame("counters_before", &before->counters, sizeof before->counters);
    console_frame("counters_after", &after->counters, sizeof after->counters);
    console_frame("wire_before", &before->wire, sizeof before->wire);
    console_frame("wire_after", &after->wire, sizeof after->wire);
    console_frame("usage_before", &before->usage, sizeof before->usage);
    console_frame("usage_after", &after->usage, sizeof after->usage);
}

static void print_records(const struct run *run, uint64_t n_records)
{
    size_t n_bytes = n_records * sizeof(struct wire_record);
    char *bytes = malloc(n_bytes + 1);
    size_t at = 0;
    if (bytes == NULL) {
        fail("out of memory for %llu records", (unsigned long long)n_records);
    }
    while (at < n_bytes) {
        ssize_t taken = read(run->wire_fd, bytes + at, n_bytes - at);
        if (taken <= 0) {
            fail("cannot read the records: %s", taken < 0 ? strerror(errno) : "too few");
        }
        at += (size_t)taken;
    }
    console_frame("records", bytes, n_bytes);
    free(bytes);
}

/* The load begins at a whole second, so that the kernel's tick has the same phase after any
 * preparation: points then do not differ by when they began. */
static int64_t next_begin_ns(void)
{
    int64_t earliest_ns = clock_ns(CLOCK_MONOTONIC) + LEAD_NS;
    return (earliest_ns / NS_PER_S + 1) * NS_PER_S;
}

void job_macro(void)
{
    struct run run = {.trace = trace_read(FILE_TRACE)};
    open_wire(&run);
    start_server(&run);
    connect_idle(&run);
    int64_t begin_ns = next_begin_ns();
    int64_t window_begin_ns = begin_ns + job_setting("warm_up_ns");
    int64_t window_end_ns = window_begin_ns + job_setting("window_ns");
    play(&run, begin_ns);
    sleep_until(window_begin_ns);
    struct snapshot before = take_snapshot(&run, marker_begin);
    sleep_until(window_end_ns);
    struct snapshot after = take_snapshot(&run, marker_end);
    int64_t over_ns = begin_ns + job_setting("load_ns") + job_setting("drain_ns");
    sleep_until(begin_ns + job_setting("load_ns"));
    struct wire_status end = wire_status(&run);
    while (end.playing != 0) {
        wait_a_little(&run, over_ns + NS_PER_S, "the end of the play");
        end = wire_status(&run);
    }
    int64_t times[] = {begin_ns, window_begin_ns, window_end_ns};
    print_snapshots(&before, &after);
    console_frame("wire_end", &end, sizeof end);
    console_frame("times", times, sizeof times);
    print_records(&run, end.n_started);
}
