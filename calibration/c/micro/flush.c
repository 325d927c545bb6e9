/* The first step of a server that lost signals: it discards the queued ones. */
#include "repeated.h"
#include "watched.h"

void bench_flush(const struct options *options)
{
    struct samples samples;
    pin_to_cpu(options->server_cpu);
    samples_open(&samples);
    for (struct repetitions r = repetitions_of(options); repeat(&r);) {
        for (long i = 0; i < options->queue; i++) {
            queue_signal();
        }
        uint64_t first = ticks_now();
        discard_signals();
        add_warm(&samples, r.n, ns_of(ticks_now() - first), 1);
    }
    samples_print(&samples, options, options->bench->name, "");
    samples_close(&samples);
}
