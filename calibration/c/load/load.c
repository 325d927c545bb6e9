/* The command line of the load generator, and what it reports at the end. */
#include "replay.h"

#include "../servers/program.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    STATUSES = STATUS_OPEN + 1,
    TIMEOUT_MS_MAX = SECONDS_LIMIT * 1000,
    FDS_MAX = 1048000,
    RECORDS_MAX = 4000000, /* what a closed loop, or one with retries, may start unless told */
    RETRIES_MAX = 1000,
    KEYS_MAX = 100000000,
    NAME_BYTES_MAX = 1000, /* of a path or a host */
};

struct options {
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
    bool held;
    const char *protocol;
    struct protocol_options protocol_options;
};

/* A name goes into a line of the request as it is. */
static void check_name(const char *option, const char *name, size_t n_max)
{
    size_t n = strlen(name);
    for (size_t i = 0; i < n; i++) {
        if (name[i] <= ' ' || name[i] > '~') {
            refuse("%s must be printable characters without blanks", option);
        }
    }
    if (n == 0 || n > n_max) {
        refuse("%s must be 1 to %zu characters, got %zu", option, n_max, n);
    }
}

static void parse_load_options(struct options *options, int argc, char **argv)
{
    *options = (struct options){
        .address = "127.0.0.1",
        .run_ns = 10 * NS_PER_S,
        .timeout_ms = 10000,
        .fds_max = 16384,
        .protocol = "micro",
        .protocol_options = {.path = "/", .host = "localhost", .key_prefix = "key:", .n_keys = 1},
    };
    struct protocol_options *asked = &options->protocol_options;
    const struct option_spec specs[] = {
        {"address", OPTION_TEXT, &options->address, 0, 0, "the server's (127.0.0.1)"},
        {"port", OPTION_INTEGER, &options->port, 1, 65535, "the server's"},
        {"trace", OPTION_TEXT, &options->trace, 0, 0, "what to replay"},
        {"seconds", OPTION_SECONDS, &options->run_ns, 0, 0, "end after this long (10)"},
        {"timeout-ms", OPTION_INTEGER, &options->timeout_ms, 1, TIMEOUT_MS_MAX,
         "give a connection up this long after its intended start, a request of kept ones after it "
         "was due (10000)"},
        {"fd-limit", OPTION_INTEGER, &options->fds_max, 1, FDS_MAX,
         "connections open at once (16384)"},
        {"connections-max", OPTION_INTEGER, &options->connections_max, 1, TRACE_ROWS_MAX,
         "connections in all, retries too (open loop without: the rows; otherwise 4000000)"},
        {"retries", OPTION_INTEGER, &options->retries_max, 0, RETRIES_MAX,
         "try a connection that timed out, was refused or reset this often again (0)"},
        {"retry-after-ms", OPTION_INTEGER, &options->retry_after_ms, 0, TIMEOUT_MS_MAX,
         "pause before the first retry (0: at once)"},
        {"retry-doubles", OPTION_FLAG, &options->retry_doubles, 0, 0,
         "pause twice as long before each further retry"},
        {"protocol", OPTION_TEXT, &options->protocol, 0, 0,
         "micro, http/1.0, http/1.1, memcached or resp (micro)"},
        {"path", OPTION_TEXT, &asked->path, 0, 0, "what is asked for by http (/)"},
        {"host", OPTION_TEXT, &asked->host, 0, 0, "whom http asks (localhost)"},
        {"key-prefix", OPTION_TEXT, &asked->key_prefix, 0, 0,
         "begin of the keys of memcached and resp (key:)"},
        {"keys", OPTION_INTEGER, &asked->n_keys, 1, KEYS_MAX,
         "how many keys, PREFIX0 and so on (1)"},
        {"records", OPTION_TEXT, &options->records, 0, 0,
         "file for five int64 a connection, written at the end"},
        {"replies", OPTION_TEXT, &options->replies, 0, 0,
         "file for three int64 a reply, written at the end"},
        {"requests", OPTION_TEXT, &options->requests, 0, 0,
         "file for five int64 a request of kept connections, written at the end"},
        {"held", OPTION_FLAG, &options->held, 0, 0,
         "print `opened N` when kept connections are open, and begin by a line of standard input"},
    };
    parse_options("replays a trace against a server, spinning", specs, sizeof specs / sizeof *specs,
                  argc, argv);
    if (options->port == 0) {
        refuse("--port must be given");
    }
    if (options->trace == NULL) {
        refuse("--trace must be given");
    }
    check_name("--path", asked->path, NAME_BYTES_MAX);
    check_name("--host", asked->host, NAME_BYTES_MAX);
    check_name("--key-prefix", asked->key_prefix, KEY_PREFIX_BYTES_MAX);
}

