#include "summary.h"

#include "../servers/program.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STATUSES = STATUS_OPEN + 1 };

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

/* How late the generator began due connections. */
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
    printf("\"lag_ns\": {\"p50\": %lld, \"p90\": %lld, \"p99\": %lld, \"p999\": %lld, "
           "\"max\": %lld}",
           quantile(lags_ns, n, 500), quantile(lags_ns, n, 900), quantile(lags_ns, n, 990),
           quantile(lags_ns, n, 999), quantile(lags_ns, n, 1000));
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

/* The counters of a program without sockets. */
static void print_packets(const struct packet_counts *packets)
{
    printf(", \"packets\": {\"sent\": %lld, \"flushes\": %lld, \"received\": %lld, "
           "\"dropped\": %lld, \"syn_repeated\": %lld, \"data_repeated\": %lld, "
           "\"idle\": %lld, \"idle_lost\": %lld}",
           (long long)packets->n_sent, (long long)packets->n_flushes,
           (long long)packets->n_received, (long long)packets->n_dropped,
           (long long)packets->n_syn_repeated, (long long)packets->n_data_repeated,
           (long long)packets->n_idle, (long long)packets->n_idle_lost);
}

void summary_print(const struct trace *trace, const struct replay_result *result,
                   const struct outputs *outputs)
{
    const struct records *records = &outputs->records;
    const struct records *requests = &outputs->requests;
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
    printf(", \"gaps\": {\"above_ns\": %d, \"n\": %lld, \"lost_ns\": %lld}", GAP_ROW_NS,
           (long long)outputs->gaps.n, (long long)outputs->gaps.lost_ns);
    if (result->has_packets) {
        print_packets(&result->packets);
    }
    if (printf("}\n") < 0 || fflush(stdout) != 0) {
        fail("cannot print: %s", strerror(errno));
    }
}
