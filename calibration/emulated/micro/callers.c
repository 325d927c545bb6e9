/* Clients of the counted target: scripted, and as far away as they must be. */
#include "../../c/micro/callers.h"

#include "far_end.h"

/* Until the last of all packets has been handled that come at once. */
static uint64_t flight_ns(const struct callers *callers)
{
    return far_end_delay_ns() + (uint64_t)callers->n * PACKET_NS_MAX + SETTLE_NS;
}

void callers_open(struct callers *callers, const struct options *options, long n, long reply_bytes,
                  int n_steps)
{
    *callers = (struct callers){.n = n, .reply_bytes = reply_bytes};
    pair_open_delayed(&callers->pair, options, n + SPARE_DESCRIPTORS,
                      DELAY_NS + (uint64_t)n_steps * tick_period_ns());
}

void callers_close(struct callers *callers)
{
    pair_close(&callers->pair);
}

void callers_come(struct callers *callers)
{
    uint64_t due_ns = monotonic_ns() + flight_ns(callers);
    callers->first = clients_connect(callers->n, due_ns, 0);
    sleep_until(due_ns + 2 * flight_ns(callers));
}

void callers_ask(struct callers *callers)
{
    uint64_t due_ns = monotonic_ns() + flight_ns(callers);
    clients_send(callers->first, callers->n, due_ns, 0, 0, callers->reply_bytes);
    sleep_until(due_ns + flight_ns(callers));
}

/* The resets that answer the replies; sockets and timers are gone after them. */
void callers_go(struct callers *callers)
{
    sleep_until(monotonic_ns() + 2 * far_end_delay_ns() + flight_ns(callers));
}
