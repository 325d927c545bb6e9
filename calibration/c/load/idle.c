/* Holds idle connections: the many that a server must watch while few have data.
 *
 *   connect a batch ──► all established ──► next batch ... ──► `ready N` ──► hold until end of input
 *
 * Its local ports lie outside of net.ipv4.ip_local_port_range. Inside it, 15000 of them would make
 * connect() of the load generator search thousands of used ports for a free one, at some 800 us a
 * connection (measured), and the range ends at 28232.
 *
 * Source: Mosberger and Jin 1998, "httperf"; its idleconn does the same below 1024 descriptors.
 */
#include "../servers/program.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    CONNECTIONS_MAX = 65535, /* local ports of one address */
    PORT_MIN = 1024,         /* lower ones are privileged */
    PORT_MAX = 65535,
    BATCH = 64,              /* connections under way at once: below any sane backlog */
    FDS_SPARE = 32,          /* descriptors that are not connections */
    EVENTS_MAX = 256,
};

/* A connection that takes longer than this will not be accepted. */
static const int64_t establish_ns_max = 10 * NS_PER_S;

struct options {
    const char *address;
    int64_t port;
    int64_t n_connections;
    int64_t run_ns;
    bool reopen;
};

struct holder {
    struct sockaddr_in address;
    bool reopen;
    int64_t deadline_ns;
    int epoll_fd;
    bool *established; /* by descriptor */
    int port_low;      /* of the range from which the kernel chooses local ports */
    int port_high;
    int port_next; /* the next to try outside of it */
    int64_t n_wanted;
    int64_t n_established;
    int64_t n_under_way;
    int64_t n_reopened;
    int64_t n_dead;
};

static void parse_idle_options(struct options *options, int argc, char **argv)
{
    *options = (struct options){.address = "127.0.0.1", .run_ns = 60 * NS_PER_S};
    const struct option_spec specs[] = {
        {"address", OPTION_TEXT, &options->address, 0, 0, "the server's address (127.0.0.1)"},
        {"port", OPTION_INTEGER, &options->port, 1, 65535, "the server's port"},
        {"connections", OPTION_INTEGER, &options->n_connections, 1, CONNECTIONS_MAX,
         "number of connections to hold"},
        {"seconds-max", OPTION_SECONDS, &options->run_ns, 0, 0, "end after this long (60)"},
        {"reopen", OPTION_FLAG, &options->reopen, 0, 0,
         "replace a connection at once if the server closes it"},
    };
    parse_options("holds idle connections until end of file on standard input", specs,
                  sizeof specs / sizeof *specs, argc, argv);
    if (options->port == 0) {
        refuse("--port must be given");
    }
    if (options->n_connections == 0) {
        refuse("--connections must be given");
    }
}

static void mark_established(struct holder *holder, int fd)
{
    holder->established[fd] = true;
    holder->n_under_way--;
    holder->n_established++;
}

static void fail_to_connect(const struct holder *holder, int error)
{
    const char *cause =
        error == EADDRNOTAVAIL ? " (no local port is left: see net.ipv4.ip_local_port_range)" : "";
    fail("connection %lld of %lld failed: %s%s", (long long)holder->n_established + 1,
         (long long)holder->n_wanted, strerror(error), cause);
}

static void read_port_range(struct holder *holder)
{
    FILE *file = fopen("/proc/sys/net/ipv4/ip_local_port_range", "re");
    char text[64] = "";
    if (file == NULL || fgets(text, sizeof text, file) == NULL || fclose(file) != 0) {
        fail("cannot read net.ipv4.ip_local_port_range: %s", strerror(errno));
    }
    char *rest = NULL;
    holder->port_low = (int)strtol(text, &rest, 10);
    holder->port_high = (int)strtol(rest, NULL, 10);
    if (holder->port_low < 1 || holder->port_high < holder->port_low ||
        holder->port_high > PORT_MAX) {
        fail("net.ipv4.ip_local_port_range must be two ports, got \"%s\"", text);
    }
    holder->port_next = PORT_MAX;
}

