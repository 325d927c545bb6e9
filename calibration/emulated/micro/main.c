/* The table of benches, and many of them in one boot: each argument is a whole command line.
 *
 *     micro 'poll_scan --n 100' 'interrupt_data --burst 16' ...
 *
 * Each runs in a process of its own, so that each finds an empty descriptor table. One that comes
 * alone needs none; a fork of its own then finds what it finds in a server. */
#include "far_end.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { WORDS_MAX = 32 };

/* A row a bench: the formatter would give each field a line. */
/* clang-format off */
const struct bench benches[] = {
    {"floor", bench_floor, 0, "the cheapest system call (getppid)", {.milliseconds = 1}, 0},
    {"clock", bench_clock, 0, "clock_gettime", {.milliseconds = 1}, 0},
    {"spin", bench_spin, TAKES_CPU, "a fixed piece of arithmetic", {.milliseconds = 1}, 0},
    {"select_scan", bench_scan, TAKES_N | NEEDS_ONE, "one select, none of n ready",
     {.n = 100, .milliseconds = 1}, MECHANISM_SELECT},
    {"poll_scan", bench_scan, TAKES_N | NEEDS_ONE, "one poll, none of n ready",
     {.n = 100, .milliseconds = 1}, MECHANISM_POLL},
    {"select_sparse", bench_sparse, TAKES_N | NEEDS_ONE | TAKES_SPAN,
     "one select of n descriptors among span numbers", {.n = 100, .milliseconds = 1},
     MECHANISM_SELECT},
    {"select_first", bench_first, TAKES_N | NEEDS_ONE | TAKES_FIRST,
     "one select with registration before position first", {.n = 100, .milliseconds = 1},
     MECHANISM_SELECT},
    {"poll_first", bench_first, TAKES_N | NEEDS_ONE | TAKES_FIRST,
     "one poll with registration before position first", {.n = 100, .milliseconds = 1},
     MECHANISM_POLL},
    {"select_ready", bench_ready, TAKES_N | TAKES_READY,
     "one select that finds the last of n ready", {.n = 100, .ready = 1, .milliseconds = 1},
     MECHANISM_SELECT},
    {"poll_ready", bench_ready, TAKES_N | TAKES_READY, "one poll that finds the last of n ready",
     {.n = 100, .ready = 1, .milliseconds = 1}, MECHANISM_POLL},
    {"epoll_wait_ready", bench_ready, TAKES_N | TAKES_READY,
     "one epoll_wait that finds some of n ready", {.n = 100, .ready = 1, .milliseconds = 1},
     MECHANISM_EPOLL},
    {"wait_ready", bench_wait,
     TAKES_N | TAKES_SPAN | TAKES_READY | TAKES_FIRST | TAKES_MECHANISM | TAKES_SERVED |
         NEEDS_ONE | NEEDS_MECHANISM,
     "one wait of the server that finds some of n ready", {.n = 100, .ready = 1},
     MECHANISM_EPOLL},
    {"wait_told", bench_told,
     TAKES_N | TAKES_READY | TAKES_MECHANISM | TAKES_SERVED | NEEDS_MECHANISM,
     "waits of a server that is notified of changes", {.n = 100, .ready = 1}, MECHANISM_EPOLL_EDGE},
    {"wait_vain", bench_vain,
     TAKES_N | TAKES_MECHANISM | TAKES_SERVED | NEEDS_ONE | NEEDS_MECHANISM,
     "extra cost of a wait for a listener without connections", {.n = 1}, MECHANISM_EPOLL_EDGE},
    {"wait_recovers", bench_recovers,
     TAKES_N | TAKES_QUEUE | TAKES_MECHANISM | TAKES_SERVED | NEEDS_MECHANISM,
     "a wait that finds signals lost", {.n = 100}, MECHANISM_RT_SIGNALS},
    {"wait_changed", bench_far_changed,
     TAKES_BATCH | TAKES_MECHANISM | TAKES_SERVED | NEEDS_MECHANISM,
     "waits of a server that passes changes before them", {0}, MECHANISM_EPOLL_CTLV},
    {"epoll_recheck", bench_far_recheck, TAKES_N | TAKES_READY,
     "one epoll_wait over a list of drained descriptors", {.n = 100, .ready = 16},
     MECHANISM_EPOLL},
    {"epoll_add", bench_epoll_control, TAKES_N | TAKES_BATCH, "EPOLL_CTL_ADD",
     {.n = 100, .milliseconds = 1}, MECHANISM_EPOLL},
    {"epoll_mod", bench_epoll_control, TAKES_N | TAKES_BATCH, "EPOLL_CTL_MOD",
     {.n = 100, .milliseconds = 1}, MECHANISM_EPOLL},
    {"epoll_del", bench_epoll_control, TAKES_N | TAKES_BATCH, "EPOLL_CTL_DEL",
     {.n = 100, .milliseconds = 1}, MECHANISM_EPOLL},
    {"block", bench_far_block,
     TAKES_N | TAKES_READY | TAKES_REPLY | TAKES_PAUSE | TAKES_MECHANISM | TAKES_SERVED |
         NEEDS_ONE | NEEDS_MECHANISM,
     "busy time of a wait that sleeps, and its latency",
     {.n = 1, .ready = 1, .pause_us = 200}, MECHANISM_EPOLL},
    {"asleep", bench_far_asleep,
     TAKES_N | TAKES_MECHANISM | TAKES_SERVED | NEEDS_ONE | NEEDS_MECHANISM,
     "from the begin of a wait until it counts as idle", {.n = 1}, MECHANISM_EPOLL},
    {"serve_calls", bench_far_serve,
     TAKES_N | TAKES_BATCH | TAKES_REPLY | TAKES_MECHANISM | TAKES_SERVED,
     "the calls of a server, in batches", {0}, 0},
    {"interrupt_connect", bench_far_connect, TAKES_N | TAKES_BURST | TAKES_MECHANISM,
     "CPU time that one incoming connection steals", {0}, 0},
    {"interrupt_data", bench_far_interrupt,
     TAKES_N | TAKES_BURST | TAKES_MECHANISM | TAKES_SERVED,
     "CPU time that the first request of a connection steals", {0}, 0},
    {"interrupt_data_queued", bench_far_interrupt, TAKES_N | TAKES_BURST,
     "the same, of a connection that is not accepted yet", {0}, 0},
    {"interrupt_data_more", bench_far_interrupt,
     TAKES_N | TAKES_BURST | TAKES_QUEUE | TAKES_MECHANISM | TAKES_SERVED,
     "the same for a byte more where bytes are unread", {0}, 0},
    {"interrupt_reset", bench_far_answered, TAKES_BURST | TAKES_REPLY,
     "the same for a reset after the server's close", {0}, 0},
    {"deferred_tick", bench_far_deferred_tick,
     TAKES_N | TAKES_MECHANISM | TAKES_SERVED | NEEDS_MECHANISM,
     "the timer tick after n closes", {0}, MECHANISM_EPOLL},
    {"deferred_again", bench_far_deferred_again, TAKES_N,
     "the timer tick after n calls of accept that found nothing", {0}, 0},
    {"deferred_sleep", bench_far_deferred_sleep, TAKES_N | TAKES_MECHANISM | NEEDS_MECHANISM,
     "a wait that sleeps after n calls of accept that found nothing", {0}, MECHANISM_EPOLL},
    {"write_leaves", bench_far_write_leaves, TAKES_REPLY,
     "from the begin of a write until its packet is on the way", {0}, 0},
    {"accept_looks", bench_far_accept_looks, 0,
     "from the begin of an accept until it looks at its queue", {0}, 0},
    {"wait_looks", bench_far_wait_looks,
     TAKES_N | TAKES_MECHANISM | TAKES_SERVED | NEEDS_MECHANISM,
     "from the begin of a wait until it looks at the first descriptor", {.n = 2},
     MECHANISM_POLL},
    {"interrupt_syn_dropped", bench_far_dropped, TAKES_BURST,
     "CPU time that a SYN steals while the accept queue is full", {0}, 0},
    {"handshake_idle", bench_far_handshake, 0, "SYN until SYN-ACK, the CPU asleep", {0}, 0},
    {"read_sleeps", bench_far_sleeps, 0, "busy time of a read that sleeps, and its latency", {0},
     0},
    {"accept_sleeps", bench_far_sleeps, 0, "the same of accept", {0}, 0},
    {"handover_threads", bench_handover, TAKES_N | NEEDS_ONE,
     "from a thread that sleeps in read to the next of n", {.n = 2}, 0},
    {"handover_processes", bench_handover, TAKES_N | NEEDS_ONE,
     "the same of processes", {.n = 2}, 0},
    {"spawn_thread", bench_spawn, 0, "a thread for a connection", {0}, 0},
    {"spawn_process", bench_spawn, 0, "a process for a connection", {0}, 0},
    {"spawn_threads", bench_spawn, TAKES_BATCH, "threads for connections that come at once",
     {.batch = 8}, 0},
    {"polls_submitted", bench_far_polls,
     TAKES_BATCH | TAKES_MECHANISM | TAKES_SERVED | NEEDS_MECHANISM,
     "waits of a server that submits polls before them", {0}, MECHANISM_AIO_POLL},
    {"polls_sleep", bench_far_polls_sleep, TAKES_MECHANISM | TAKES_SERVED | NEEDS_MECHANISM,
     "busy time of such a wait that sleeps, and its latency", {0}, MECHANISM_AIO_POLL},
    {"ring_calls", bench_rings, TAKES_BATCH, "what is done through io_uring, in batches", {0},
     0},
    {"ring_sleeps", bench_far_ring_sleeps, 0,
     "busy time of an io_uring_enter that sleeps, and its latency", {0}, 0},
    {"close_ended", bench_far_answered, TAKES_BURST | TAKES_REPLY,
     "a close after the client's reset, and that reset", {0}, 0},
    {"write_flights", bench_far_flights, TAKES_REPLY,
     "a long reply until all of it is acknowledged", {0}, 0},
    {"handshake_spin", bench_far_handshake, 0, "SYN until SYN-ACK, the CPU busy", {0}, 0},
};
/* clang-format on */

