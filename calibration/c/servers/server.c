/* The command line of the micro web server. */
#include "server.h"

#include "blocking.h"
#include "completion_loop.h"
#include "program.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    BACKLOG_MAX = 65535,
    FDS_MIN = 16,
    FDS_MAX = 1048576,
    SEND_BUFFER_MAX = 1 << 28,
    WORKERS_MAX = 32768,
};

struct options {
    const char *mechanism;
    const char *address;
    int64_t port;
    int64_t backlog;
    int64_t accept_limit;
    const char *listener;
    bool read_after_accept;
    int64_t events_max;
    int64_t fds_max;
    int64_t send_buffer_bytes;
    int64_t signals_max;
    const char *threads;
    int64_t workers;
    const char *counters;
    int64_t run_ns;
    bool list;
    bool layout;
};

static void parse_server_options(struct options *options, int argc, char **argv)
{
    *options = (struct options){
        .address = "127.0.0.1",
        .backlog = 4096,
        .listener = "first",
        .events_max = 1024,
        .fds_max = 16384,
        .threads = "pool",
        .workers = 64,
        .run_ns = 60 * NS_PER_S,
    };
    const struct option_spec specs[] = {
        {"mechanism", OPTION_TEXT, &options->mechanism, 0, 0, "how readiness is learnt (--list)"},
        {"address", OPTION_TEXT, &options->address, 0, 0, "where to listen (127.0.0.1)"},
        {"port", OPTION_INTEGER, &options->port, 0, 65535, "0 (default): the kernel picks one"},
        {"backlog", OPTION_INTEGER, &options->backlog, 1, BACKLOG_MAX,
         "connections that may wait to be accepted (4096)"},
        {"accept-limit", OPTION_INTEGER, &options->accept_limit, 0, INT32_MAX,
         "connections accepted per notification, 0 (default): until none is left"},
        {"listener", OPTION_TEXT, &options->listener, 0, 0,
         "first (default) or last of the events of one wait"},
        {"read-after-accept", OPTION_FLAG, &options->read_after_accept, 0, 0,
         "try to read from a connection as soon as it is accepted"},
        {"max-events", OPTION_INTEGER, &options->events_max, 1, FDS_MAX,
         "events of one wait (1024); select and poll return all there are"},
        {"fd-limit", OPTION_INTEGER, &options->fds_max, FDS_MIN, FDS_MAX,
         "descriptors of the process (16384)"},
        {"send-buffer", OPTION_INTEGER, &options->send_buffer_bytes, 0, SEND_BUFFER_MAX,
         "bytes of each connection's send buffer, 0 (default): the kernel's"},
        {"signal-queue", OPTION_INTEGER, &options->signals_max, 0, FDS_MAX,
         "signals that may be queued, 0 (default): as many as the system lets"},
        {"threads", OPTION_TEXT, &options->threads, 0, 0,
         "blocking: a pool (default), on-demand or processes: one for each connection"},
        {"workers", OPTION_INTEGER, &options->workers, 1, WORKERS_MAX,
         "blocking: threads of the pool; or at once, the one that accepts among them (64)"},
        {"counters", OPTION_TEXT, &options->counters, 0, 0, "file to map the counters to"},
        {"seconds-max", OPTION_SECONDS, &options->run_ns, 0, 0, "end after this long (60)"},
        {"list", OPTION_FLAG, &options->list, 0, 0, "print the mechanisms and end"},
        {"counters-layout", OPTION_FLAG, &options->layout, 0, 0,
         "print the counters in file order and end"},
    };
    parse_options("a micro web server with a choice of dispatch mechanisms", specs,
                  sizeof specs / sizeof *specs, argc, argv);
}

static const struct mechanism *choose_mechanism(const char *name)
{
    const struct mechanism *mechanism = name != NULL ? mechanism_find(name) : NULL;
    if (mechanism != NULL) {
        return mechanism;
    }
    char known[256] = "";
    for (size_t i = 0, at = 0; mechanisms[i] != NULL && at < sizeof known; i++) {
        at += (size_t)snprintf(known + at, sizeof known - at, "%s, ", mechanisms[i]->name);
    }
    refuse("--mechanism must be one of %s%s, %s, got \"%s\"", known, io_uring_name, blocking_name,
           name != NULL ? name : "");
}

static bool choose_listener_first(const char *when)
{
    bool first = strcmp(when, "first") == 0;
    if (!first && strcmp(when, "last") != 0) {
        refuse("--listener must be first or last, got \"%s\"", when);
    }
    return first;
}

static enum threads choose_threads(const char *word)
{
    enum threads threads;
    if (!blocking_threads(word, &threads)) {
        refuse("--threads must be pool, on-demand or processes, got \"%s\"", word);
    }
    return threads;
}

/* What is set on the listener is inherited by what it accepts, at no cost per connection. */
static int listen_on(const struct options *options, const struct sockaddr_in *address)
{
    int one = 1;
    int send_buffer_bytes = (int)options->send_buffer_bytes;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        fail("socket: %s", strerror(errno));
    }
    /* The rest of a reply that did not fit must not wait for a delayed acknowledgement. */
    if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one) != 0 ||
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one) != 0) {
        fail("setsockopt: %s", strerror(errno));
    }
    if (send_buffer_bytes > 0 &&
        setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &send_buffer_bytes, sizeof send_buffer_bytes) != 0) {
        fail("setsockopt of SO_SNDBUF: %s", strerror(errno));
    }
    if (bind(fd, (const struct sockaddr *)address, sizeof *address) != 0) {
        fail("cannot bind to %s port %lld: %s", options->address, (long long)options->port,
             strerror(errno));
    }
    if (listen(fd, (int)options->backlog) != 0) {
        fail("listen: %s", strerror(errno));
    }
    return fd;
}

