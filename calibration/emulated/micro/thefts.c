/* What interrupts took in a window, for each operation that was due in it. */
#include "far_end.h"

#include <stdio.h>

void thefts_open(struct thefts *thefts)
{
    samples_open(&thefts->stolen);
    samples_open(&thefts->gaps);
    samples_open(&thefts->polls);
    samples_open(&thefts->packets);
    samples_open(&thefts->answers);
}

void be_robbed(struct gaps *gaps, struct window window, long n, int repetition,
               struct thefts *thefts)
{
    struct wire_status before = far_end_status();
    gaps_record(gaps, window.to_ns);
    struct wire_status after = far_end_status();
    struct theft theft = gaps_between(gaps, window.from_ns, window.to_ns);
    uint64_t n_polls = after.n_polls - before.n_polls;
    uint64_t n_packets = after.n_packets_to_server - before.n_packets_to_server;
    uint64_t n_answers = after.n_packets_from_server - before.n_packets_from_server;
    add_warm(&thefts->stolen, repetition, theft.ns / (double)n, (uint64_t)n);
    add_warm(&thefts->gaps, repetition, theft.n / (double)n, 1);
    add_warm(&thefts->polls, repetition, (double)n_polls / (double)n, 1);
    add_warm(&thefts->packets, repetition, (double)n_packets / (double)n, 1);
    add_warm(&thefts->answers, repetition, (double)n_answers / (double)n, 1);
}

void thefts_print(struct thefts *thefts, const struct options *options, const char *bench)
{
    char extra[EXTRA_MAX];
    (void)snprintf(extra, sizeof extra,
                   ", \"interrupts_per_operation\": %.4f, \"polls_per_operation\": %.4f, "
                   "\"packets_per_operation\": %.4f, \"answers_per_operation\": %.4f",
                   samples_mean(&thefts->gaps), samples_mean(&thefts->polls),
                   samples_mean(&thefts->packets), samples_mean(&thefts->answers));
    print_mean(&thefts->stolen, options, bench, extra);
    samples_close(&thefts->stolen);
    samples_close(&thefts->gaps);
    samples_close(&thefts->polls);
    samples_close(&thefts->packets);
    samples_close(&thefts->answers);
}
