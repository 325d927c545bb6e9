/* The connections of a client machine: their addresses and ports, and their TCP state.
 *
 *   tuple: source address and port     used in turn, so that one recurs after all others
 *   slot:  the connection's number     reused at once, so that few of them are in the cache
 */
#ifndef CALIBRATION_PEERS_H
#define CALIBRATION_PEERS_H

#include <stdbool.h>
#include <stdint.h>

enum {
    PORT_FIRST = 1024,
    PORTS = 65536 - PORT_FIRST,
    SOURCES_MAX = 250,
    NO_SLOT = -1,
};

enum peer_state {
    PEER_FREE,
    PEER_SYN_SENT,
    PEER_OPEN,
    PEER_CLOSED_THERE, /* the server's FIN has come */
};

/* Names as in RFC 9293, section 3.3.1. */
struct peer {
    enum peer_state state;
    bool is_idle;         /* it never sends a request */
    bool answers;         /* "ping-pong": acknowledgements wait for what is sent next */
    bool has_scale;
    uint8_t scale;        /* of the server's windows */
    int n_quick;          /* acknowledgements that are not delayed, at the beginning */
    int n_timeouts;
    int32_t next_free;
    uint32_t tuple;
    uint32_t snd_una;
    uint32_t snd_nxt;
    uint32_t snd_wnd;
    uint32_t cwnd;        /* bytes */
    uint32_t request_seq; /* of the first byte of the request under way */
    uint32_t rcv_nxt;
    uint32_t rcv_acked;   /* acknowledged so far */
    uint32_t rcv_wnd;
    uint32_t stamp_recent;
    int64_t heard_ns;     /* the last arrival of data; 0: never */
    int64_t sent_ns;      /* what the timer is for */
    int64_t trip_ns;      /* smoothed round trip; 0: not measured */
};

struct peers {
    struct peer *slots;
    int32_t *slot_of; /* by tuple */
    int64_t n_tuples;
    int64_t next_tuple;
    int64_t n_slots;
    int32_t free;
};

void peers_prepare(struct peers *peers, int64_t n_slots, int64_t n_sources);

/* A new connection with an unused tuple, all else zero; NO_SLOT if there is none. */
int32_t peers_take(struct peers *peers);
void peers_release(struct peers *peers, int32_t slot);

/* The connection of that source address (counted from the first) and port. */
int32_t peers_find(const struct peers *peers, uint32_t source, uint16_t port);

static inline uint32_t source_of(const struct peer *peer)
{
    return peer->tuple / PORTS;
}

static inline uint16_t port_of(const struct peer *peer)
{
    return (uint16_t)(PORT_FIRST + peer->tuple % PORTS);
}

void peers_free(struct peers *peers);

#endif
