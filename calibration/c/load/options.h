/* The common options of `load` and `far_end`, and their use. */
#ifndef CALIBRATION_LOAD_OPTIONS_H
#define CALIBRATION_LOAD_OPTIONS_H

#include "../servers/program.h"
#include "replay.h"

enum { LOAD_OPTIONS_MAX = 32 };

struct load_options {
    const char *address;
    int64_t port;
    const char *trace;
    int64_t run_ns;
    int64_t timeout_ms;
    int64_t fds_max;
    int64_t connections_max;
    int64_t retries_max;
    int64_t retry_after_ms;
    bool retry_doubles;
    const char *records;
    const char *replies;
    const char *requests;
    const char *gaps;
    bool held;
    bool has_idle; /* connections without requests are opened, too */
    const char *protocol;
    struct protocol_options protocol_options;
};

/* Set the default options; *specs*, with room for LOAD_OPTIONS_MAX, gets the specifications that
 * both programs have. Return their number.
 */
size_t load_options(struct load_options *options, struct option_spec specs[]);

/* Parse the command line by all *n_specs*, and refuse missing options. */
void load_options_parse(const struct load_options *options, const char *summary,
                        const struct option_spec *specs, size_t n_specs, int argc, char **argv);

/* Replay the trace, write the files and print the result; *far*: by packets instead of sockets. */
int load_run(const struct load_options *options, const struct far_options *far);

#endif
