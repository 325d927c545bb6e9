/* Which thread wakes first, how long turns are, and when timers fire. */
#include "rules.h"

#include <errno.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    THREADS = 4,
    SPIN_MS = 1500,
    TURNS_MAX = 4096,
    AWAY_US = 100, /* an interrupt takes less, another thread's turn more */
    NICE = 5,
    NICEST = 19,
    PERCENT_STEP = 5,
    CALLS = 16,
    CALL_GAP_MS = 8,
    PORT = 9000,
    SAMPLES = 25,
    SOON_NS = 300000,
};

/* ---- which thread wakes first ---- */

static bool wait_in_accept(int number, void *context)
{
    (void)number;
    return accept(*(const int *)context, NULL, NULL) >= 0;
}

static void wake_accept(void)
{
    int listener = sure(socket(AF_INET, SOCK_STREAM, 0), "socket");
    sure(listen(listener, 8), "listen");
    struct waiters threads = {.n = THREADS, .wait = wait_in_accept, .context = &listener};
    waiters_begin(&threads);
    for (int i = 0; i < THREADS; i++) {
        (void)connect_to(listener);
        waiters_await(&threads, i + 1);
    }
    for (int i = 0; i < threads.n_woken; i++) {
        say_next("%d", threads.order[i]);
    }
    say_list_end();
}

static bool wait_on_set(int number, void *context)
{
    struct epoll_event event;
    (void)number;
    return epoll_wait(*(const int *)context, &event, 1, -1) == 1;
}

static void wake_one_set(void)
{
    struct pair pairs[THREADS];
    int set = sure(epoll_create1(0), "epoll_create1");
    pairs_open(pairs, THREADS);
    for (int i = 0; i < THREADS; i++) {
        struct epoll_event event = {.events = EPOLLIN | EPOLLONESHOT};
        sure(epoll_ctl(set, EPOLL_CTL_ADD, pairs[i].server, &event), "epoll_ctl");
    }
    struct waiters threads = {.n = THREADS, .wait = wait_on_set, .context = &set};
    waiters_begin(&threads);
    for (int i = 0; i < THREADS; i++) {
        send_byte(pairs[i].client);
        waiters_await(&threads, i + 1);
    }
    for (int i = 0; i < threads.n_woken; i++) {
        say_next("%d", threads.order[i]);
    }
    say_list_end();
}

struct own_sets {
    int sets[THREADS], listener;
};

/* The thread that wakes accepts, and waits again: print it each time it wakes. */
static bool serve_own_set(int number, void *context)
{
    struct own_sets *own = context;
    struct epoll_event event;
    return epoll_wait(own->sets[number], &event, 1, -1) == 1 &&
           accept(own->listener, NULL, NULL) >= 0;
}

static void wake_exclusive(void)
{
    struct own_sets own = {.listener = listener_open(8)};
    for (int i = 0; i < THREADS; i++) {
        struct epoll_event event = {.events = EPOLLIN | EPOLLEXCLUSIVE};
        own.sets[i] = sure(epoll_create1(0), "epoll_create1");
        sure(epoll_ctl(own.sets[i], EPOLL_CTL_ADD, own.listener, &event), "epoll_ctl");
    }
    struct waiters threads = {.n = THREADS, .wait = serve_own_set, .context = &own};
    waiters_begin(&threads);
    for (int i = 0; i < 2; i++) {
        (void)connect_to(own.listener);
        waiters_await(&threads, i + 1);
    }
    for (int i = 0; i < threads.n_woken; i++) {
        say_next("%d", threads.order[i]);
    }
    say_list_end();
}

/* ---- turns of two that compute on one CPU ---- */

struct turns {
    int n;
    int64_t ns[TURNS_MAX];
    int64_t cpu_ns;
};

static void *shared(size_t bytes)
{
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
        not_asked("mmap: %s", strerror(errno));
    }
    return memory;
}

/* Compute until *end_ns*, and note each turn: the time between two absences. */
static void compute(struct turns *turns, int64_t end_ns)
{
    int64_t turn_ns = now_ns(), last_ns = turn_ns;
    for (int64_t at_ns; (at_ns = now_ns()) < end_ns; last_ns = at_ns) {
        if (at_ns - last_ns > AWAY_US * 1000) {
            if (turns->n < TURNS_MAX) {
                turns->ns[turns->n++] = last_ns - turn_ns;
            }
            turn_ns = at_ns;
        }
    }
    turns->cpu_ns = clock_ns(CLOCK_PROCESS_CPUTIME_ID);
}

/* Two processes on one CPU, of which the second is nice; fills both records. */
static struct turns *compete(int nice_of_second)
{
    struct turns *turns = shared(2 * sizeof *turns);
    int64_t end_ns = now_ns() + (SPIN_MS + 50) * NS_PER_MS;
    pid_t children[2];
    stay_on_cpu(0);
    for (int i = 0; i < 2; i++) {
        children[i] = child_begin();
        if (children[i] == 0) {
            if (i == 1) {
                sure(setpriority(PRIO_PROCESS, 0, nice_of_second), "setpriority");
            }
            compute(&turns[i], end_ns);
            _exit(0);
        }
    }
    for (int i = 0; i < 2; i++) {
        child_await(children[i]);
    }
    return turns;
}

static int ascending(const void *left, const void *right)
{
    int64_t a = *(const int64_t *)left, b = *(const int64_t *)right;
    return (a > b) - (a < b);
}

