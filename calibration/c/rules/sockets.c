/* Connections over the loopback, and threads that wait. */
#include "rules.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

enum { SETTLE_MS = 3, CHUNK = 65536, WAKE_MS_MAX = 2000 };

int64_t now_ns(void)
{
    return clock_ns(CLOCK_MONOTONIC);
}

void rest_ms(int64_t milliseconds)
{
    struct timespec rest = {.tv_sec = (time_t)(milliseconds / 1000),
                            .tv_nsec = (long)(milliseconds % 1000 * NS_PER_MS)};
    while (nanosleep(&rest, &rest) != 0 && errno == EINTR) {
    }
}

void settle(void)
{
    rest_ms(SETTLE_MS);
}

static struct sockaddr_in address_of(int fd)
{
    struct sockaddr_in address;
    socklen_t size = sizeof address;
    sure(getsockname(fd, (struct sockaddr *)&address, &size), "getsockname");
    return address;
}

static void unblock(int fd)
{
    sure(fcntl(fd, F_SETFL, sure(fcntl(fd, F_GETFL), "fcntl") | O_NONBLOCK), "fcntl");
}

int listener_open(int backlog)
{
    int fd = sure(socket(AF_INET, SOCK_STREAM, 0), "socket");
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    sure(bind(fd, (struct sockaddr *)&address, sizeof address), "bind");
    sure(listen(fd, backlog), "listen");
    unblock(fd);
    return fd;
}

int connect_to(int listener)
{
    int fd = sure(socket(AF_INET, SOCK_STREAM, 0), "socket");
    struct sockaddr_in address = address_of(listener);
    sure(connect(fd, (struct sockaddr *)&address, sizeof address), "connect");
    return fd;
}

struct pair pair_open(void)
{
    int listener = listener_open(1);
    struct pair pair = {.client = connect_to(listener)};
    settle();
    pair.server = sure(accept(listener, NULL, NULL), "accept");
    unblock(pair.server);
    (void)close(listener);
    return pair;
}

void pairs_open(struct pair *pairs, int n)
{
    int listener = listener_open(n);
    for (int i = 0; i < n; i++) {
        pairs[i].client = connect_to(listener);
    }
    settle();
    for (int i = 0; i < n; i++) {
        pairs[i].server = sure(accept(listener, NULL, NULL), "accept");
        unblock(pairs[i].server);
    }
    (void)close(listener);
}

void send_bytes(int fd, size_t n)
{
    static const char zeros[CHUNK];
    for (size_t sent = 0; sent < n;) {
        size_t wanted = n - sent < sizeof zeros ? n - sent : sizeof zeros;
        sent += (size_t)sure(send(fd, zeros, wanted, 0), "send");
    }
    settle();
}

void send_byte(int fd)
{
    send_bytes(fd, 1);
}

void drain(int fd)
{
    char bytes[CHUNK];
    while (recv(fd, bytes, sizeof bytes, MSG_DONTWAIT) > 0) {
    }
}

void reset(int fd)
{
    struct linger at_once = {.l_onoff = 1, .l_linger = 0};
    sure(setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once), "setsockopt");
    sure(close(fd), "close");
    settle();
}

long fill(int fd)
{
    static const char zeros[CHUNK];
    long n_bytes = 0;
    for (int pause = 0; pause < 3; pause++) {
        ssize_t sent = 0;
        while ((sent = send(fd, zeros, sizeof zeros, MSG_DONTWAIT)) > 0) {
            n_bytes += sent;
            pause = 0;
        }
        settle();
    }
    return n_bytes;
}

void limit_descriptors_to(int n_more)
{
    /* All numbers below the lowest free one are taken. */
    struct rlimit limit;
    int next = sure(dup(STDERR_FILENO), "dup");
    (void)close(next);
    sure(getrlimit(RLIMIT_NOFILE, &limit), "getrlimit");
    limit.rlim_cur = (rlim_t)(next + n_more);
    sure(setrlimit(RLIMIT_NOFILE, &limit), "setrlimit");
}

void stay_on_cpu(int cpu)
{
    cpu_set_t cpus;
    CPU_ZERO(&cpus);
    CPU_SET((size_t)cpu, &cpus);
    sure(sched_setaffinity(0, sizeof cpus, &cpus), "sched_setaffinity");
}

struct waiter {
    struct waiters *all;
    int number;
    _Atomic pid_t thread; /* 0: it has not begun */
};

static pthread_mutex_t order_lock = PTHREAD_MUTEX_INITIALIZER;

static void *wait_and_note(void *context)
{
    struct waiter *own = context;
    own->thread = gettid();
    if (own->all->wait(own->number, own->all->context)) {
        (void)pthread_mutex_lock(&order_lock);
        own->all->order[own->all->n_woken++] = own->number;
        (void)pthread_mutex_unlock(&order_lock);
    }
    return NULL;
}

static bool is_asleep(pid_t thread)
{
    char path[64], state = '?';
    (void)snprintf(path, sizeof path, "/proc/self/task/%d/stat", (int)thread);
    FILE *file = fopen(path, "re");
    bool known = file != NULL && fscanf(file, "%*d (%*[^)]) %c", &state) == 1;
    if (file != NULL) {
        (void)fclose(file);
    }
    return known && state == 'S';
}

void waiters_begin(struct waiters *waiters)
{
    static struct waiter each[MEMBERS_MAX];
    for (int i = 0; i < waiters->n; i++) {
        pthread_t thread;
        each[i].all = waiters;
        each[i].number = i;
        if (pthread_create(&thread, NULL, wait_and_note, &each[i]) != 0) {
            not_asked("pthread_create failed");
        }
        (void)pthread_detach(thread);
        /* It sleeps behind those before it. */
        while (each[i].thread == 0 || !is_asleep(each[i].thread)) {
            rest_ms(1);
        }
    }
}

int waiters_woken(struct waiters *waiters)
{
    (void)pthread_mutex_lock(&order_lock);
    int n = waiters->n_woken;
    (void)pthread_mutex_unlock(&order_lock);
    return n;
}

void waiters_await(struct waiters *waiters, int n)
{
    for (int i = 0; i < WAKE_MS_MAX && waiters_woken(waiters) < n; i++) {
        rest_ms(1);
    }
}

long file_number(const char *path)
{
    long value = -1;
    FILE *file = fopen(path, "re");
    if (file == NULL) {
        return -1;
    }
    if (fscanf(file, "%ld", &value) != 1) {
        value = -1;
    }
    (void)fclose(file);
    return value;
}
