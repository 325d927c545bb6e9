/* The command line of the micro web server. */
#include "service.h"

#include "blocking.h"
#include "completion_loop.h"
#include "counters.h"
#include "program.h"
#include "server.h"

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
    REQUEST_US_MAX = 1000000,
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
        {"mechanism", OPTION_TEXT, &options->mechanism, 0, 0, "dispatch mechanism (see --list)"},
        {"address", OPTION_TEXT, &options->address, 0, 0, "address to listen on (127.0.0.1)"},
        {"port", OPTION_INTEGER, &options->port, 0, 65535,
         "port to listen on; 0 (default): a free one"},
        {"backlog", OPTION_INTEGER, &options->backlog, 1, BACKLOG_MAX,
         "length of the accept queue (4096)"},
        {"accept-limit", OPTION_INTEGER, &options->accept_limit, 0, INT32_MAX,
         "connections accepted per event; 0 (default): until none is left"},
        {"listener", OPTION_TEXT, &options->listener, 0, 0,
         "order of the listener among the events of one wait: first (default) or last"},
        {"read-after-accept", OPTION_FLAG, &options->read_after_accept, 0, 0,
         "read from a connection as soon as it is accepted"},
        {"max-events", OPTION_INTEGER, &options->events_max, 1, FDS_MAX,
         "most events of one wait (1024); select and poll return all"},
        {"fd-limit", OPTION_INTEGER, &options->fds_max, FDS_MIN, FDS_MAX,
         "most descriptors of the process (16384)"},
        {"send-buffer", OPTION_INTEGER, &options->send_buffer_bytes, 0, SEND_BUFFER_MAX,
         "send buffer of each connection in bytes; 0 (default): the kernel's default"},
        {"signal-queue", OPTION_INTEGER, &options->signals_max, 0, FDS_MAX,
         "most queued signals; 0 (default): the system's limit"},
        {"threads", OPTION_TEXT, &options->threads, 0, 0,
         "blocking: a pool (default), on-demand or processes (one for each connection)"},
        {"workers", OPTION_INTEGER, &options->workers, 1, WORKERS_MAX,
         "blocking: threads of the pool, or most at once, including the accepting one (64)"},
        {"request-us", OPTION_INTEGER, &options->request_us, 0, REQUEST_US_MAX,
         "user code between a whole request and its reply, in us of an undisturbed CPU (0)"},
        {"counters", OPTION_TEXT, &options->counters, 0, 0,
         "file for the counters, which is mapped"},
        {"seconds-max", OPTION_SECONDS, &options->run_ns, 0, 0, "end after this long (60)"},
        {"list", OPTION_FLAG, &options->list, 0, 0, "print the mechanisms and end"},
        {"counters-layout", OPTION_FLAG, &options->layout, 0, 0,
         "print the counters in file order and end"},
    };
    parse_options("a micro web server with a choice of dispatch mechanisms", specs,
                  sizeof specs / sizeof *specs, argc, argv);
}

/* Return the services in the order of --list: the loop with each mechanism, then those that need
 * none. Beyond the last one there is one without a name. */
static struct service service_at(size_t i)
{
    static const struct service *const others[] = {&completion_service, &blocking_service};
    size_t n = 0;
    while (n < i && mechanisms[n] != NULL) {
        n++;
    }
    if (mechanisms[n] != NULL) {
        return loop_with(mechanisms[n]);
    }
    return i - n < sizeof others / sizeof *others ? *others[i - n] : (struct service){0};
}

static _Noreturn void refuse_mechanism(const char *name)
{
    char *known = NULL;
    size_t known_bytes = 0;
    FILE *names = open_memstream(&known, &known_bytes);
    if (names == NULL) {
        fail("out of memory");
    }
    for (size_t i = 0; service_at(i).name != NULL; i++) {
        (void)fprintf(names, "%s, ", service_at(i).name);
    }
    if (fclose(names) != 0) {
        fail("out of memory");
    }
    refuse("--mechanism must be one of %sgot \"%s\"", known, name);
}

static struct service choose_service(const char *name)
{
    for (size_t i = 0; service_at(i).name != NULL; i++) {
        if (strcmp(service_at(i).name, name) == 0) {
            return service_at(i);
        }
    }
    refuse_mechanism(name);
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

/* Print the work of one request as a time and as a number of steps. */
static void print_work(const struct options *options)
{
    if (options->request_us > 0 &&
        (printf("{\"request_us\": %lld, \"request_steps\": %llu}\n", (long long)options->request_us,
                (unsigned long long)options->work.n_steps) < 0 ||
         fflush(stdout) != 0)) {
        fail("cannot print: %s", strerror(errno));
    }
}

static void run(const struct service *service, const struct options *options)
{
    struct sockaddr_in address = parse_address(options->address, options->port);
    void *server = service->prepare(service, options);
    stop_on_signals();
    limit_descriptors(options->fds_max);
    int listener_fd = listen_on(options, &address);
    if (service->listener_blocks && fcntl(listener_fd, F_SETFL, 0) != 0) {
        fail("cannot have the listener block: %s", strerror(errno));
    }
    service->open(server, options, listener_fd);
    stop_after(options->run_ns);
    print_ready(listener_fd);
    print_work(options);
    service->serve(server);
    service->close(server);
    if (close(listener_fd) != 0) {
        fail("cannot close the listener: %s", strerror(errno));
    }
}

int main(int argc, char **argv)
{
    struct options options;
    parse_server_options(&options, argc, argv);
    if (options.list) {
        for (size_t i = 0; service_at(i).name != NULL; i++) {
            puts(service_at(i).name);
        }
    } else if (options.layout) {
        counters_print_layout();
    } else {
        struct service service = choose_service(options.mechanism != NULL ? options.mechanism : "");
        options.work = work_of(options.request_us);
        run(&service, &options);
    }
    return fflush(stdout) == 0 ? EXIT_SUCCESS : EXIT_FAILED;
}
