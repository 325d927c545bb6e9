#include "program.h"

#include <arpa/inet.h>
#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <unistd.h>

enum { OPTIONS_MAX = 32 };

/* The one thing a signal handler can write to. */
static volatile sig_atomic_t stop_flag;

static void complain(const char *format, va_list arguments)
{
    fflush(stdout);
    fprintf(stderr, "%s: ", program_invocation_short_name);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
}

void fail(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    complain(format, arguments);
    va_end(arguments);
    exit(EXIT_FAILED);
}

void refuse(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    complain(format, arguments);
    va_end(arguments);
    exit(EXIT_REFUSED);
}

bool parse_integer(const char *text, int64_t *value)
{
    const char *digits = text[0] == '-' ? text + 1 : text;
    if (*digits == '\0' || strspn(digits, "0123456789") != strlen(digits)) {
        return false;
    }
    errno = 0;
    long long parsed = strtoll(text, NULL, 10);
    if (errno != 0) {
        return false;
    }
    *value = parsed;
    return true;
}

static void parse_value(const struct option_spec *spec, const char *text)
{
    switch (spec->kind) {
    case OPTION_FLAG:
        *(bool *)spec->target = true;
        break;
    case OPTION_TEXT:
        *(const char **)spec->target = text;
        break;
    case OPTION_INTEGER: {
        int64_t value = 0;
        if (!parse_integer(text, &value) || value < spec->min || value > spec->max) {
            refuse("--%s must be between %lld and %lld, got \"%s\"", spec->name,
                   (long long)spec->min, (long long)spec->max, text);
        }
        *(int64_t *)spec->target = value;
        break;
    }
    case OPTION_SECONDS: {
        char *end = NULL;
        double seconds = strtod(text, &end);
        bool decimal = strspn(text, "0123456789.") == strlen(text);
        if (!decimal || end == text || *end != '\0' || !(seconds >= 0.001) ||
            seconds > SECONDS_LIMIT) {
            refuse("--%s must be between 0.001 and %d, got \"%s\"", spec->name, SECONDS_LIMIT,
                   text);
        }
        *(int64_t *)spec->target = (int64_t)(seconds * (double)NS_PER_S);
        break;
    }
    }
}

static void print_help(const char *summary, const struct option_spec *specs, size_t n_specs)
{
    printf("%s: %s\n\n", program_invocation_short_name, summary);
    for (size_t i = 0; i < n_specs; i++) {
        static const char *const placeholder[] = {
            [OPTION_FLAG] = "",
            [OPTION_INTEGER] = " N",
            [OPTION_SECONDS] = " S",
            [OPTION_TEXT] = " X",
        };
        int width = printf("  --%s%s", specs[i].name, placeholder[specs[i].kind]);
        printf("%*s%s\n", width < 26 ? 26 - width : 1, "", specs[i].help);
    }
    exit(fflush(stdout) == 0 ? EXIT_SUCCESS : EXIT_FAILED);
}

void parse_options(const char *summary, const struct option_spec *specs, size_t n_specs, int argc,
                   char **argv)
{
    struct option options[OPTIONS_MAX + 2] = {{0}};
    if (n_specs > OPTIONS_MAX) {
        fail("more than %d options in the table", OPTIONS_MAX);
    }
    for (size_t i = 0; i < n_specs; i++) {
        options[i] = (struct option){
            .name = specs[i].name,
            .has_arg = specs[i].kind == OPTION_FLAG ? no_argument : required_argument,
        };
    }
    options[n_specs] = (struct option){.name = "help", .has_arg = no_argument};
    opterr = 0;
    for (;;) {
        int index = -1;
        int found = getopt_long(argc, argv, ":", options, &index);
        if (found == -1) {
            break;
        }
        if (found == ':') {
            refuse("%s needs a value", argv[optind - 1]);
        }
        if (found != 0) {
            refuse("unknown option \"%s\" (see --help)", argv[optind - 1]);
        }
        if ((size_t)index == n_specs) {
            print_help(summary, specs, n_specs);
        }
        parse_value(&specs[index], optarg);
    }
    if (optind < argc) {
        refuse("unexpected argument \"%s\" (see --help)", argv[optind]);
    }
}

struct sockaddr_in parse_address(const char *address, int64_t port)
{
    struct sockaddr_in parsed = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    if (inet_pton(AF_INET, address, &parsed.sin_addr) != 1) {
        refuse("--address must be a dotted IPv4 address, got \"%s\"", address);
    }
    return parsed;
}

static void set_limit(int resource, const char *name, const char *what, int64_t wanted)
{
    struct rlimit limit;
    if (getrlimit((__rlimit_resource_t)resource, &limit) != 0) {
        fail("getrlimit of %s: %s", name, strerror(errno));
    }
    rlim_t hard = limit.rlim_max;
    limit.rlim_cur = (rlim_t)wanted;
    if (hard < limit.rlim_cur) {
        limit.rlim_max = limit.rlim_cur;
    }
    if (setrlimit((__rlimit_resource_t)resource, &limit) != 0) {
        fail("%lld %s are needed, the hard limit of %s is %llu: %s", (long long)wanted, what, name,
             (unsigned long long)hard, strerror(errno));
    }
}

void limit_descriptors(int64_t fds_max)
{
    set_limit(RLIMIT_NOFILE, "RLIMIT_NOFILE", "descriptors", fds_max);
}

void limit_signals(int64_t signals_max)
{
    set_limit(RLIMIT_SIGPENDING, "RLIMIT_SIGPENDING", "queued signals", signals_max);
}

/* A signal that lands between the check of the flag and a wait without end would be lost, so it
 * rings again each second until the program has noticed. */
static void request_stop(int signal_number)
{
    (void)signal_number;
    stop_flag = 1;
    (void)alarm(1);
}

void stop_on_signals(void)
{
    struct sigaction stop = {.sa_handler = request_stop};
    struct sigaction ignore = {.sa_handler = SIG_IGN};
    if (sigaction(SIGINT, &stop, NULL) != 0 || sigaction(SIGTERM, &stop, NULL) != 0 ||
        sigaction(SIGALRM, &stop, NULL) != 0 || sigaction(SIGPIPE, &ignore, NULL) != 0) {
        fail("sigaction: %s", strerror(errno));
    }
}

void stop_after(int64_t ns)
{
    struct itimerval timer = {
        .it_value = {.tv_sec = (time_t)(ns / NS_PER_S),
                     .tv_usec = (suseconds_t)(ns % NS_PER_S / 1000)},
    };
    if (setitimer(ITIMER_REAL, &timer, NULL) != 0) {
        fail("setitimer: %s", strerror(errno));
    }
}

bool stop_requested(void)
{
    return stop_flag != 0;
}
