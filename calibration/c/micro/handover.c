/* Handing over the CPU: one thread sleeps in read(), and another that was woken continues.
 *
 *     write ─► wakes 2 │ read, asleep ─► 2: returns │ write ─► wakes 3 │ read, asleep ─► 3 ...
 *     write            │ read                         one thread alone, which finds its own bytes
 *
 * n threads, or processes, in a ring of pipes, so that the CPU is never idle: the difference is the
 * cost of sleeping and waking without idleness in between, with the caches of n stacks if there are
 * any. The cost of a wait queue is included, as a pipe has one. */
#include "repeated.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LAPS = 64 };

struct stage {
    int in, out;
    pthread_t thread;
    pid_t process;
};

static void hand_over(int in, int out)
{
    char byte = 1;
    if (write(out, &byte, 1) != 1 || read(in, &byte, 1) != 1) {
        fail_errno("a ring of pipes");
    }
}

static void *pass_on(void *opaque)
{
    const struct stage *stage = opaque;
    char byte;
    while (read(stage->in, &byte, 1) == 1 && byte != 0) {
        if (write(stage->out, &byte, 1) != 1) {
            fail_errno("a ring of pipes");
        }
    }
    if (write(stage->out, &byte, 1) != 1) { /* 0: the end, which goes around */
        fail_errno("a ring of pipes");
    }
    return NULL;
}

/* Stage 0 is this program itself. */
static struct stage *pipes_open(long n, bool processes)
{
    struct stage *stages = allocate((size_t)n, sizeof *stages);
    for (long i = 0; i < n; i++) {
        int fds[2];
        if (pipe(fds) != 0) {
            fail_errno("pipe");
        }
        stages[i].out = fds[1];
        stages[(i + 1) % n].in = fds[0];
    }
    for (long i = 1; i < n; i++) {
        if (processes && (stages[i].process = fork()) == 0) {
            (void)pass_on(&stages[i]);
            _exit(0);
        }
        if (!processes && pthread_create(&stages[i].thread, NULL, pass_on, &stages[i]) != 0) {
            fail("no thread");
        }
    }
    return stages;
}

static void pipes_close(struct stage *stages, long n, bool processes)
{
    char end = 0;
    if (write(stages[0].out, &end, 1) != 1 || read(stages[0].in, &end, 1) != 1) {
        fail_errno("a ring of pipes");
    }
    for (long i = 0; i < n; i++) {
        if (i > 0 && processes && waitpid(stages[i].process, NULL, 0) < 0) {
            fail_errno("waitpid");
        }
        if (i > 0 && !processes && pthread_join(stages[i].thread, NULL) != 0) {
            fail("a thread does not end");
        }
        close_fd(stages[i].in);
        close_fd(stages[i].out);
    }
    free(stages);
}

/* Of a hop, over some laps; the byte is with stage 0 before and afterwards. */
static double hop_ns(const struct stage *stages, long n, int laps)
{
    uint64_t first = ticks_now();
    for (int i = 0; i < laps; i++) {
        hand_over(stages[0].in, stages[0].out);
    }
    return ns_of(ticks_now() - first) / (double)(laps * n);
}

/* handover_threads, handover_processes */
void bench_handover(const struct options *options)
{
    bool processes = strcmp(options->bench->name, "handover_processes") == 0;
    struct samples samples;
    samples_open(&samples);
    pin_to_cpu(options->server_cpu); /* and with it all that it begins */
    struct stage *alone = pipes_open(1, processes), *ring = pipes_open(options->n, processes);
    for (struct repetitions r = repetitions_of(options); repeat(&r);) {
        await_calm();
        double alone_ns = hop_ns(alone, 1, LAPS);
        await_calm();
        double ring_ns = hop_ns(ring, options->n, (int)(LAPS / options->n) + 1);
        add_warm(&samples, r.n, ring_ns - alone_ns, LAPS);
    }
    samples_print(&samples, options, options->bench->name, "");
    samples_close(&samples);
    pipes_close(alone, 1, processes);
    pipes_close(ring, options->n, processes);
}
