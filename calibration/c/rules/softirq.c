/* How many packets a softirq handles at once, and which thread handles the rest.
 *
 *     CPU 0: datagrams ── loopback, steered (RPS) ──► CPU 1: softirq, ksoftirqd, a process
 *
 * What CPU 1 did is in /proc/net/softnet_stat, which counts for the whole machine.
 */
#include "rules.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    SENDER_CPU = 0,
    RECEIVER_CPU = 1,
    PORT = 7000,
    PAYLOAD = 18,
    FLOOD_MS = 80,
    N_COLUMNS = 3,
    /* One CPU sends no faster than another receives, unless that one takes packets apart. */
    SEGMENTS_MAX = 32,
};

struct softnet {
    unsigned long processed, dropped, squeezed;
};

static void say_setting(const char *path)
{
    long value = file_number(path);
    if (value < 0) {
        not_asked("%s cannot be read", path);
    }
    say("%ld", value);
}

static void budget(void)
{
    say_setting("/proc/sys/net/core/netdev_budget");
}

static void budget_us(void)
{
    say_setting("/proc/sys/net/core/netdev_budget_usecs");
}

static void weight(void)
{
    say_setting("/proc/sys/net/core/dev_weight");
}

static void max_backlog(void)
{
    say_setting("/proc/sys/net/core/netdev_max_backlog");
}

/* Steer what the loopback of this namespace receives to the receiver's CPU. */
static void steer(void)
{
    static const char path[] = "/sys/class/net/lo/queues/rx-0/rps_cpus";
    if (sysconf(_SC_NPROCESSORS_ONLN) <= RECEIVER_CPU) {
        not_asked("two CPUs are needed");
    }
    sure(unshare(CLONE_NEWNS), "unshare(CLONE_NEWNS)");
    sure(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL), "mount");
    sure(mount("sysfs", "/sys", "sysfs", 0, NULL), "mount of a sysfs");
    int fd = sure(open(path, O_WRONLY | O_CLOEXEC), path);
    sure(write(fd, "2", 1), path);
    (void)close(fd);
}

static struct softnet softnet_now(void)
{
    struct softnet found = {0};
    char line[256];
    FILE *file = fopen("/proc/net/softnet_stat", "re");
    if (file == NULL) {
        not_asked("/proc/net/softnet_stat: %s", strerror(errno));
    }
    for (int cpu = 0; fgets(line, sizeof line, file) != NULL; cpu++) {
        if (cpu == RECEIVER_CPU && sscanf(line, "%lx %lx %lx", &found.processed, &found.dropped,
                                          &found.squeezed) != N_COLUMNS) {
            not_asked("/proc/net/softnet_stat has another format");
        }
    }
    (void)fclose(file);
    return found;
}

/* Send datagrams that are never read; with several segments the receiver splits each. */
static struct softnet flood(int n_segments)
{
    static const char zeros[PAYLOAD * SEGMENTS_MAX];
    int size = PAYLOAD, receiver = sure(socket(AF_INET, SOCK_DGRAM, 0), "socket");
    int sender = sure(socket(AF_INET, SOCK_DGRAM, 0), "socket");
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons(PORT), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    sure(bind(receiver, (struct sockaddr *)&address, sizeof address), "bind");
    sure(connect(sender, (struct sockaddr *)&address, sizeof address), "connect");
    sure(setsockopt(sender, SOL_UDP, UDP_SEGMENT, &size, sizeof size), "UDP_SEGMENT");
    stay_on_cpu(SENDER_CPU);
    struct softnet before = softnet_now();
    for (int64_t end_ns = now_ns() + FLOOD_MS * NS_PER_MS; now_ns() < end_ns;) {
        (void)send(sender, zeros, (size_t)(PAYLOAD * n_segments), MSG_DONTWAIT);
    }
    struct softnet after = softnet_now();
    (void)close(sender);
    (void)close(receiver);
    return (struct softnet){after.processed - before.processed, after.dropped - before.dropped,
                            after.squeezed - before.squeezed};
}

/* ---- a buffer of the kernel's trace that is ours alone ---- */

struct trace {
    int instances;
    char name[32];
    int folder;
    int file; /* of the folder, open at the moment; -1: none. It would keep the instance there. */
};

static struct trace trace = {.folder = -1, .file = -1};

static void write_setting(const char *path, const char *words)
{
    trace.file = sure(openat(trace.folder, path, O_WRONLY | O_CLOEXEC), path);
    sure(write(trace.file, words, strlen(words)), path);
    (void)close(trace.file);
    trace.file = -1;
}

static void trace_end(void)
{
    (void)close(trace.file);
    (void)close(trace.folder);
    (void)unlinkat(trace.instances, trace.name, AT_REMOVEDIR);
}

/* The instance is the machine's: it must not outlive the rule, however that is ended. */
static void end_early(int number)
{
    (void)number;
    trace_end();
    _exit(EXIT_FAILURE);
}

