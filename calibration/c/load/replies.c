#include "replies.h"

#include "../servers/program.h"

#include <stdlib.h>

_Static_assert(sizeof(struct reply) == 24, "a reply is three 64-bit integers");

static const int64_t n_max = 1 << 25; /* some minutes at 100,000/s; only used rows take memory */

struct replies replies_open(const char *path)
{
    struct replies replies = {.file = whole_file_open(path)};
    if (path != NULL) {
        replies.rows = calloc((size_t)n_max, sizeof *replies.rows);
        if (replies.rows == NULL) {
            fail("out of memory for %lld replies", (long long)n_max);
        }
    }
    return replies;
}

void replies_add(struct replies *replies, struct reply reply)
{
    if (replies->rows == NULL) {
        return;
    }
    if (replies->n == n_max) {
        replies->is_full = true;
        return;
    }
    replies->rows[replies->n++] = reply;
}

void replies_write(struct replies *replies)
{
    whole_file_write(&replies->file, replies->rows, (size_t)replies->n * sizeof *replies->rows);
    free(replies->rows);
}
