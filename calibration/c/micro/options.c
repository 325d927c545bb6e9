/* The command line: one table of options; each bench declares which of them it accepts. */
#include "../far_end/peers.h"
#include "micro.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NOT_GIVEN = -1 };

struct number_option {
    const char *name;
    size_t offset;
    unsigned bit; /* 0: every bench takes it */
    long min, max;
    const char *meaning;
};

static const struct number_option numbers[] = {
    {"--n", offsetof(struct options, n), TAKES_N, 0, 1000000, "watched connections"},
    {"--span", offsetof(struct options, span), TAKES_SPAN, 1, 1000000,
     "descriptor numbers that the watched ones are spread over"},
    {"--first", offsetof(struct options, first), TAKES_FIRST, 0, 1000000,
     "position of the only ready one (default: the last)"},
    {"--ready", offsetof(struct options, ready), TAKES_READY, 0, 1000000,
     "ready connections, the last of the watched ones"},
    {"--batch", offsetof(struct options, batch), TAKES_BATCH, 1, 4000, "connections a batch"},
    {"--reply", offsetof(struct options, reply), TAKES_REPLY, 1, 65536, "bytes of a reply"},
    {"--burst", offsetof(struct options, burst), TAKES_BURST, 1, 1024, "operations a burst"},
    {"--pause-us", offsetof(struct options, pause_us), TAKES_PAUSE, 0, 1000000,
     "pause between operations or bursts"},
    {"--cpu", offsetof(struct options, cpu), TAKES_CPU, 0, 1023, "CPU under test"},
    {"--queue", offsetof(struct options, queue), TAKES_QUEUE, 0, 1000000,
     "signals that may be queued (0: as many as the kernel allows)"},
    {"--limit-ps", offsetof(struct options, limit_ps), TAKES_LIMIT, 0, 1000000000,
     "a call that takes no longer is calm (0: wait for the whole time)"},
    {"--milliseconds", offsetof(struct options, milliseconds), 0, 1, 60000, "length of the run"},
    {"--server-cpu", offsetof(struct options, server_cpu), 0, 0, 1023, "CPU of the server"},
    {"--sources", offsetof(struct options, sources), 0, 1, SOURCES_MAX, "addresses of the clients"},
    {"--peer-cpu", offsetof(struct options, peer_cpu), 0, 0, 1023, "CPU of the peer"},
};

struct text_option {
    const char *name;
    size_t offset;
    unsigned bit; /* 0: every bench takes it */
    const char *meaning;
};

static const struct text_option texts[] = {
    {"--server-netns", offsetof(struct options, server_netns), 0, "file of its network namespace"},
    {"--peer-netns", offsetof(struct options, peer_netns), 0, "file of its network namespace"},
    {"--server-address", offsetof(struct options, server_address), 0, "IPv4 address to listen on"},
    {"--interface", offsetof(struct options, interface), 0,
     "the peer's interface; clients are then packets, not sockets"},
    {"--mac", offsetof(struct options, mac), 0, "Ethernet address of the clients, not a kernel's"},
    {"--server-mac", offsetof(struct options, server_mac), 0, "Ethernet address of the server"},
    {"--source", offsetof(struct options, source), 0,
     "first IPv4 address of the clients, not a kernel's"},
    {"--recording", offsetof(struct options, recording), TAKES_RECORDING,
     "file for the times and lengths of long gaps"},
};

enum { N_NUMBERS = sizeof numbers / sizeof numbers[0], N_TEXTS = sizeof texts / sizeof texts[0] };

static const char *const mechanism_names[] = {
    [MECHANISM_NONE] = "none",
    [MECHANISM_SELECT] = "select",
    [MECHANISM_POLL] = "poll",
    [MECHANISM_EPOLL] = "epoll",
    [MECHANISM_EPOLL_EDGE] = "epoll_edge",
    [MECHANISM_EPOLL_ONCE] = "epoll_once",
    [MECHANISM_EPOLL_CTLV] = "epoll_ctlv",
    [MECHANISM_DEV_POLL] = "dev_poll",
    [MECHANISM_RT_SIGNALS] = "rt_signals",
    [MECHANISM_SIGNAL_PER_FD] = "signal_per_fd",
    [MECHANISM_SIGTIMEDWAIT4] = "sigtimedwait4",
    [MECHANISM_SIGNALFD] = "signalfd",
    [MECHANISM_AIO_POLL] = "aio_poll",
};

const char *mechanism_name(enum mechanism mechanism)
{
    return mechanism_names[mechanism];
}

static void print_help(void)
{
    printf("usage: micro BENCH [options]    prints one JSON line a result\n"
           "       micro --list             prints the names of the benches\n\nbenches:\n");
    for (size_t i = 0; i < n_benches; i++) {
        printf("  %-18s %s\n", benches[i].name, benches[i].prices);
    }
    printf("\noptions (each bench accepts those that apply to it):\n");
    for (size_t i = 0; i < N_NUMBERS; i++) {
        printf("  %-18s %s\n", numbers[i].name, numbers[i].meaning);
    }
    printf("  %-18s %s\n", "--mechanism",
           "select, poll, epoll, none; benches of the server's code: its mechanisms");
    for (size_t i = 0; i < N_TEXTS; i++) {
        printf("  %-18s %s\n", texts[i].name, texts[i].meaning);
    }
}

static long parse_number(const struct number_option *option, const char *word)
{
    char *end;
    errno = 0;
    long value = strtol(word, &end, 10);
    if (end == word || *end != '\0') {
        fail_usage("%s must be a whole number, got '%s'", option->name, word);
    }
    if (errno != 0 || value < option->min || value > option->max) {
        fail_usage("%s must be between %ld and %ld, got %s", option->name, option->min, option->max,
                   word);
    }
    return value;
}