static void trace_begin(void)
{
    static const int ends[] = {SIGALRM, SIGHUP, SIGINT, SIGTERM};
    struct sigaction early = {.sa_handler = end_early};
    sigfillset(&early.sa_mask);
    trace.instances =
        sure(open("/sys/kernel/tracing/instances", O_RDONLY | O_DIRECTORY | O_CLOEXEC),
             "/sys/kernel/tracing/instances");
    (void)snprintf(trace.name, sizeof trace.name, "rules-%ld", (long)getpid());
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++) {
        sure(sigaction(ends[i], &early, NULL), "sigaction");
    }
    /* Not by SIGKILL when the program has ended: the instance would stay. */
    sure(prctl(PR_SET_PDEATHSIG, SIGTERM), "prctl(PR_SET_PDEATHSIG)");
    sure(mkdirat(trace.instances, trace.name, 0700), "a trace of our own");
    trace.folder = openat(trace.instances, trace.name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (trace.folder < 0 || atexit(trace_end) != 0) {
        trace_end();
        not_asked("a trace of our own cannot be opened");
    }
    write_setting("tracing_cpumask", "2");
    write_setting("events/irq/softirq_entry/filter", "vec == 3");
    write_setting("events/irq/softirq_exit/filter", "vec == 3");
    write_setting("events/sched/sched_waking/filter", "comm ~ \"ksoftirqd/*\"");
    write_setting("events/irq/softirq_entry/enable", "1");
    write_setting("events/irq/softirq_exit/enable", "1");
    write_setting("events/napi/napi_poll/enable", "1");
    write_setting("events/sched/sched_waking/enable", "1");
}

/* What was seen in a flood. A chain is the rounds that follow one another in one softirq. */
struct seen {
    int packets_of_poll, rounds_of_chain, packets_of_chain; /* the most */
    bool beside;       /* interrupts handled packets while ksoftirqd was runnable */
    bool thread_works; /* ksoftirqd handled packets */
};

enum { CHAIN_GAP_NS = 5000 };

static void look(struct seen *seen)
{
    char line[512], thread[64], flags[16], event[64];
    double at_s, left_s = 0;
    int rounds = 0, packets = 0;
    bool runnable = false;
    trace.file = sure(openat(trace.folder, "trace", O_RDONLY | O_CLOEXEC), "trace");
    FILE *file = fdopen(trace.file, "r");
    while (file != NULL && fgets(line, sizeof line, file) != NULL) {
        if (sscanf(line, " %63s [%*d] %15s %lf: %63[^:]", thread, flags, &at_s, event) != 4) {
            continue;
        }
        bool by_thread = strncmp(thread, "ksoftirqd/", strlen("ksoftirqd/")) == 0;
        if (strcmp(event, "softirq_entry") == 0) {
            if (at_s - left_s > CHAIN_GAP_NS / 1e9) {
                rounds = packets = 0;
            }
            rounds++;
            seen->thread_works = seen->thread_works || by_thread;
            seen->beside = seen->beside || (runnable && !by_thread);
            runnable = runnable && !by_thread;
        } else if (strcmp(event, "softirq_exit") == 0) {
            left_s = at_s;
        } else if (strcmp(event, "napi_poll") == 0) {
            const char *work = strstr(line, " work ");
            int n = work == NULL ? 0 : atoi(work + strlen(" work "));
            packets += n;
            seen->packets_of_poll = n > seen->packets_of_poll ? n : seen->packets_of_poll;
        } else if (strcmp(event, "sched_waking") == 0 && !by_thread) {
            runnable = true;
            /* A softirq ends early where a thread is to run: N. */
            if (strchr(flags, 'N') == NULL && rounds > seen->rounds_of_chain) {
                seen->rounds_of_chain = rounds;
                seen->packets_of_chain = packets;
            }
        }
    }
    if (file == NULL || fclose(file) != 0) {
        not_asked("the trace cannot be read");
    }
    trace.file = -1;
}

static struct seen see_flood(void)
{
    struct seen seen = {0};
    trace_begin();
    steer();
    for (int n_segments = 2; n_segments <= SEGMENTS_MAX; n_segments *= 2) {
        (void)flood(n_segments);
    }
    write_setting("tracing_on", "0");
    look(&seen);
    if (seen.rounds_of_chain == 0) {
        not_asked("the flood was not more than an interrupt handles");
    }
    return seen;
}

static void packets_of_poll(void)
{
    say("%d", see_flood().packets_of_poll);
}

static void rounds_of_chain(void)
{
    say("%d", see_flood().rounds_of_chain);
}

static void packets_of_chain(void)
{
    say("%d", see_flood().packets_of_chain);
}

static void handled_beside(void)
{
    say("%s", as_bool(see_flood().beside));
}

static void thread_works(void)
{
    say("%s", as_bool(see_flood().thread_works));
}

/* More than the queue holds is lost. */
static void queue_overflows(void)
{
    steer();
    say("%s", as_bool(flood(SEGMENTS_MAX).dropped > 0));
}

const struct rule softirq_rules[] = {
    {"softirq_budget", budget, 0, 0},
    {"softirq_budget_us", budget_us, 0, 0},
    {"softirq_weight", weight, 0, 0},
    {"softirq_queue", max_backlog, 0, 0},
    {"softirq_queue_overflows", queue_overflows, NEEDS_NETWORK, 0},
    {"softirq_poll", packets_of_poll, NEEDS_NETWORK, 0},
    {"softirq_rounds", rounds_of_chain, NEEDS_NETWORK, 0},
    {"softirq_in_one_go", packets_of_chain, NEEDS_NETWORK, 0},
    {"ksoftirqd_works", thread_works, NEEDS_NETWORK, 0},
    {"ksoftirqd_and_interrupts", handled_beside, NEEDS_NETWORK, 0},
    {0},
};
