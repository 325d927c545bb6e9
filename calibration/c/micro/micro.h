/* micro: the cost of one call, one interrupt, one wake-up.
 *
 *        CPU 0 (server thread)                    CPU 1 (peer thread)
 *     listener, watched sockets   <-- veth -->   the other ends, bursts, pauses
 *     own descriptor table                       own descriptor table
 *
 * The two threads have separate descriptor tables (unshare), for two reasons: the server's
 * descriptors are as densely numbered as those of a real server, and the kernel counts no
 * references that a single-threaded server would not need. */
#ifndef MICRO_H
#define MICRO_H

#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    EVENTS_MAX = 1024,
    REQUEST_BYTES = 64,
    REPLY_BYTES = 128,
    SAMPLES_MAX = 200000,
    CACHE_LINE = 64,
    EXTRA_MAX = 256, /* bytes of a result's extra fields */
};

/* Those after MECHANISM_EPOLL are known by the server's own code only. */
enum mechanism {
    MECHANISM_NONE,
    MECHANISM_SELECT,
    MECHANISM_POLL,
    MECHANISM_EPOLL,
    MECHANISM_EPOLL_EDGE,
    MECHANISM_EPOLL_ONCE,
    MECHANISM_EPOLL_CTLV,
    MECHANISM_DEV_POLL,
    MECHANISM_RT_SIGNALS,
    MECHANISM_SIGNAL_PER_FD,
    MECHANISM_SIGTIMEDWAIT4,
    MECHANISM_SIGNALFD,
    MECHANISM_AIO_POLL,
    N_MECHANISMS
};

/* ---- options.c ---- */

enum option_bit {
    TAKES_N = 1,
    TAKES_SPAN = 2,
    TAKES_FIRST = 4,
    TAKES_READY = 8,
    TAKES_BATCH = 16,
    TAKES_REPLY = 32,
    TAKES_BURST = 64,
    TAKES_PAUSE = 128,
    TAKES_MECHANISM = 256,
    TAKES_CPU = 512,
    TAKES_PAIR = 1024,      /* two threads, so two CPUs */
    NEEDS_ONE = 2048,       /* at least one watched connection */
    NEEDS_MECHANISM = 4096, /* not `none` */
    TAKES_SERVED = 8192,    /* TAKES_MECHANISM, and the server's own, too */
    TAKES_QUEUE = 16384,
    TAKES_RECORDING = 32768,
    TAKES_LIMIT = 65536,
};

struct far_options;

struct options {
    const struct bench *bench;
    long n, span, first, ready, batch, reply, burst, pause_us, cpu, queue, limit_ps;
    long milliseconds, server_cpu, peer_cpu;
    enum mechanism mechanism;
    const char *server_netns, *peer_netns, *server_address, *recording;
    const char *interface, *mac, *server_mac,
        *source; /* of the client machine, as ../far_end reads them */
    long sources;
    const struct far_options *far; /* NULL: clients are sockets */
};

struct bench {
    const char *name;
    void (*run)(const struct options *options);
    unsigned takes; /* option_bits */
    const char *prices;
    struct {
        long n, ready, milliseconds, pause_us, batch;
    } defaults; /* 0: 500 ms, 64 a batch */
    enum mechanism mechanism; /* the one in the bench's name, or the default */
};

extern const struct bench benches[];
extern const size_t n_benches;

void options_read(struct options *options, int n_words, char **words);
const char *mechanism_name(enum mechanism mechanism);

/* ---- failure.c ---- */