static int64_t median(int64_t *values, int n)
{
    if (n == 0) {
        not_asked("two that compute never took turns");
    }
    qsort(values, (size_t)n, sizeof *values, ascending);
    return values[n / 2];
}

/* A turn in whole ticks: the tick is what the coarse clock moves by. */
static void say_ticks(struct turns *turns)
{
    struct timespec tick;
    sure(clock_getres(CLOCK_MONOTONIC_COARSE, &tick), "clock_getres");
    say("%ld", (long)((median(turns->ns, turns->n) + tick.tv_nsec / 2) / tick.tv_nsec));
}

static void turn_of_equals(void)
{
    say_ticks(&compete(0)[0]);
}

static void turn_of_nicest(void)
{
    say_ticks(&compete(NICEST)[1]);
}

static void share_of_nice(void)
{
    const struct turns *turns = compete(NICE);
    double share = (double)turns[1].cpu_ns / (double)(turns[0].cpu_ns + turns[1].cpu_ns);
    say("%d", PERCENT_STEP * (int)(100 * share / PERCENT_STEP + 0.5));
}

/* ---- a thread wakes on a CPU that another computes on ---- */

static void wakes_beside_busy(void)
{
    struct shared_state {
        _Atomic int64_t sent_ns;
        int64_t delays_ns[SAMPLES];
    } *state = shared(sizeof *state);
    int ends[2];
    char byte = 0;
    sure(pipe(ends), "pipe");
    if (sysconf(_SC_NPROCESSORS_ONLN) < 2) {
        not_asked("two CPUs are needed");
    }
    pid_t busy = child_begin();
    if (busy == 0) {
        stay_on_cpu(0);
        for (;;) {
            (void)now_ns();
        }
    }
    pid_t sleeper = child_begin();
    if (sleeper == 0) {
        stay_on_cpu(0);
        for (int i = 0; i < SAMPLES && read(ends[0], &byte, 1) == 1; i++) {
            state->delays_ns[i] = now_ns() - atomic_load(&state->sent_ns);
        }
        _exit(0);
    }
    stay_on_cpu(1);
    for (int i = 0; i < SAMPLES; i++) {
        rest_ms(21);
        atomic_store(&state->sent_ns, now_ns());
        sure(write(ends[1], &byte, 1), "write");
    }
    child_await(sleeper);
    child_end(busy);
    /* Others may compute there, too: a quarter of the wake-ups is enough evidence. */
    qsort(state->delays_ns, SAMPLES, sizeof state->delays_ns[0], ascending);
    say("%s", as_bool(state->delays_ns[SAMPLES / 4] < SOON_NS));
}

/* ---- timers ---- */

/* The least time of some waits of 5 ms, in whole milliseconds: ticks of 4 ms would make it 8. */
static void wait_time_out(void)
{
    int set = sure(epoll_create1(0), "epoll_create1");
    struct epoll_event event;
    int64_t least_ns = INT64_MAX;
    for (int i = 0; i < SAMPLES; i++) {
        int64_t begin_ns = now_ns();
        (void)epoll_wait(set, &event, 1, 5);
        int64_t took_ns = now_ns() - begin_ns;
        least_ns = took_ns < least_ns ? took_ns : least_ns;
    }
    say("%ld", (long)(least_ns / NS_PER_MS));
}

/* SYNs that were sent 8 ms apart are repeated after a second: print the step of the repetition
 * times, in ms, and whether at one time the last SYN is repeated first. */
static void say_repeated(void)
{
    struct wire wire;
    struct segment segment;
    int64_t at_ns[CALLS];
    int ports[CALLS], n = 0, n_times = 0;
    bool last_first = true;
    int64_t first_ns = 0, time_ns = 0;
    wire_open(&wire);
    stay_on_cpu(0); /* each CPU has a wheel of its own */
    for (int i = 0; i < CALLS; i++) {
        (void)wire_call((uint16_t)(PORT + i));
        rest_ms(CALL_GAP_MS);
    }
    while (n < CALLS && wire_receive(&wire, &segment, 1500)) {
        if (segment.at_ns > 900 * NS_PER_MS) {
            ports[n] = segment.port;
            at_ns[n++] = segment.at_ns;
        }
    }
    for (int i = 0; i < n; i++) {
        if (i == 0 || at_ns[i] - at_ns[i - 1] > 3 * NS_PER_MS) {
            time_ns = at_ns[i];
            first_ns = n_times++ == 0 ? time_ns : first_ns;
        } else {
            last_first = last_first && ports[i] < ports[i - 1];
        }
    }
    if (n < CALLS || n_times < 2) {
        not_asked("only %d of %d SYNs were repeated, at %d times", n, CALLS, n_times);
    }
    int64_t step_ns = (time_ns - first_ns) / (n_times - 1), unit_ns = 8 * NS_PER_MS;
    say_next("%ld", (long)((step_ns + unit_ns / 2) / unit_ns * 8));
    say_next("%s", as_bool(last_first));
    say_list_end();
}

const struct rule scheduling_rules[] = {
    {"wake_accept", wake_accept, 0, 0},
    {"wake_one_set", wake_one_set, 0, 0},
    {"wake_exclusive", wake_exclusive, 0, 0},
    {"turn_of_equals", turn_of_equals, 0, 0},
    {"turn_of_nicest", turn_of_nicest, 0, 0},
    {"share_of_nice", share_of_nice, 0, 0},
    {"wakes_beside_busy", wakes_beside_busy, 0, 0},
    {"wait_time_out", wait_time_out, 0, 0},
    {"timer_steps", say_repeated, NEEDS_NETWORK, 0},
    {0},
};
