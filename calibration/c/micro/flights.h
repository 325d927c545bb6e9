/* Benches of a busy CPU that only hardware runs: long replies, and caches that others have filled. */
#ifndef FLIGHTS_H
#define FLIGHTS_H

#include "micro.h"

void bench_flights(const struct options *options);
void bench_refill(const struct options *options);

#endif
