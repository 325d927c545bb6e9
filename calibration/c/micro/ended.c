/* The close of connections that their clients have reset, which sends nothing.
 *
 *     connect x B, request x B | read, write x B | resets | close x B: close_ended
 *
 * serve_close has the other order: the server closes before the reset arrives. */
#include "callers.h"
#include "repeated.h"
#include "watched.h"

#include <stdlib.h>

void bench_ended(const struct options *options)
{
    struct callers callers;
    struct samples closes;
    long n = options->batch;
    int *fds = allocate((size_t)n, sizeof *fds);
    callers_open(&callers, options, n, REPLY_BYTES, 0);
    samples_open(&closes);
    for (struct repetitions r = repetitions_of(options); repeat(&r);) {
        callers_come(&callers);
        callers_ask(&callers);
        for (long i = 0; i < n; i++) {
            await(callers.pair.listener, POLLIN);
            fds[i] = accept_one(callers.pair.listener);
            await(fds[i], POLLIN);
            take_request(fds[i]);
            reply(fds[i], REPLY_BYTES);
        }
        callers_go(&callers);
        uint64_t first = ticks_now();
        for (long i = 0; i < n; i++) {
            close_fd(fds[i]);
        }
        add_warm(&closes, r.n, ns_of(ticks_now() - first) / (double)n, (uint64_t)n);
    }
    samples_print(&closes, options, options->bench->name, "");
    samples_close(&closes);
    callers_close(&callers);
    free(fds);
}