const size_t n_benches = sizeof benches / sizeof benches[0];

static void run_line(char *program, const char *line)
{
    struct options options;
    char *copy = strdup(line);
    char *words[WORDS_MAX] = {program};
    int n_words = 1;
    if (copy == NULL) {
        fail("no memory");
    }
    for (char *word = strtok(copy, " "); word != NULL && n_words < WORDS_MAX;
         word = strtok(NULL, " ")) {
        words[n_words++] = word;
    }
    options_read(&options, n_words, words);
    options.bench->run(&options);
    free(copy);
}

int main(int n_lines, char **lines)
{
    int failures = 0;
    if (n_lines < 2) {
        fail_usage("which benches? One argument each (try --list or --help)");
    }
    timing_calibrate();
    ticks_learn();
    served_prepare();
    if (n_lines == 2) {
        run_line(lines[0], lines[1]);
        return 0;
    }
    for (int i = 1; i < n_lines; i++) {
        pid_t child = fork();
        if (child < 0) {
            fail_errno("fork");
        }
        if (child == 0) {
            run_line(lines[0], lines[i]);
            exit(0);
        }
        int status = 0;
        if (waitpid(child, &status, 0) != child) {
            fail_errno("waitpid");
        }
        if (status != 0) {
            (void)fprintf(stderr, "micro: failed: %s\n", lines[i]);
            failures++;
        }
    }
    return failures > 0;
}
