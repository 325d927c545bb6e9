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

void be_robbed(struct gaps *gaps, struct window window, long n, struct thefts *thefts)
{
    struct wire_status before = far_end_status();
    gaps_record(gaps, window.to_ns);
    struct wire_status after = far_end_status();
    struct theft theft = gaps_between(gaps, window.from_ns, window.to_ns);
    samples_add(&thefts->stolen, theft.ns / (double)n, (uint64_t)n);
    samples_add(&thefts->gaps, theft.n / (double)n, 1);
    samples_add(&thefts->polls, (double)(after.n_polls - before.n_polls) / (double)n, 1);
    samples_add(&thefts->packets,
                (double)(after.n_packets_to_server - before.n_packets_to_server) / (double)n, 1);
    samples_add(&thefts->answers,
                (double)(after.n_packets_from_server - before.n_packets_from_server) / (double)n,
                1);
}

void thefts_print(struct thefts *thefts, const struct options *options, const char *bench)
{
    char extra[EXTRA_MAX];
    (void)snprintf(extra, sizeof extra,
                   ", \"interrupts_per_operation\": %.4f, \"polls_per_operation\": %.4f, "
                   "\"packets_per_operation\": %.4f, \"answers_per_operation\": %.4f",
                   samples_median(&thefts->gaps), samples_median(&thefts->polls),
                   samples_median(&thefts->packets), samples_median(&thefts->answers));
    samples_print(&thefts->stolen, options, bench, extra);
    samples_close(&thefts->stolen);
    samples_close(&thefts->gaps);
    samples_close(&thefts->polls);
    samples_close(&thefts->packets);
    samples_close(&thefts->answers);
}
