#include "options.h"

#include "summary.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum {
    TIMEOUT_MS_MAX = SECONDS_LIMIT * 1000,
    FDS_MAX = 1048000,
    RECORDS_MAX = 4000000, /* default limit of a closed loop, or of one with retries */
    RETRIES_MAX = 1000,
};

size_t load_options(struct load_options *options, struct option_spec specs[])
{
    *options = (struct load_options){
        .address = "127.0.0.1",
        .run_ns = 10 * NS_PER_S,
        .timeout_ms = 10000,
        .fds_max = 16384,
        .protocol = "micro",
        .protocol_options = {.path = "/", .host = "localhost", .key_prefix = "key:", .n_keys = 1},
    };
    const struct option_spec common[] = {
        {"address", OPTION_TEXT, &options->address, 0, 0, "the server's address (127.0.0.1)"},
        {"port", OPTION_INTEGER, &options->port, 1, 65535, "the server's port"},
        {"trace", OPTION_TEXT, &options->trace, 0, 0, "trace file to replay"},
        {"seconds", OPTION_SECONDS, &options->run_ns, 0, 0, "end after this long (10)"},
        {"timeout-ms", OPTION_INTEGER, &options->timeout_ms, 1, TIMEOUT_MS_MAX,
         "give up a connection this long after its intended start, a request of kept connections "
         "after it was due (10000)"},
        {"fd-limit", OPTION_INTEGER, &options->fds_max, 1, FDS_MAX,
         "most connections open at once (16384)"},
        {"connections-max", OPTION_INTEGER, &options->connections_max, 1, TRACE_ROWS_MAX,
         "most connections, with retries (open loop without retries: the rows; otherwise 4000000)"},
        {"retries", OPTION_INTEGER, &options->retries_max, 0, RETRIES_MAX,
         "retries of a connection that timed out, was refused or was reset (0)"},
        {"retry-after-ms", OPTION_INTEGER, &options->retry_after_ms, 0, TIMEOUT_MS_MAX,
         "pause before the first retry (0: at once)"},
        {"retry-doubles", OPTION_FLAG, &options->retry_doubles, 0, 0,
         "double the pause before each further retry"},
        {"records", OPTION_TEXT, &options->records, 0, 0,
         "file for five int64 a connection, written at the end"},
        {"replies", OPTION_TEXT, &options->replies, 0, 0,
         "file for three int64 a reply, written at the end"},
        {"requests", OPTION_TEXT, &options->requests, 0, 0,
         "file for five int64 a request of kept connections, written at the end"},
        {"held", OPTION_FLAG, &options->held, 0, 0,
         "print `opened N` when kept connections are open; a line of standard input starts the "
         "run"},
        {"gaps", OPTION_TEXT, &options->gaps, 0, 0,
         "file for two int64 a gap of the generator above 20 us, written at the end"},
    };
    memcpy(specs, common, sizeof common);
    return sizeof common / sizeof *common;
}

void load_options_parse(const struct load_options *options, const char *summary,
                        const struct option_spec *specs, size_t n_specs, int argc, char **argv)
{
    assert(n_specs <= LOAD_OPTIONS_MAX);
    parse_options(summary, specs, n_specs, argc, argv);
    if (options->port == 0) {
        refuse("--port must be given");
    }
    if (options->trace == NULL) {
        refuse("--trace must be given");
    }
}

/* Refuse options that do not apply to the trace's loop. */
static void check_loop(const struct load_options *options, const struct trace *trace)
{
    if (trace->loop == LOOP_KEPT && options->retries_max > 0) {
        refuse("--retries must be 0 for kept connections, which are reopened, got %lld",
               (long long)options->retries_max);
    }
    if (trace->loop != LOOP_KEPT && options->requests != NULL) {
        refuse("--requests must be absent without kept connections, got \"%s\"", options->requests);
    }
    if (trace->loop != LOOP_KEPT && options->held && !options->has_idle) {
        refuse("--held must be absent without kept connections");
    }
}

static int64_t choose_records_max(const struct load_options *options, const struct trace *trace)
{
    int64_t asked = options->connections_max;
    if (trace->loop != LOOP_OPEN || options->retries_max > 0) {
        return asked > 0 ? asked : RECORDS_MAX;
    }
    return asked > 0 && asked < trace->n_rows ? asked : trace->n_rows;
}

int load_run(const struct load_options *options, const struct far_options *far)
{
    struct sockaddr_in address = parse_address(options->address, options->port);
    struct trace trace = trace_read(options->trace);
    check_loop(options, &trace);
    stop_on_signals();
    const struct replay_options replay_options = {
        .address = address,
        .run_ns = options->run_ns,
        .timeout_ns = options->timeout_ms * NS_PER_MS,
        .fds_max = options->fds_max,
        .held = options->held,
        .retry =
            {
                .n_max = options->retries_max,
                .pause_ns = options->retry_after_ms * NS_PER_MS,
                .doubles = options->retry_doubles,
            },
        .protocol = find_protocol(options->protocol),
        .protocol_options = options->protocol_options,
        .far = far,
    };
    struct outputs outputs = {
        .records = records_open(options->records, choose_records_max(options, &trace)),
        .replies = replies_open(options->replies),
        .gaps = gaps_open(options->gaps),
    };
    if (trace.loop == LOOP_KEPT) {
        outputs.requests = records_open(options->requests, trace.n_requests);
    }
    struct replay_result result = replay(&trace, &replay_options, &outputs);
    result.truncated = result.truncated || outputs.replies.is_full || outputs.gaps.is_full;
    records_write(&outputs.records);
    replies_write(&outputs.replies);
    records_write(&outputs.requests);
    gaps_write(&outputs.gaps);
    summary_print(&trace, &result, &outputs);
    free(outputs.records.rows);
    free(outputs.requests.rows);
    free(trace.rows);
    free(trace.requests);
    return EXIT_SUCCESS;
}
