/* The server's own calls (served.h), where a failure ends the program. */
#ifndef WATCHED_H
#define WATCHED_H

#include "micro.h"
#include "served.h"

/* Signals of the server's mechanisms are only ever taken from their queue: a thread must block them
 * before it starts another. */
void block_signals(void);
struct served *watched_open(const struct options *options, long fds_max);
void watch(struct served *served, int fd);
void unwatch(struct served *served, int fd);
/* Want something else of a descriptor; want to read it again. */
void want_to_write(struct served *served, int fd);
void want_to_read(struct served *served, int fd);
/* Block until exactly n descriptors are ready. */
void wait_for(struct served *served, long n);
/* The same, and return how long it took. */
uint64_t ticks_of_wait(struct served *served, long n);
/* Discard the queued signals. */
void discard_signals(void);
void queue_signal(void);
/* Let one signal be queued at most, and have it queued: another one is lost. */
void fill_signal_queue(void);
/* Read a request of REQUEST_BYTES; write a reply. */
void take_request(int fd);
void reply(int fd, long reply_bytes);

#endif
