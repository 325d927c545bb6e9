/* Clients that connect, send requests and close together, on any machine.
 *
 *     callers_come | the server accepts | callers_ask | it reads, writes, closes | callers_go
 *
 *     hardware          sockets of the peer, which does each for all         callers.c
 *     counted target    scripted clients, which close by themselves          its callers.c
 *
 * When one of these functions returns, no packet is on its way. */
#ifndef CALLERS_H
#define CALLERS_H

#include "micro.h"

struct callers {
    struct pair pair;
    long n;
    long reply_bytes;
    int *clients;   /* on hardware */
    uint64_t first; /* the first one's number, on the counted target */
};

/* n callers at a time, for replies of that size. On the counted target, their reaction to a reply
 * comes only after the `n_steps` timed steps that follow it, each between two ticks. */
void callers_open(struct callers *callers, const struct options *options, long n, long reply_bytes,
                  int n_steps);
void callers_close(struct callers *callers);
void callers_come(struct callers *callers);
void callers_ask(struct callers *callers);
void callers_go(struct callers *callers);

#endif
