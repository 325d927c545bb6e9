/* Common parts of all programs: options with limits, errors in one line, the descriptor limit,
 * and one flag for stopping.
 */
#ifndef CALIBRATION_PROGRAM_H
#define CALIBRATION_PROGRAM_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#define NS_PER_S 1000000000LL
#define NS_PER_MS 1000000LL
#define NS_PER_US 1000LL

/* No program runs longer than this, with any options. */
#define SECONDS_LIMIT 3600

enum exit_code { EXIT_FAILED = 1, EXIT_REFUSED = 2 };

enum option_kind {
    OPTION_FLAG,    /* target: bool */
    OPTION_INTEGER, /* target: int64_t, between min and max */
    OPTION_SECONDS, /* target: int64_t of nanoseconds; between 0.001 and SECONDS_LIMIT seconds */
    OPTION_TEXT,    /* target: const char * */
};

struct option_spec {
    const char *name;
    enum option_kind kind;
    void *target;
    int64_t min;
    int64_t max;
    const char *help;
};

/* Print one line and end the program: the machine did not do what was asked (1). */
_Noreturn void fail(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Print one line and end the program: the user asked for something impossible (2). */
_Noreturn void refuse(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Parse the command line into the targets of *specs*; `--help` prints them and ends the program. */
void parse_options(const char *summary, const struct option_spec *specs, size_t n_specs, int argc,
                   char **argv);

/* Read a decimal integer, all of *text* and nothing else; false if it is not one or overflows. */
bool parse_integer(const char *text, int64_t *value);

struct sockaddr_in parse_address(const char *address, int64_t port);

/* Make exactly *fds_max* descriptors available to this process, or fail with the reason. */
void limit_descriptors(int64_t fds_max);

/* Let no more than *signals_max* signals be queued: those of all processes of this user count. */
void limit_signals(int64_t signals_max);

/* SIGINT, SIGTERM and SIGALRM set the flag that stop_requested returns; SIGPIPE is ignored. */
void stop_on_signals(void);
void stop_after(int64_t ns);
bool stop_requested(void);

static inline int64_t clock_ns(clockid_t clock)
{
    struct timespec t;
    if (clock_gettime(clock, &t) != 0) {
        fail("clock_gettime of clock %d failed", (int)clock);
    }
    return (int64_t)t.tv_sec * NS_PER_S + (int64_t)t.tv_nsec;
}

#endif
