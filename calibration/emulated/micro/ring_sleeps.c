/* io_uring_enter that sleeps until its only receive is complete. */
#include "armed.h"

#include "../../c/micro/ring.h"

static void note(struct armed *armed)
{
    ring_receive(&armed->ring, armed_fd(armed));
}

static void arm(struct armed *armed)
{
    note(armed);
    ring_go(&armed->ring, RING_NO_WAIT);
}

static void wait_for_one(struct armed *armed)
{
    int n_bytes;
    ring_go(&armed->ring, RING_WAIT);
    if (ring_see(&armed->ring, &n_bytes, 1) != 1 || n_bytes != REQUEST_BYTES) {
        fail("a request did not come whole");
    }
}

static void take_nothing(struct armed *armed)
{
    (void)armed;
}

/* ring_sleeps */
void bench_far_ring_sleeps(const struct options *options)
{
    struct armed armed = {.note = note,
                          .arm = arm,
                          .take_armed = wait_for_one,
                          .wait = wait_for_one,
                          .take = take_nothing};
    armed_open(&armed, options, 1);
    let_block(armed_fd(&armed));
    ring_begin(&armed.ring, SPARE_DESCRIPTORS);
    armed_sleeps(&armed, options);
    ring_close_all(&armed.ring);
    armed_close(&armed);
}