static void print_ready(int listener_fd)
{
    struct sockaddr_in bound;
    socklen_t bound_bytes = sizeof bound;
    if (getsockname(listener_fd, (struct sockaddr *)&bound, &bound_bytes) != 0) {
        fail("getsockname: %s", strerror(errno));
    }
    if (printf("ready %d\n", ntohs(bound.sin_port)) < 0 || fflush(stdout) != 0) {
        fail("cannot print: %s", strerror(errno));
    }
}

/* Threads, and the kernel for a ring, wait for what they are asked to do. */
static int listen_blocking(const struct options *options, const struct sockaddr_in *address)
{
    int fd = listen_on(options, address);
    if (fcntl(fd, F_SETFL, 0) != 0) {
        fail("cannot have the listener block: %s", strerror(errno));
    }
    return fd;
}

static void run_blocking(const struct options *options)
{
    struct sockaddr_in address = parse_address(options->address, options->port);
    struct blocking *server = calloc(1, sizeof *server);
    atomic_uchar *is_open = calloc((size_t)options->fds_max, sizeof *is_open);
    if (!server || !is_open) {
        fail("out of memory");
    }
    server->threads = choose_threads(options->threads);
    server->workers_max = (size_t)options->workers;
    server->fds_max = (size_t)options->fds_max;
    server->is_open = is_open;
    stop_on_signals();
    limit_descriptors(options->fds_max);
    server->listener_fd = listen_blocking(options, &address);
    server->counters = counters_map(options->counters);
    reply_pattern_fill(&server->pattern);
    stop_after(options->run_ns);
    print_ready(server->listener_fd);
    blocking_serve(server);
    if (close(server->listener_fd) != 0) {
        fail("cannot close the listener: %s", strerror(errno));
    }
    free(is_open);
    free(server);
}

static void run_completions(const struct options *options)
{
    struct sockaddr_in address = parse_address(options->address, options->port);
    struct completion_server *server = calloc(1, sizeof *server);
    size_t fds_max = (size_t)options->fds_max;
    if (server == NULL) {
        fail("out of memory");
    }
    server->fds_max = fds_max;
    server->events_max = (size_t)options->events_max;
    stop_on_signals();
    limit_descriptors(options->fds_max);
    server->listener_fd = listen_blocking(options, &address);
    server->connections = calloc(fds_max, sizeof *server->connections);
    server->counters = counters_map(options->counters);
    if (server->connections == NULL || ring_open(&server->ring, fds_max) != 0) {
        fail("cannot open %s for %zu descriptors: %s", io_uring_name, fds_max, strerror(errno));
    }
    reply_pattern_fill(&server->pattern);
    stop_after(options->run_ns);
    print_ready(server->listener_fd);
    completion_serve(server);
    ring_close_all(&server->ring);
    if (close(server->listener_fd) != 0) {
        fail("cannot close the listener: %s", strerror(errno));
    }
    free(server->connections);
    free(server);
}

static void run(const struct options *options)
{
    const struct mechanism *mechanism = choose_mechanism(options->mechanism);
    bool listener_first = choose_listener_first(options->listener);
    struct sockaddr_in address = parse_address(options->address, options->port);
    size_t fds_max = (size_t)options->fds_max;
    stop_on_signals();
    limit_descriptors(options->fds_max);
    if (options->signals_max > 0) {
        limit_signals(options->signals_max);
    }
    struct server *server = calloc(1, sizeof *server);
    if (server == NULL) {
        fail("out of memory");
    }
    server->mechanism = mechanism;
    server->accept_limit = options->accept_limit;
    server->listener_first = listener_first;
    server->read_after_accept = options->read_after_accept;
    server->fds_max = fds_max;
    server->events_max = mechanism->events_bounded ? (size_t)options->events_max : fds_max;
    server->listener_fd = listen_on(options, &address);
    server->watched = mechanism->open(fds_max);
    server->events = calloc(server->events_max, sizeof *server->events);
    server->connections = calloc(fds_max, sizeof *server->connections);
    server->counters = counters_map(options->counters);
    if (!server->watched || !server->events || !server->connections) {
        fail("cannot open %s for %zu descriptors: %s", mechanism->name, fds_max, strerror(errno));
    }
    if (mechanism->count_into != NULL) {
        mechanism->count_into(server->watched, server->counters);
    }
    reply_pattern_fill(&server->pattern);
    stop_after(options->run_ns);
    print_ready(server->listener_fd);
    serve(server);
    mechanism->close(server->watched);
    if (close(server->listener_fd) != 0) {
        fail("cannot close the listener: %s", strerror(errno));
    }
    free(server->events);
    free(server->connections);
    free(server);
}

static bool is_chosen(const struct options *options, const char *name)
{
    return options->mechanism != NULL && strcmp(options->mechanism, name) == 0;
}

int main(int argc, char **argv)
{
    struct options options;
    parse_server_options(&options, argc, argv);
    if (options.list) {
        for (size_t i = 0; mechanisms[i] != NULL; i++) {
            puts(mechanisms[i]->name);
        }
        puts(io_uring_name);
        puts(blocking_name);
    } else if (options.layout) {
        counters_print_layout();
    } else if (is_chosen(&options, blocking_name)) {
        run_blocking(&options);
    } else if (is_chosen(&options, io_uring_name)) {
        run_completions(&options);
    } else {
        run(&options);
    }
    return fflush(stdout) == 0 ? EXIT_SUCCESS : EXIT_FAILED;
}