static enum mechanism parse_mechanism(const struct bench *bench, const char *word)
{
    bool served = (bench->takes & TAKES_SERVED) != 0;
    for (int i = MECHANISM_NONE; i < (served ? N_MECHANISMS : MECHANISM_EPOLL + 1); i++) {
        if (strcmp(word, mechanism_names[i]) == 0) {
            return (enum mechanism)i;
        }
    }
    fail_usage("--mechanism must be select, poll, epoll%s or none, got '%s'",
               served ? ", one of the server's" : "", word);
}

static void read_option(struct options *options, const char *name, const char *word)
{
    const struct bench *bench = options->bench;
    for (size_t i = 0; i < N_NUMBERS; i++) {
        if (strcmp(name, numbers[i].name) != 0) {
            continue;
        }
        if (numbers[i].bit != 0 && (bench->takes & numbers[i].bit) == 0) {
            fail_usage("%s does not take %s", bench->name, name);
        }
        *(long *)(void *)((char *)options + numbers[i].offset) = parse_number(&numbers[i], word);
        return;
    }
    for (size_t i = 0; i < N_TEXTS; i++) {
        if (strcmp(name, texts[i].name) != 0) {
            continue;
        }
        if (texts[i].bit != 0 && (bench->takes & texts[i].bit) == 0) {
            fail_usage("%s does not take %s", bench->name, name);
        }
        *(const char **)(void *)((char *)options + texts[i].offset) = word;
        return;
    }
    if (strcmp(name, "--mechanism") != 0) {
        fail_usage("unknown option '%s' (try --help)", name);
    }
    if ((bench->takes & TAKES_MECHANISM) == 0) {
        fail_usage("%s does not take --mechanism", bench->name);
    }
    options->mechanism = parse_mechanism(bench, word);
}

static void check(struct options *options)
{
    const struct bench *bench = options->bench;
    int n_network = (options->server_netns != NULL) + (options->peer_netns != NULL) +
                    (options->server_address != NULL);
    if (n_network != 0 && n_network != 3) {
        fail_usage("--server-netns, --peer-netns and --server-address go together");
    }
    if (options->server_address == NULL) {
        options->server_address = "127.0.0.1";
    }
    if ((bench->takes & TAKES_PAIR) != 0 && options->server_cpu == options->peer_cpu) {
        fail_usage("--server-cpu and --peer-cpu must differ, got %ld twice", options->peer_cpu);
    }
    if ((bench->takes & NEEDS_ONE) != 0 && options->n < 1) {
        fail_usage("--n must be at least 1, got %ld", options->n);
    }
    if ((bench->takes & TAKES_FIRST) != 0 && options->first == NOT_GIVEN) {
        options->first = options->n - 1;
    }
    if ((bench->takes & TAKES_FIRST) != 0 && options->first >= options->n) {
        fail_usage("--first must be less than --n %ld, got %ld", options->n, options->first);
    }
    if ((bench->takes & TAKES_READY) != 0 && options->ready > options->n) {
        fail_usage("--ready must be at most --n %ld, got %ld", options->n, options->ready);
    }
    if ((bench->takes & TAKES_SPAN) != 0 && options->span == NOT_GIVEN) {
        options->span = options->n;
    }
    if ((bench->takes & TAKES_SPAN) != 0 && options->span < options->n) {
        fail_usage("--span must be at least --n %ld, got %ld", options->n, options->span);
    }
    if ((bench->takes & NEEDS_MECHANISM) != 0 && options->mechanism == MECHANISM_NONE) {
        fail_usage("%s needs a mechanism to block in: select, poll or epoll", bench->name);
    }
}

static const struct bench *find_bench(const char *name)
{
    for (size_t i = 0; i < n_benches; i++) {
        if (strcmp(name, benches[i].name) == 0) {
            return &benches[i];
        }
    }
    fail_usage("unknown bench '%s' (try --list)", name);
}

static void answer_and_leave(const char *word)
{
    if (strcmp(word, "--help") == 0) {
        print_help();
    } else if (strcmp(word, "--list") == 0) {
        for (size_t i = 0; i < n_benches; i++) {
            printf("%s\n", benches[i].name);
        }
    } else {
        return;
    }
    if (fflush(stdout) != 0) {
        fail_errno("standard output");
    }
    exit(0);
}

void options_read(struct options *options, int n_words, char **words)
{
    if (n_words < 2) {
        fail_usage("which bench? (try --list or --help)");
    }
    for (int i = 1; i < n_words; i++) {
        answer_and_leave(words[i]);
    }
    const struct bench *bench = find_bench(words[1]);
    *options = (struct options){
        .bench = bench,
        .n = bench->defaults.n,
        .span = NOT_GIVEN,
        .first = NOT_GIVEN,
        .ready = bench->defaults.ready,
        .batch = bench->defaults.batch != 0 ? bench->defaults.batch : 64,
        .reply = REPLY_BYTES,
        .burst = 8,
        .pause_us = bench->defaults.pause_us,
        .milliseconds = bench->defaults.milliseconds != 0 ? bench->defaults.milliseconds : 500,
        .peer_cpu = 1,
        .sources = 16,
        .mechanism = bench->mechanism,
    };
    for (int i = 2; i < n_words; i += 2) {
        if (i + 1 == n_words) {
            fail_usage("%s needs a value (try --help)", words[i]);
        }
        read_option(options, words[i], words[i + 1]);
    }
    check(options);
}