/* Print `micro: ...` on one line and exit with 1; the _errno form adds the text of errno. */
_Noreturn void fail(const char *format, ...) __attribute__((format(printf, 1, 2)));
_Noreturn void fail_errno(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* The same for wrong options: exit with 2. */
_Noreturn void fail_usage(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Zeroed memory for n items, or failure. */
void *allocate(size_t n, size_t bytes);

/* ---- timing.c ---- */

#if defined(__x86_64__) || defined(__i386__)
#include <x86intrin.h>
/* The cheapest clock there is: the CPU's counter, in ticks. */
static inline uint64_t ticks_now(void)
{
    return __rdtsc();
}
static inline void relax(void)
{
    _mm_pause();
}
#else
uint64_t ticks_now(void);
static inline void relax(void)
{
}
#endif

void timing_calibrate(void);
double ticks_to_ns(uint64_t ticks);
uint64_t ns_to_ticks(double ns);
uint64_t now_ns(void);
/* CPU time of the calling thread. */
uint64_t thread_cpu_ns(void);
/* What reading the CPU time twice adds to what is between: about one of the two calls. */
double thread_cpu_overhead_ns(void);
void spin_ns(double ns);
/* Read the clock until it is over; return the time that interrupts took, in ns, and their number. */
double stolen_ns(const atomic_bool *over, long *n_interrupts);

/* ---- account.c ---- */

/* What was used so far: by the calling thread, and of the server's CPU by anyone. */
struct account {
    uint64_t wall_ns, cpu_ns, idle_ns;
    long sleeps;
};

struct account account_now(const struct options *options);
/* Write the JSON fields of the use since `begin`, for each operation. */
void account_print(char *text, size_t size, const struct options *options,
                   const struct account *begin, uint64_t n_operations);

/* ---- samples.c ---- */

struct samples {
    double *values;
    size_t n;
    uint64_t operations;
};

void samples_open(struct samples *samples);
void samples_close(struct samples *samples);
/* Add the cost of one operation, measured over a batch of n_operations. */
void samples_add(struct samples *samples, double ns, uint64_t n_operations);
/* Take an overhead off each, down to 0. */
void samples_less(struct samples *samples, double overhead_ns);
double samples_quantile(const struct samples *samples, double share);
double samples_median(const struct samples *samples);
double samples_mean(const struct samples *samples);
/* Time batches of the operation until the bench's time is over; overhead is subtracted. */
void samples_measure(struct samples *samples, const struct options *options,
                     void (*operation)(void *context), void *context);
/* Print the line of one result; `extra` is empty or ", \"name\": value..." */
void samples_print(const struct samples *samples, const struct options *options, const char *bench,
                   const char *extra);

/* ---- pair.c ---- */

enum side { SERVER, PEER };

typedef void (*peer_task)(void *context);

struct client_kind;
struct far_peer;

struct pair {
    const struct options *options;
    struct sockaddr_in address; /* of the listener */
    const struct client_kind *clients; /* and packets, if --interface is given */
    struct far_peer *far;
    int listener;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    atomic_bool attentive; /* wait for the other side spinning: tasks are short, and many */
    _Atomic(enum {PEER_STARTING, PEER_RESTING, PEER_WORKING, PEER_ENDING}) state;
    peer_task task;
    void *task_context;
    _Alignas(CACHE_LINE) atomic_uint met[2];
    _Alignas(CACHE_LINE) atomic_bool stop;
    _Alignas(CACHE_LINE) atomic_bool task_over;
};

/* How packets reach the server: the word for it in the results. */
const char *steering(const struct options *options);
void pin_to_cpu(long cpu);
/* Have this thread be in the network namespace of that file; NULL: where it is. */
void enter_namespace(const char *path);
/* Start the peer; n_descriptors is what each side needs at most. */
void pair_open(struct pair *pair, const struct options *options, long n_descriptors);
void pair_close(struct pair *pair);
/* Let the peer do a task; it sleeps otherwise. One task at a time. */
void peer_start(struct pair *pair, peer_task task, void *context);
void peer_finish(struct pair *pair);
/* A spinning rendezvous of the two sides. */
void meet(struct pair *pair, enum side side);
/* The same for the peer, which leaves packets for the client machine until later: no reaction of a
 * client interrupts the server meanwhile. */
void meet_unattending(struct pair *pair);
/* The same at the head of a cycle: both learn whether there is another cycle. */
bool meet_again(struct pair *pair, enum side side, uint64_t deadline_ns);

/* ---- sockets.c ---- */

int listener_open(struct sockaddr_in *address, const char *text);
void await(int fd, short events);
int accept_one(int listener);
void accept_and_close(int listener); /* all that wait */
/* Arbitrary bytes; at most this number is sent at once. */
enum { PADDING_BYTES = 65536 };
extern const char padding[PADDING_BYTES];
void send_bytes(int fd, size_t bytes); /* of padding */
void send_text(int fd, const char *text, size_t bytes);
/* Read what is there; return the bytes, 0 if there are none yet. */
size_t receive_bytes(int fd, size_t bytes);
/* The same, where the bytes are wanted, or more than a short reply. */
size_t receive_into(char *buffer, size_t bytes, int fd);
void close_fd(int fd);
/* Move a descriptor to the least number from `number` on that is free; return it. */
int move_fd(int fd, long number);

/* ---- connections.c ---- */

/* Connections that the server watches and that stay silent (until `connections_ready`). */
struct connections {
    long n;
    int *server_fds;
    int *clients; /* their other ends (clients.h) */
};

void connections_open(struct connections *connections, struct pair *pair, long n);
void connections_close(struct connections *connections, struct pair *pair);
/* Make connections first ... first+n-1 readable by one byte each. */
void connections_ready(const struct connections *connections, struct pair *pair, long first,
                       long n);

/* ---- waiter.c ---- */

/* A set of watched descriptors and the call that returns the ready ones. */
struct waiter {
    enum mechanism mechanism;
    long n;
    struct pollfd *entries;        /* poll */
    unsigned long *wanted, *found; /* select */
    size_t bytes;                  /* select: of each bitmap */
    int fd_limit;                  /* select: the highest descriptor + 1 */
    int epoll;
    void *events;
    int timeout_ms; /* of waiter_check */
    int expected;   /* result of waiter_check */
};

void waiter_open(struct waiter *waiter, enum mechanism mechanism, const int *fds, long n);
void waiter_close(struct waiter *waiter);
int waiter_wait(struct waiter *waiter, int timeout_ms);
/* One wait that must return what is expected: the operation of the scan benches. */
void waiter_check(void *waiter);
void epoll_control(int epoll, int operation, int fd, uint32_t events);
int epoll_open(void);

/* ---- the benches ---- */

void bench_floor(const struct options *options);
void bench_clock(const struct options *options);
void bench_spin(const struct options *options);
void bench_memory(const struct options *options);
void bench_scan(const struct options *options);
void bench_sparse(const struct options *options);
void bench_ready(const struct options *options);
void bench_first(const struct options *options);
void bench_epoll_recheck(const struct options *options);
void bench_epoll_control(const struct options *options);
void bench_block(const struct options *options);
void bench_pingpong(const struct options *options);
void bench_serve_calls(const struct options *options);
void bench_crowded(const struct options *options);
void bench_amid(const struct options *options);
void bench_kept(const struct options *options);
void bench_interrupt(const struct options *options);
void bench_handshake(const struct options *options);
void bench_lone(const struct options *options);
void bench_paced(const struct options *options);
void bench_asked(const struct options *options);
void bench_way(const struct options *options);
void bench_leaving(const struct options *options);
void bench_client_calls(const struct options *options);
void bench_client_again(const struct options *options);
void bench_wait(const struct options *options);
void bench_listed(const struct options *options);
void bench_told(const struct options *options);
void bench_vain(const struct options *options);
void bench_recovers(const struct options *options);
void bench_flush(const struct options *options);
void bench_passed(const struct options *options);
void bench_watch_calls(const struct options *options);
void bench_asleep(const struct options *options);
void bench_handover(const struct options *options);
void bench_spawn(const struct options *options);
void bench_rings(const struct options *options);
void bench_ended(const struct options *options);
void bench_gaps(const struct options *options);
void bench_calm(const struct options *options);

#endif