/* Refuse options that the loop of the trace has no use for. */
static void check_loop(const struct options *options, const struct trace *trace)
{
    if (trace->loop == LOOP_KEPT && options->retries_max > 0) {
        refuse("--retries must be 0 for kept connections, which are opened again, got %lld",
               (long long)options->retries_max);
    }
    if (trace->loop != LOOP_KEPT && options->requests != NULL) {
        refuse("--requests must be absent without kept connections, got \"%s\"", options->requests);
    }
    if (trace->loop != LOOP_KEPT && options->held) {
        refuse("--held must be absent without kept connections");
    }
}

static int64_t choose_records_max(const struct options *options, const struct trace *trace)
{
    int64_t asked = options->connections_max;
    if (trace->loop != LOOP_OPEN || options->retries_max > 0) {
        return asked > 0 ? asked : RECORDS_MAX;
    }
    return asked > 0 && asked < trace->n_rows ? asked : trace->n_rows;
}

static int compare_ns(const void *a, const void *b)
{
    int64_t left = *(const int64_t *)a;
    int64_t right = *(const int64_t *)b;
    return (left > right) - (left < right);
}

/* The value below which *per_mille* of the sorted values lie (nearest rank), 0 if there is none. */
static long long quantile(const int64_t *sorted, int64_t n, int64_t per_mille)
{
    if (n == 0) {
        return 0;
    }
    int64_t rank = (n * per_mille + 999) / 1000;
    return (long long)sorted[rank > 0 ? rank - 1 : 0];
}

/* How late the generator got to what was due. */
static void print_lag(const struct records *records)
{
    int64_t *lags_ns = malloc(((size_t)records->n + 1) * sizeof *lags_ns);
    if (lags_ns == NULL) {
        fail("out of memory for %lld lags", (long long)records->n);
    }
    int64_t n = 0;
    for (int64_t i = 0; i < records->n; i++) {
        if (records->rows[i].started_ns != NOT_REACHED) {
            lags_ns[n++] = records->rows[i].started_ns - records->rows[i].intended_ns;
        }
    }
    qsort(lags_ns, (size_t)n, sizeof *lags_ns, compare_ns);
    printf("\"lag_ns\": {\"p50\": %lld, \"p90\": %lld, \"p99\": %lld, \"max\": %lld}",
           quantile(lags_ns, n, 500), quantile(lags_ns, n, 900), quantile(lags_ns, n, 990),
           quantile(lags_ns, n, 1000));
    free(lags_ns);
}

/* The totals of the requests of kept connections. */
static void print_requests(const struct replay_result *result, const struct records *requests)
{
    long long n_of[STATUSES] = {0};
    for (int64_t i = 0; i < requests->n; i++) {
        n_of[requests->rows[i].status]++;
    }
    printf("\"requests\": {\"offered\": %lld, \"waited\": %lld, \"replied\": %lld, "
           "\"timeout\": %lld, \"reset\": %lld, \"open\": %lld}, ",
           (long long)requests->n, (long long)result->n_waited, n_of[STATUS_REPLIED],
           n_of[STATUS_TIMEOUT], n_of[STATUS_RESET], n_of[STATUS_OPEN]);
}