/* Take the next free local port outside of the range; if none is free, the kernel chooses. */
static void bind_outside_range(struct holder *holder, int fd)
{
    for (int i = PORT_MIN; i <= PORT_MAX; i++) {
        int port = holder->port_next;
        holder->port_next = port == PORT_MIN ? PORT_MAX : port - 1;
        if (port >= holder->port_low && port <= holder->port_high) {
            continue;
        }
        struct sockaddr_in local = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
        if (bind(fd, (const struct sockaddr *)&local, sizeof local) == 0) {
            return;
        }
        if (errno != EADDRINUSE && errno != EACCES) {
            fail("cannot bind to local port %d: %s", port, strerror(errno));
        }
    }
}

static int begin_connect(struct holder *holder, bool *at_once)
{
    const struct linger reset_on_close = {.l_onoff = 1, .l_linger = 0};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        fail("socket: %s", strerror(errno));
    }
    if (fd >= holder->n_wanted + FDS_SPARE) {
        fail("descriptor %d is beyond the limit", fd);
    }
    if (setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset_on_close, sizeof reset_on_close) != 0) {
        fail("setsockopt of SO_LINGER: %s", strerror(errno));
    }
    bind_outside_range(holder, fd);
    *at_once = connect(fd, (const struct sockaddr *)&holder->address, sizeof holder->address) == 0;
    if (!*at_once && errno != EINPROGRESS && errno != EINTR) {
        fail_to_connect(holder, errno);
    }
    return fd;
}

static void open_one(struct holder *holder)
{
    bool at_once = false;
    int fd = begin_connect(holder, &at_once);
    struct epoll_event wanted = {.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET,
                                 .data.fd = fd};
    if (epoll_ctl(holder->epoll_fd, EPOLL_CTL_ADD, fd, &wanted) != 0) {
        fail("epoll_ctl: %s", strerror(errno));
    }
    holder->established[fd] = false;
    holder->n_under_way++;
    if (at_once) {
        mark_established(holder, fd);
    }
}

static void establish(struct holder *holder, int fd)
{
    int error = 0;
    socklen_t error_bytes = sizeof error;
    if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &error_bytes) != 0) {
        fail("getsockopt of SO_ERROR: %s", strerror(errno));
    }
    if (error != 0) {
        fail_to_connect(holder, error);
    }
    mark_established(holder, fd);
}

/* The server closed its side: replace the connection, or report the first lost one. */
static void lose(struct holder *holder, int fd)
{
    if (close(fd) != 0 && errno == EBADF) {
        fail("descriptor %d was not open", fd);
    }
    holder->established[fd] = false;
    holder->n_established--;
    if (holder->reopen) {
        holder->n_reopened++;
        open_one(holder);
        return;
    }
    if (holder->n_dead++ == 0) {
        fprintf(stderr, "%s: the server closed an idle connection\n",
                program_invocation_short_name);
    }
}

/* Has the other side closed? Data that it may have sent are discarded. */
static bool peer_is_gone(int fd)
{
    char unwanted[4096];
    for (;;) {
        ssize_t n_read = read(fd, unwanted, sizeof unwanted);
        if (n_read < 0 && errno == EINTR) {
            continue;
        }
        if (n_read <= 0) {
            return n_read == 0 || errno != EAGAIN;
        }
    }
}

