/* The server's own code under the benches: its mechanisms, request parser and reply.
 *
 * Apart from watched.h, because micro.h has a `mechanism`, too. */
#ifndef SERVED_H
#define SERVED_H

#include <stdbool.h>
#include <stddef.h>

struct served;

/* Once, before the first reply. */
void served_prepare(void);

/* NULL: there is no such mechanism, or no memory. */
struct served *served_open(const char *mechanism, size_t fds_max);
void served_close(struct served *served);
/* As in ../servers/mechanism.h: 0 or the number of events; -1 with errno set. */
int served_watch(struct served *served, int fd);
int served_watch_to_write(struct served *served, int fd);
int served_unwatch(struct served *served, int fd);
int served_wait(struct served *served);
/* A read of the descriptor would block. */
void served_blocked(struct served *served, int fd);
bool served_parse(const char *bytes, size_t n_bytes);
bool served_reply(int fd, size_t reply_bytes);

#endif
