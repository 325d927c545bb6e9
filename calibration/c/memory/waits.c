/* Threads that sleep: by themselves, in poll, and in select. */
#include "memory.h"

#include "../servers/program.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/select.h>
#include <time.h>
#include <unistd.h>

enum { POLLERS = 64, SETTLE_MS = 200 };

static int64_t n_polled;
static struct pollfd *polled;
static int pipe_ends[2];

static void *sleeps(void *unused)
{
    (void)unused;
    while (pause() < 0) {
    }
    return NULL;
}

static void *sleeps_in_poll(void *unused)
{
    (void)unused;
    (void)poll(polled, (nfds_t)n_polled, -1);
    return NULL;
}

/* Sets as large as the highest descriptor: those of the library end at FD_SETSIZE. */
static void *sleeps_in_select(void *unused)
{
    (void)unused;
    size_t n_words = (size_t)(polled[n_polled - 1].fd + 64) / 64;
    uint64_t *set = calloc(n_words, sizeof *set);
    if (set == NULL) {
        fail("out of memory");
    }
    for (int64_t i = 0; i < n_polled; i++) {
        set[polled[i].fd / 64] |= (uint64_t)1 << (polled[i].fd % 64);
    }
    (void)select(polled[n_polled - 1].fd + 1, (fd_set *)(void *)set, NULL, NULL, NULL);
    return NULL;
}

/* Wait until the process takes no more CPU time: all its threads have fallen asleep. */
static void settle(void)
{
    const struct timespec pause = {.tv_nsec = SETTLE_MS * NS_PER_MS};
    int64_t before_ns, now_ns = -1;
    do {
        before_ns = now_ns;
        (void)nanosleep(&pause, NULL);
        now_ns = clock_ns(CLOCK_PROCESS_CPUTIME_ID);
    } while (now_ns - before_ns > NS_PER_MS);
}

/* Begin n threads and let them fall asleep; return 0, or why one could not be begun. */
static int begin_threads(int64_t n, void *(*body)(void *))
{
    pthread_t thread;
    for (int64_t i = 0; i < n; i++) {
        int error = pthread_create(&thread, NULL, body, NULL);
        if (error != 0) {
            return error;
        }
    }
    settle();
    return 0;
}

/* Record the memory of n threads: the kernel's, their stacks in it, and the process's. */
static void note_threads(struct found *found, const struct reading *before,
                         const struct reading *after, int64_t n)
{
    found->asked = true;
    found->slab = grown_slab(before, after, n) / (double)n;
    int64_t stacks = after->kernel_stack - before->kernel_stack;
    int64_t of_process =
        after->own_resident - before->own_resident + after->own_tables - before->own_tables;
    found->bytes = found->slab + (double)(stacks + of_process) / (double)n;
}

/* Record the memory of POLLERS waits for n descriptors each, without the threads themselves. */
static void note_waits(struct found *found, const struct reading *before,
                       const struct reading *after, const struct found *thread, int64_t n)
{
    double threads = POLLERS * thread->slab;
    double pages = (double)(after->other - before->other);
    double slab = grown_slab(before, after, POLLERS) - threads;
    found->asked = true;
    found->bytes = (slab + pages) / (double)(POLLERS * n);
}

static void ask_wait(struct found *found, const struct found *thread, void *(*body)(void *),
                     int64_t n)
{
    static struct reading before, after;
    take_reading(&before);
    int error = begin_threads(POLLERS, body);
    if (error != 0) {
        (void)snprintf(found->reason, REASON_BYTES, "pthread_create: %s", strerror(error));
        return;
    }
    take_reading(&after);
    note_waits(found, &before, &after, thread, n);
}

void ask_waits(struct found *found, int64_t n)
{
    static struct reading before, after;
    const int64_t n_threads = n / 10;
    n_polled = n;
    polled = calloc((size_t)n, sizeof *polled);
    if (polled == NULL || pipe(pipe_ends) != 0) {
        fail("no memory, or no pipe");
    }
    limit_descriptors(n + 64);
    for (int64_t i = 0; i < n; i++) {
        polled[i] = (struct pollfd){.fd = dup(pipe_ends[0]), .events = POLLIN};
        if (polled[i].fd < 0) {
            fail("dup failed: %s", strerror(errno));
        }
    }
    take_reading(&before);
    int error = begin_threads(n_threads, sleeps);
    if (error != 0) {
        (void)snprintf(found[ITEM_THREAD].reason, REASON_BYTES, "pthread_create: %s",
                       strerror(error));
        return;
    }
    take_reading(&after);
    note_threads(&found[ITEM_THREAD], &before, &after, n_threads);
    ask_wait(&found[ITEM_POLL], &found[ITEM_THREAD], sleeps_in_poll, n);
    ask_wait(&found[ITEM_SELECT], &found[ITEM_THREAD], sleeps_in_select, n);
}
