#include "peers.h"

#include "../servers/program.h"

#include <stdlib.h>

void peers_prepare(struct peers *peers, int64_t n_slots, int64_t n_sources)
{
    *peers = (struct peers){
        .slots = calloc((size_t)n_slots, sizeof *peers->slots),
        .slot_of = malloc((size_t)(n_sources * PORTS) * sizeof *peers->slot_of),
        .n_tuples = n_sources * PORTS,
        .n_slots = n_slots,
        .free = 0,
    };
    if (peers->slots == NULL || peers->slot_of == NULL) {
        fail("out of memory for %lld connections", (long long)n_slots);
    }
    for (int64_t i = 0; i < n_slots; i++) {
        peers->slots[i].next_free = i + 1 < n_slots ? (int32_t)(i + 1) : NO_SLOT;
    }
    for (int64_t i = 0; i < peers->n_tuples; i++) {
        peers->slot_of[i] = NO_SLOT;
    }
}

int32_t peers_take(struct peers *peers)
{
    int32_t slot = peers->free;
    int64_t n_tried = 0;
    while (n_tried < peers->n_tuples && peers->slot_of[peers->next_tuple] != NO_SLOT) {
        peers->next_tuple = (peers->next_tuple + 1) % peers->n_tuples;
        n_tried++;
    }
    if (slot == NO_SLOT || n_tried == peers->n_tuples) {
        return NO_SLOT;
    }
    peers->free = peers->slots[slot].next_free;
    peers->slots[slot] = (struct peer){.tuple = (uint32_t)peers->next_tuple};
    peers->slot_of[peers->next_tuple] = slot;
    peers->next_tuple = (peers->next_tuple + 1) % peers->n_tuples;
    return slot;
}

void peers_release(struct peers *peers, int32_t slot)
{
    peers->slot_of[peers->slots[slot].tuple] = NO_SLOT;
    peers->slots[slot].state = PEER_FREE;
    peers->slots[slot].next_free = peers->free;
    peers->free = slot;
}

int32_t peers_find(const struct peers *peers, uint32_t source, uint16_t port)
{
    uint64_t tuple = (uint64_t)source * PORTS + port - PORT_FIRST;
    bool is_ours = port >= PORT_FIRST && tuple < (uint64_t)peers->n_tuples;
    return is_ours ? peers->slot_of[tuple] : NO_SLOT;
}

void peers_free(struct peers *peers)
{
    free(peers->slots);
    free(peers->slot_of);
}