/* Handle what happens until *until_ns*; return false at the end of standard input. */
static bool handle_events(struct holder *holder, int64_t until_ns)
{
    struct epoll_event events[EVENTS_MAX];
    int64_t left_ns = until_ns - clock_ns(CLOCK_MONOTONIC_RAW);
    int timeout_ms = left_ns > 0 ? (int)(left_ns / NS_PER_MS) + 1 : 0;
    int n_events = epoll_wait(holder->epoll_fd, events, EVENTS_MAX, timeout_ms);
    if (n_events < 0 && errno != EINTR) {
        fail("epoll_wait: %s", strerror(errno));
    }
    bool input_open = true;
    for (int i = 0; i < n_events; i++) {
        int fd = events[i].data.fd;
        if (fd == STDIN_FILENO) {
            char unwanted[4096];
            ssize_t n_read = read(fd, unwanted, sizeof unwanted);
            input_open = n_read > 0 || (n_read < 0 && (errno == EINTR || errno == EAGAIN));
            continue;
        }
        if (!holder->established[fd]) {
            establish(holder, fd);
        }
        if ((events[i].events & (EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR)) && peer_is_gone(fd)) {
            lose(holder, fd);
        }
    }
    return input_open;
}

static bool time_is_over(const struct holder *holder)
{
    return stop_requested() || clock_ns(CLOCK_MONOTONIC_RAW) >= holder->deadline_ns;
}

/* Open the connections a batch at a time, so that the server's backlog does not overflow. */
static void open_all(struct holder *holder)
{
    while (holder->n_established < holder->n_wanted && holder->n_dead == 0) {
        int64_t until_ns = clock_ns(CLOCK_MONOTONIC_RAW) + establish_ns_max;
        int64_t n_batch = holder->n_wanted - holder->n_established;
        for (int64_t i = 0; i < n_batch && i < BATCH; i++) {
            open_one(holder);
        }
        while (holder->n_under_way > 0) {
            if (time_is_over(holder) || clock_ns(CLOCK_MONOTONIC_RAW) >= until_ns) {
                fail("only %lld of %lld connections could be established",
                     (long long)holder->n_established, (long long)holder->n_wanted);
            }
            (void)handle_events(holder, until_ns);
        }
    }
    if (holder->n_dead > 0) {
        fail("only %lld of %lld connections could be established", (long long)holder->n_established,
             (long long)holder->n_wanted);
    }
}

/* Hold until standard input ends. Input that epoll cannot watch (a file, /dev/null) has ended. */
static void hold(struct holder *holder)
{
    struct epoll_event wanted = {.events = EPOLLIN, .data.fd = STDIN_FILENO};
    if (epoll_ctl(holder->epoll_fd, EPOLL_CTL_ADD, STDIN_FILENO, &wanted) != 0) {
        if (errno != EPERM && errno != EBADF) {
            fail("cannot watch standard input: %s", strerror(errno));
        }
        return;
    }
    while (!time_is_over(holder) && handle_events(holder, holder->deadline_ns)) {
    }
}

int main(int argc, char **argv)
{
    struct options options;
    parse_idle_options(&options, argc, argv);
    int64_t fds_max = options.n_connections + FDS_SPARE;
    struct holder holder = {
        .address = parse_address(options.address, options.port),
        .reopen = options.reopen,
        .deadline_ns = clock_ns(CLOCK_MONOTONIC_RAW) + options.run_ns,
        .n_wanted = options.n_connections,
    };
    stop_on_signals();
    limit_descriptors(fds_max);
    holder.established = calloc((size_t)fds_max, sizeof *holder.established);
    holder.epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (holder.established == NULL || holder.epoll_fd < 0) {
        fail("cannot begin: %s", strerror(errno));
    }
    read_port_range(&holder);
    open_all(&holder);
    printf("ready %lld\n", (long long)holder.n_established);
    if (fflush(stdout) != 0) {
        fail("cannot print: %s", strerror(errno));
    }
    hold(&holder);
    printf("{\"connections\": %lld, \"reopened\": %lld, \"dead\": %lld}\n",
           (long long)holder.n_established, (long long)holder.n_reopened, (long long)holder.n_dead);
    if (fflush(stdout) != 0) {
        fail("cannot print: %s", strerror(errno));
    }
    free(holder.established);
    return holder.n_dead == 0 ? EXIT_SUCCESS : EXIT_FAILED;
}
