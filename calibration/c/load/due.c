#include "due.h"

#include "../servers/program.h"

#include <assert.h>
#include <stdlib.h>

enum { ROOM_AT_FIRST = 1024 };

static bool precedes(const struct due *a, const struct due *b)
{
    return a->due_ns < b->due_ns || (a->due_ns == b->due_ns && a->sequence < b->sequence);
}

void due_add(struct due_heap *heap, int64_t due_ns, int fd, int64_t record)
{
    if (heap->n == heap->n_room) {
        heap->n_room = heap->n_room == 0 ? ROOM_AT_FIRST : 2 * heap->n_room;
        heap->entries = realloc(heap->entries, heap->n_room * sizeof *heap->entries);
        if (heap->entries == NULL) {
            fail("out of memory for %zu users and pauses", heap->n_room);
        }
    }
    struct due added = {due_ns, heap->n_added++, record, fd};
    size_t hole = heap->n++;
    for (; hole > 0 && precedes(&added, &heap->entries[(hole - 1) / 2]); hole = (hole - 1) / 2) {
        heap->entries[hole] = heap->entries[(hole - 1) / 2];
    }
    heap->entries[hole] = added;
}

struct due due_take(struct due_heap *heap)
{
    assert(heap->n > 0);
    struct due first = heap->entries[0];
    struct due last = heap->entries[--heap->n];
    size_t hole = 0;
    for (;;) {
        size_t child = 2 * hole + 1;
        if (child >= heap->n) {
            break;
        }
        if (child + 1 < heap->n && precedes(&heap->entries[child + 1], &heap->entries[child])) {
            child++;
        }
        if (!precedes(&heap->entries[child], &last)) {
            break;
        }
        heap->entries[hole] = heap->entries[child];
        hole = child;
    }
    if (heap->n > 0) {
        heap->entries[hole] = last;
    }
    return first;
}
