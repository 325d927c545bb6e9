#include "connection_thread.h"

#include "program.h"
#include "request.h"
#include "server.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

/* The server of a connection's thread. The thread receives only a descriptor, as memory
 * that one thread allocates and another one frees would cost more than the thread. */
static struct blocking *served;

void connection_threads_prepare(struct blocking *server)
{
    sigset_t all;
    served = server;
    (void)sigfillset(&all);
    int state = server->threads == THREADS_POOL ? PTHREAD_CREATE_JOINABLE : PTHREAD_CREATE_DETACHED;
    if (pthread_attr_init(&server->attributes) != 0 ||
        pthread_attr_setstacksize(&server->attributes, THREAD_STACK_BYTES) != 0 ||
        pthread_attr_setdetachstate(&server->attributes, state) != 0 ||
        pthread_attr_setsigmask_np(&server->attributes, &all) != 0) {
        fail("cannot set the attributes of threads");
    }
}

/* The stopping thread reads the marks after setting the stop flag. Processes get a signal instead:
 * writing a page that they share would copy it. */
static void mark(struct blocking *server, int fd, unsigned char open)
{
    if (server->threads != THREADS_PROCESSES) {
        atomic_store(&server->is_open[fd], open);
    }
}

static void connection_close(struct blocking *server, int fd)
{
    mark(server, fd, 0);
    /* The client's reset may be reported here; the descriptor is closed all the same. */
    if (close(fd) != 0 && errno == EBADF) {
        fail("descriptor %d was not open", fd);
    }
    COUNT(server, closes);
    (void)__atomic_fetch_sub(&server->counters->connections_open, 1, __ATOMIC_RELAXED);
}

/* Write the whole reply: the call sleeps until all of it is in the send buffer. */
static bool send_reply(struct blocking *server, int fd, uint32_t reply_bytes)
{
    uint32_t n_before = 0;
    while (n_before < reply_bytes) {
        ssize_t n_sent = reply_write(&server->pattern, fd, reply_bytes, n_before);
        COUNT(server, writes);
        if (n_sent < 0) {
            return false;
        }
        n_before += (uint32_t)n_sent;
        if (n_before < reply_bytes) {
            COUNT(server, write_short);
        }
    }
    COUNT(server, replies);
    return true;
}

/* Nothing interrupts a read but the end of the server, and an error ends the connection. */
static bool read_and_answer(struct blocking *server, int fd, struct request *request)
{
    char received[READ_BYTES_MAX];
    ssize_t n_read = read(fd, received, sizeof received);
    COUNT(server, reads);
    if (n_read <= 0) {
        return false;
    }
    switch (request_feed(request, received, (size_t)n_read)) {
    case REQUEST_PARTIAL:
        return true;
    case REQUEST_BAD:
        return false;
    case REQUEST_COMPLETE:
        break;
    }
    work_do(&server->work);
    if (!send_reply(server, fd, request->reply_bytes) || !request->keep_alive) {
        return false;
    }
    request_begin(request);
    return true;
}

void connection_serve(struct blocking *server, int fd)
{
    struct request request;
    request_begin(&request);
    mark(server, fd, 1);
    while (!atomic_load(&server->stopping) && read_and_answer(server, fd, &request)) {
    }
    connection_close(server, fd);
}

static void *serve_and_end(void *fd)
{
    connection_serve(served, (int)(intptr_t)fd);
    (void)atomic_fetch_sub(&served->n_begun, 1);
    return NULL;
}

static bool begin_thread(struct blocking *server, int fd)
{
    pthread_t thread;
    return pthread_create(&thread, &server->attributes, serve_and_end, (void *)(intptr_t)fd) == 0;
}

static bool begin_process(struct blocking *server, int fd)
{
    pid_t pid = fork();
    if (pid < 0) {
        return false;
    }
    if (pid == 0) {
        (void)close(server->listener_fd);
        connection_serve(server, fd);
        _exit(EXIT_SUCCESS);
    }
    (void)close(fd); /* the other copy: the connection is not closed by it */
    return true;
}

void connection_begin(struct blocking *server, int fd)
{
    bool has_room = atomic_load(&server->n_begun) + 1 < server->workers_max;
    if (has_room) {
        (void)atomic_fetch_add(&server->n_begun, 1);
        if (server->threads == THREADS_PROCESSES ? begin_process(server, fd)
                                                 : begin_thread(server, fd)) {
            COUNT(server, spawns);
            return;
        }
        (void)atomic_fetch_sub(&server->n_begun, 1);
    }
    COUNT(server, spawn_again);
    connection_close(server, fd);
}

void connections_reap(struct blocking *server)
{
    while (atomic_load(&server->n_begun) > 0 && waitpid(-1, NULL, WNOHANG) > 0) {
        (void)atomic_fetch_sub(&server->n_begun, 1);
    }
}
