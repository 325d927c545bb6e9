/* One connection that notifies its server once: each request needs arming it again. */
#ifndef ARMED_H
#define ARMED_H

#include "../../c/servers/io_uring.h"
#include "far_end.h"

struct armed {
    struct pair pair;
    struct connections connections; /* the first is the one */
    struct gaps gaps;
    struct served *served; /* or */
    struct ring ring;
    /* Have the next wait arm it; or arm it at once, and take what came later without a wait. */
    void (*note)(struct armed *armed);
    void (*arm)(struct armed *armed);
    void (*take_armed)(struct armed *armed);
    /* Sleep until the request has come; read it, if that has not done it. */
    void (*wait)(struct armed *armed);
    void (*take)(struct armed *armed);
};

/* Open all but the notifying mechanism: there are n connections. */
void armed_open(struct armed *armed, const struct options *options, long n);
void armed_close(struct armed *armed);
int armed_fd(const struct armed *armed);

/* Print busy time and latency of waits that sleep, and what the packet of a request takes from a
 * program that spins, armed and not. */
void armed_sleeps(struct armed *armed, const struct options *options);

#endif
