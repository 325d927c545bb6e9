#include "wheel.h"

#include "../servers/program.h"

#include <stdlib.h>

void wheel_prepare(struct wheel *wheel, int64_t n_entries, int64_t now_ms)
{
    wheel->entries = calloc((size_t)n_entries, sizeof *wheel->entries);
    if (wheel->entries == NULL) {
        fail("out of memory for timers of %lld connections", (long long)n_entries);
    }
    wheel->now_ms = now_ms;
    for (int i = 0; i < WHEEL_LISTS; i++) {
        wheel->first[i] = WHEEL_NONE;
    }
}

static int32_t *list_of(struct wheel *wheel, int64_t due_ms)
{
    return &wheel->first[due_ms % WHEEL_LISTS];
}

void wheel_clear(struct wheel *wheel, int32_t index)
{
    struct wheel_entry *entry = &wheel->entries[index];
    if (entry->due_ms == 0) {
        return;
    }
    if (entry->before == WHEEL_NONE) {
        *list_of(wheel, entry->due_ms) = entry->after;
    } else {
        wheel->entries[entry->before].after = entry->after;
    }
    if (entry->after != WHEEL_NONE) {
        wheel->entries[entry->after].before = entry->before;
    }
    entry->due_ms = 0;
}

void wheel_set(struct wheel *wheel, int32_t index, int64_t due_ms)
{
    struct wheel_entry *entry = &wheel->entries[index];
    wheel_clear(wheel, index);
    entry->due_ms = due_ms > wheel->now_ms ? due_ms : wheel->now_ms + 1;
    int32_t *first = list_of(wheel, entry->due_ms);
    entry->before = WHEEL_NONE;
    entry->after = *first;
    if (*first != WHEEL_NONE) {
        wheel->entries[*first].before = index;
    }
    *first = index;
}

int32_t wheel_take(struct wheel *wheel, int64_t now_ms)
{
    for (; wheel->now_ms < now_ms; wheel->now_ms++) {
        int32_t index = *list_of(wheel, wheel->now_ms + 1);
        /* Timers of later rounds stand in the same list. */
        while (index != WHEEL_NONE && wheel->entries[index].due_ms > wheel->now_ms + 1) {
            index = wheel->entries[index].after;
        }
        if (index != WHEEL_NONE) {
            wheel_clear(wheel, index);
            return index;
        }
    }
    return WHEEL_NONE;
}
