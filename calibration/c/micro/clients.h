/* The peer's ends of connections: sockets of the kernel, or packets of a client machine.
 *
 *     clients.c       a socket each; what comes for it is received by the kernel
 *     far_clients.c   no kernel has them: the peer's thread itself takes what comes, acknowledges
 *                     as Linux would, and sends, over ../far_end
 *
 * The steering decides between the two. Either belongs to the peer's thread: the server never
 * touches them. A small number identifies a connection. The peer passes time only by
 * `clients_spin` or `clients_attend`, which also handle packets. */
#ifndef CLIENTS_H
#define CLIENTS_H

#include "micro.h"

/* Functions of the one kind, as declared below for both. */
struct client_kind {
    int (*open)(const struct pair *pair);
    void (*hurry)(const struct pair *pair, int client);
    void (*connect)(const struct pair *pair, int client);
    uint64_t (*await_open)(const struct pair *pair, int client);
    uint64_t (*spin_until_open)(const struct pair *pair, int client);
    void (*send)(const struct pair *pair, int client, const char *text, size_t bytes);
    void (*await_acknowledged)(const struct pair *pair, int client);
    void (*await_data)(const struct pair *pair, int client);
    size_t (*receive)(const struct pair *pair, int client, size_t bytes);
    void (*close)(const struct pair *pair, int client);
    void (*leave)(const struct pair *pair, int client);
    bool (*attend)(const struct pair *pair);
    void (*end)(const struct pair *pair);
};

/* Called by the peer, once the listener's address is known; n at once, at most. */
void clients_begin(struct pair *pair, long n);
void clients_end(const struct pair *pair);

/* A connection that is not begun yet, and ends with a reset. */
int client_open(const struct pair *pair);
/* Have each send leave at once: otherwise a second one waits until the first is acknowledged. */
void client_hurry(const struct pair *pair, int client);
/* Begin it. */
void client_connect(const struct pair *pair, int client);
/* Wait until it is established; return the ticks at which it was known. The second form does not
 * sleep. */
uint64_t client_await_open(const struct pair *pair, int client);
uint64_t client_spin_until_open(const struct pair *pair, int client);
void client_send(const struct pair *pair, int client, size_t bytes); /* with arbitrary content */
/* The same of a text, which must stay where it is. */
void client_send_text(const struct pair *pair, int client, const char *text, size_t bytes);
/* Wait until the server's kernel has what was sent, where that takes a packet back to know. */
void client_await_acknowledged(const struct pair *pair, int client);
/* Wait until something has come. */
void client_await_data(const struct pair *pair, int client);
/* Read at most that many of the received bytes; return how many, 0 if there are none yet. */
size_t client_receive(const struct pair *pair, int client, size_t bytes);
/* Spin until a byte has come, and take it. */
void client_take_byte(const struct pair *pair, int client);
/* Begin n connections, and send a request on each once it is established. */
void clients_ask(const struct pair *pair, int *clients, long n);
/* End it by a reset. */
void client_close(const struct pair *pair, int client);
/* The same of a client that has not attended to its reply yet: the kernel has acknowledged that
 * long ago, packets of the client machine do so together with the reset. */
void client_leave(const struct pair *pair, int client);
/* Handle what has come and what is due, if the kernel does not do so; was there anything? */
bool clients_attend(const struct pair *pair);
/* Handle all that has come. */
void clients_catch_up(const struct pair *pair);
/* Pass time, attending. */
void clients_spin(const struct pair *pair, double ns);

/* Make the peer's clients packets of a client machine, if the options request it. */
void far_clients_options(struct options *options);

/* ---- of both kinds ---- */

extern const struct client_kind socket_clients;
extern const struct client_kind far_clients;
void far_clients_begin(struct pair *pair, long n);

#endif
