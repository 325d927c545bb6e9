#include "blocking.h"

#include "accept_errors.h"
#include "connection_thread.h"
#include "program.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

/* Sleep until there is a connection; -1: the server stops. */
static int accept_connection(struct blocking *server)
{
    for (;;) {
        int fd = accept4(server->listener_fd, NULL, NULL, SOCK_CLOEXEC);
        if (fd >= 0 && (size_t)fd >= server->fds_max) {
            fail("descriptor %d is beyond the limit of %zu", fd, server->fds_max);
        }
        if (fd >= 0) {
            COUNT(server, accepts);
            COUNT(server, connections_open);
            return fd;
        }
        int error = errno;
        if (atomic_load(&server->stopping) || stop_requested()) {
            return -1;
        }
        if (accept_error_is_want(error)) {
            COUNT(server, accept_no_fd);
        } else if (!accept_error_is_of_one_connection(error)) {
            fail("accept4: %s", strerror(error));
        }
    }
}

static void *serve_in_turn(void *opaque)
{
    struct blocking *server = opaque;
    for (int fd = accept_connection(server); fd >= 0; fd = accept_connection(server)) {
        connection_serve(server, fd);
    }
    return NULL;
}

/* Wake threads that sleep in a call: accept4 then fails, and a read returns the end. */
static void wake_sleepers(struct blocking *server)
{
    atomic_store(&server->stopping, true);
    (void)shutdown(server->listener_fd, SHUT_RDWR);
    for (size_t fd = 0; fd < server->fds_max; fd++) {
        if (atomic_load(&server->is_open[fd])) {
            (void)shutdown((int)fd, SHUT_RDWR);
        }
    }
}

/* The threads have no signals, so one that asks to stop interrupts this one. */
static void serve_by_pool(struct blocking *server)
{
    pthread_t *threads = calloc(server->workers_max, sizeof *threads);
    if (threads == NULL) {
        fail("out of memory for %zu threads", server->workers_max);
    }
    for (size_t i = 0; i < server->workers_max; i++) {
        int error = pthread_create(&threads[i], &server->attributes, serve_in_turn, server);
        if (error != 0) {
            fail("cannot begin thread %zu of %zu: %s", i + 1, server->workers_max, strerror(error));
        }
    }
    while (!stop_requested()) {
        (void)pause();
    }
    wake_sleepers(server);
    for (size_t i = 0; i < server->workers_max; i++) {
        (void)pthread_join(threads[i], NULL);
    }
    free(threads);
}

static void begin_for_each(struct blocking *server)
{
    for (;;) {
        int fd = accept_connection(server);
        if (fd < 0) {
            return;
        }
        if (server->threads == THREADS_PROCESSES) {
            connections_reap(server);
        }
        connection_begin(server, fd);
    }
}

/* Threads are detached: the last one ends without a notification. */
static void serve_by_threads(struct blocking *server)
{
    const struct timespec a_little = {.tv_nsec = NS_PER_MS};
    begin_for_each(server);
    wake_sleepers(server);
    while (atomic_load(&server->n_begun) > 0) {
        (void)nanosleep(&a_little, NULL);
    }
}

/* All processes are in a group of their own, so that one signal stops them all. */
static void serve_by_processes(struct blocking *server)
{
    (void)setpgid(0, 0); /* whose process leads a session, leads a group already */
    begin_for_each(server);
    (void)kill(0, SIGTERM);
    while (waitpid(-1, NULL, 0) > 0 || errno == EINTR) {
    }
}

static void serve(void *opaque)
{
    struct blocking *server = opaque;
    connection_threads_prepare(server);
    switch (server->threads) {
    case THREADS_POOL:
        serve_by_pool(server);
        break;
    case THREADS_ON_DEMAND:
        serve_by_threads(server);
        break;
    case THREADS_PROCESSES:
        serve_by_processes(server);
        break;
    }
    (void)pthread_attr_destroy(&server->attributes);
}

static enum threads threads_called(const char *word)
{
    static const char *const words[] = {
        [THREADS_POOL] = "pool",
        [THREADS_ON_DEMAND] = "on-demand",
        [THREADS_PROCESSES] = "processes",
    };
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        if (strcmp(word, words[i]) == 0) {
            return (enum threads)i;
        }
    }
    refuse("--threads must be pool, on-demand or processes, got \"%s\"", word);
}

static void *prepare(const struct service *service, const struct options *options)
{
    struct blocking *server = calloc(1, sizeof *server);
    atomic_uchar *is_open = calloc((size_t)options->fds_max, sizeof *is_open);
    (void)service;
    if (!server || !is_open) {
        fail("out of memory");
    }
    server->threads = threads_called(options->threads);
    server->workers_max = (size_t)options->workers;
    server->fds_max = (size_t)options->fds_max;
    server->work = options->work;
    server->is_open = is_open;
    return server;
}

static void open_server(void *opaque, const struct options *options, int listener_fd)
{
    struct blocking *server = opaque;
    server->listener_fd = listener_fd;
    server->counters = counters_map(options->counters);
    reply_pattern_fill(&server->pattern);
}

static void close_server(void *opaque)
{
    struct blocking *server = opaque;
    free(server->is_open);
    free(server);
}

const struct service blocking_service = {
    .name = "blocking",
    .listener_blocks = true,
    .prepare = prepare,
    .open = open_server,
    .serve = serve,
    .close = close_server,
};