static void print_result(const struct trace *trace, const struct replay_result *result,
                         const struct records *records, const struct records *requests)
{
    static const char *const loops[] = {
        [LOOP_OPEN] = "open",
        [LOOP_CLOSED] = "closed",
        [LOOP_KEPT] = "kept",
    };
    bool is_kept = trace->loop == LOOP_KEPT;
    long long n_of[STATUSES] = {0};
    long long n_connected = 0;
    for (int64_t i = 0; i < records->n; i++) {
        n_of[records->rows[i].status]++;
        n_connected += records->rows[i].connected_ns != NOT_REACHED;
    }
    long long n_ports = (long long)result->n_ports;
    printf("{\"format\": \"dispatchsim-load/1\", \"loop\": \"%s\", \"users\": %lld, "
           "\"offered\": %lld, \"connected\": %lld, \"replied\": %lld, \"replies\": %lld, ",
           loops[trace->loop], (long long)trace->n_users, (long long)records->n, n_connected,
           n_of[STATUS_REPLIED], (long long)result->n_replies);
    printf("\"errors\": {\"timeout\": %lld, \"refused\": %lld, \"reset\": %lld, "
           "\"descriptors\": %lld, \"ports\": %lld, \"open\": %lld}, \"protocol\": %lld, "
           "\"error_replies\": %lld, \"retries\": %lld, \"given_up\": %lld, \"truncated\": %s, ",
           n_of[STATUS_TIMEOUT], n_of[STATUS_REFUSED], n_of[STATUS_RESET],
           n_of[STATUS_DESCRIPTORS] - n_ports, n_ports, n_of[STATUS_OPEN],
           (long long)result->n_protocol, (long long)result->n_error_replies,
           (long long)result->n_retries, (long long)result->n_given_up,
           result->truncated ? "true" : "false");
    if (is_kept) {
        print_requests(result, requests);
    }
    printf("\"wall_ns\": %lld, \"cpu_ns\": %lld, \"start_monotonic_ns\": %lld, ",
           (long long)result->wall_ns, (long long)result->cpu_ns,
           (long long)result->start_monotonic_ns);
    print_lag(is_kept ? requests : records);
    if (printf("}\n") < 0 || fflush(stdout) != 0) {
        fail("cannot print: %s", strerror(errno));
    }
}

int main(int argc, char **argv)
{
    struct options options;
    parse_load_options(&options, argc, argv);
    struct sockaddr_in address = parse_address(options.address, options.port);
    struct trace trace = trace_read(options.trace);
    check_loop(&options, &trace);
    stop_on_signals();
    struct records records = records_open(options.records, choose_records_max(&options, &trace));
    const struct replay_options replay_options = {
        .address = address,
        .run_ns = options.run_ns,
        .timeout_ns = options.timeout_ms * NS_PER_MS,
        .fds_max = options.fds_max,
        .held = options.held,
        .retry =
            {
                .n_max = options.retries_max,
                .pause_ns = options.retry_after_ms * NS_PER_MS,
                .doubles = options.retry_doubles,
            },
        .protocol = find_protocol(options.protocol),
        .protocol_options = options.protocol_options,
    };
    struct replies replies = replies_open(options.replies);
    struct records requests = {0};
    if (trace.loop == LOOP_KEPT) {
        requests = records_open(options.requests, trace.n_requests);
    }
    struct replay_result result = replay(&trace, &replay_options, &records, &replies, &requests);
    result.truncated = result.truncated || replies.is_full;
    records_write(&records);
    replies_write(&replies);
    records_write(&requests);
    print_result(&trace, &result, &records, &requests);
    free(records.rows);
    free(requests.rows);
    free(trace.rows);
    free(trace.requests);
    return EXIT_SUCCESS;
}
