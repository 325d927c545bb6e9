/* The server's own calls, where a failure ends the program. */
#include "watched.h"

#include <errno.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

static void limit_signals(long n)
{
    struct rlimit limit = {.rlim_cur = (rlim_t)n, .rlim_max = (rlim_t)n};
    if (setrlimit(RLIMIT_SIGPENDING, &limit) != 0) {
        fail_errno("a queue of %ld signals", n);
    }
}

/* To ignore a signal discards what is queued of it. */
static void discard(int signal_number)
{
    if (signal(signal_number, SIG_IGN) == SIG_ERR || signal(signal_number, SIG_DFL) == SIG_ERR) {
        fail_errno("signal %d", signal_number);
    }
}

void discard_signals(void)
{
    discard(SIGRTMIN);
    discard(SIGIO);
}

static void signals_of_servers(sigset_t *signals)
{
    if (sigemptyset(signals) != 0 || sigaddset(signals, SIGRTMIN) != 0 ||
        sigaddset(signals, SIGIO) != 0) {
        fail_errno("a set of signals");
    }
}

void block_signals(void)
{
    sigset_t signals;
    signals_of_servers(&signals);
    if (sigprocmask(SIG_BLOCK, &signals, NULL) != 0) {
        fail_errno("cannot block signals");
    }
}

/* One more of this process's own; false: there is no room. */
static bool signal_finds_room(void)
{
    if (sigqueue(getpid(), SIGRTMIN, (union sigval){0}) == 0) {
        return true;
    }
    if (errno != EAGAIN) {
        fail_errno("sigqueue");
    }
    return false;
}

void queue_signal(void)
{
    if (!signal_finds_room()) {
        fail("a signal found no room: is RLIMIT_SIGPENDING too low?");
    }
}

void fill_signal_queue(void)
{
    limit_signals(1);
    /* SIGIO, too: the first signal that is lost would queue it. */
    if (kill(getpid(), SIGIO) != 0) {
        fail_errno("SIGIO");
    }
    while (signal_finds_room())
        ;
}

struct served *watched_open(const struct options *options, long fds_max)
{
    if (options->queue > 0) {
        limit_signals(options->queue);
    }
    const char *name =
        options->mechanism == MECHANISM_EPOLL ? "epoll_level" : mechanism_name(options->mechanism);
    struct served *served = served_open(name, (size_t)fds_max);
    if (served == NULL) {
        fail_errno("the server's %s", name);
    }
    return served;
}

void watch(struct served *served, int fd)
{
    if (served_watch(served, fd) != 0) {
        fail_errno("cannot watch descriptor %d", fd);
    }
}

void unwatch(struct served *served, int fd)
{
    if (served_unwatch(served, fd) != 0) {
        fail_errno("cannot unwatch descriptor %d", fd);
    }
}

void want_to_write(struct served *served, int fd)
{
    if (served_watch_to_write(served, fd) != 0) {
        fail_errno("cannot watch descriptor %d for writing", fd);
    }
}

void want_to_read(struct served *served, int fd)
{
    watch(served, fd);
}

void wait_for(struct served *served, long n)
{
    int n_ready = served_wait(served);
    if (n_ready != n) {
        fail("a wait found %d ready descriptors instead of %ld", n_ready, n);
    }
}

uint64_t ticks_of_wait(struct served *served, long n)
{
    uint64_t first = ticks_now();
    wait_for(served, n);
    return ticks_now() - first;
}

void take_request(int fd)
{
    size_t n = receive_bytes(fd, REQUEST_BYTES);
    if (n != REQUEST_BYTES) {
        fail("%zu bytes of a request came instead of %d", n, REQUEST_BYTES);
    }
}

void reply(int fd, long reply_bytes)
{
    if (!served_reply(fd, (size_t)reply_bytes)) {
        fail_errno("a reply of %ld bytes", reply_bytes);
    }
}
