/* The table of benches. */
#include "micro.h"

const struct bench benches[] = {
    {"floor", bench_floor, 0, "the cheapest system call (getppid)", {0}, 0},
    {"clock", bench_clock, 0, "clock_gettime", {0}, 0},
    {"spin", bench_spin, TAKES_CPU, "a fixed piece of arithmetic (is the CPU slow?)", {0}, 0},
    {"memory", bench_memory, TAKES_CPU,
     "one dependent access in 16 MB (are neighbours in the cache?)", {0}, 0},
    {"select_scan", bench_scan, TAKES_PAIR | TAKES_N | NEEDS_ONE, "one select, none of n ready",
     {.n = 100}, MECHANISM_SELECT},
    {"poll_scan", bench_scan, TAKES_PAIR | TAKES_N | NEEDS_ONE, "one poll, none of n ready",
     {.n = 100}, MECHANISM_POLL},
    {"select_sparse", bench_sparse, TAKES_PAIR | TAKES_N | NEEDS_ONE | TAKES_SPAN,
     "one select of n descriptors among span numbers", {.n = 100}, MECHANISM_SELECT},
    {"select_first", bench_first, TAKES_PAIR | TAKES_N | NEEDS_ONE | TAKES_FIRST,
     "one select with registration before position first", {.n = 100}, MECHANISM_SELECT},
    {"poll_first", bench_first, TAKES_PAIR | TAKES_N | NEEDS_ONE | TAKES_FIRST,
     "one poll with registration before position first", {.n = 100}, MECHANISM_POLL},
    {"select_ready", bench_ready, TAKES_PAIR | TAKES_N | TAKES_READY,
     "one select that finds the last of n ready", {.n = 100, .ready = 1}, MECHANISM_SELECT},
    {"poll_ready", bench_ready, TAKES_PAIR | TAKES_N | TAKES_READY,
     "one poll that finds the last of n ready", {.n = 100, .ready = 1}, MECHANISM_POLL},
    {"epoll_wait_ready", bench_ready, TAKES_PAIR | TAKES_N | TAKES_READY,
     "one epoll_wait that finds some of n ready", {.n = 100, .ready = 1}, MECHANISM_EPOLL},
    {"epoll_recheck", bench_epoll_recheck, TAKES_PAIR | TAKES_N | TAKES_READY,
     "one epoll_wait over a list of drained descriptors", {.n = 100, .ready = 16},
     MECHANISM_EPOLL},
    {"epoll_add", bench_epoll_control, TAKES_PAIR | TAKES_N | TAKES_BATCH, "EPOLL_CTL_ADD",
     {.n = 100}, MECHANISM_EPOLL},
    {"epoll_mod", bench_epoll_control, TAKES_PAIR | TAKES_N | TAKES_BATCH, "EPOLL_CTL_MOD",
     {.n = 100}, MECHANISM_EPOLL},
    {"epoll_del", bench_epoll_control, TAKES_PAIR | TAKES_N | TAKES_BATCH, "EPOLL_CTL_DEL",
     {.n = 100}, MECHANISM_EPOLL},
    {"select_block", bench_block, TAKES_PAIR | TAKES_N | NEEDS_ONE | TAKES_PAUSE,
     "CPU time of a select that sleeps, and of the read after it",
     {.n = 100, .milliseconds = 1000, .pause_us = 200}, MECHANISM_SELECT},
    {"poll_block", bench_block, TAKES_PAIR | TAKES_N | NEEDS_ONE | TAKES_PAUSE,
     "CPU time of a poll that sleeps, and of the read after it",
     {.n = 100, .milliseconds = 1000, .pause_us = 200}, MECHANISM_POLL},
    {"epoll_block", bench_block, TAKES_PAIR | TAKES_N | NEEDS_ONE | TAKES_PAUSE,
     "CPU time of an epoll_wait that sleeps, and of the read after it",
     {.n = 100, .milliseconds = 1000, .pause_us = 200}, MECHANISM_EPOLL},
    {"serve_calls", bench_serve_calls,
     TAKES_PAIR | TAKES_N | TAKES_BATCH | TAKES_REPLY | TAKES_MECHANISM,
     "accept, read, write and close of a server, in batches", {.milliseconds = 1000}, 0},
    {"interrupt_connect", bench_interrupt, TAKES_PAIR | TAKES_BURST | TAKES_PAUSE,
     "CPU time that one incoming connection steals", {.milliseconds = 1000, .pause_us = 300}, 0},
    {"interrupt_data", bench_interrupt, TAKES_PAIR | TAKES_BURST | TAKES_PAUSE | TAKES_MECHANISM,
     "CPU time that one incoming request steals", {.milliseconds = 1000, .pause_us = 300}, 0},
    {"interrupt_reset", bench_interrupt,
     TAKES_PAIR | TAKES_BURST | TAKES_PAUSE | TAKES_MECHANISM,
     "CPU time that one incoming reset steals", {.milliseconds = 1000, .pause_us = 300}, 0},
    {"pingpong_spin", bench_pingpong, TAKES_PAIR | TAKES_N | TAKES_PAUSE,
     "round trip to a server that spins on read", {.milliseconds = 1000, .pause_us = 200}, 0},
    {"pingpong_block", bench_pingpong,
     TAKES_PAIR | TAKES_N | TAKES_PAUSE | TAKES_MECHANISM | NEEDS_MECHANISM,
     "round trip to a server that sleeps in its mechanism",
     {.milliseconds = 1000, .pause_us = 200}, MECHANISM_EPOLL},
    {"handshake_idle", bench_handshake, TAKES_PAIR | TAKES_PAUSE,
     "connect until writable, the server's CPU asleep", {.pause_us = 300}, 0},
    {"handshake_spin", bench_handshake, TAKES_PAIR | TAKES_PAUSE,
     "connect until writable, the server's CPU busy", {.pause_us = 300}, 0},
    {"client_calls", bench_client_calls, TAKES_PAIR | TAKES_BATCH,
     "connect, send, receive and close of a load generator", {0}, 0},
};

const size_t n_benches = sizeof benches / sizeof benches[0];

int main(int n_words, char **words)
{
    struct options options;
    options_read(&options, n_words, words);
    timing_calibrate();
    options.bench->run(&options);
    return 0;
}
