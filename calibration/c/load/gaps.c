#include "gaps.h"

#include "../servers/program.h"

#include <stdlib.h>

_Static_assert(sizeof(struct gap) == 16, "a gap is two 64-bit integers");

static const int64_t n_max = 1 << 20; /* only used rows take memory */

struct gaps gaps_open(const char *path)
{
    struct gaps gaps = {.file = whole_file_open(path)};
    if (path != NULL) {
        gaps.rows = calloc((size_t)n_max, sizeof *gaps.rows);
        if (gaps.rows == NULL) {
            fail("out of memory for %lld gaps", (long long)n_max);
        }
    }
    return gaps;
}

void gaps_begin(struct gaps *gaps, int64_t now_ns)
{
    /* Connections opened before time zero used other pieces, on another clock. */
    gaps->last_ns = now_ns;
    gaps->n = gaps->lost_ns = gaps->n_rows = 0;
    gaps->is_full = false;
    for (int piece = 0; piece < PIECES; piece++) {
        gaps->usual_ns[piece] = 0;
    }
}

/* A running median: it moves towards each value by a 32nd of itself. */
static int64_t moved(int64_t usual_ns, int64_t value_ns)
{
    if (usual_ns == 0) {
        return value_ns;
    }
    int64_t step_ns = usual_ns / 32 + 1;
    return value_ns > usual_ns ? usual_ns + step_ns : usual_ns - step_ns;
}

void gaps_see(struct gaps *gaps, enum piece piece, int64_t n_done, int64_t now_ns)
{
    if (gaps->rows == NULL) {
        return;
    }
    int64_t n = n_done > 0 ? n_done : 1;
    int64_t length_ns = now_ns - gaps->last_ns;
    int64_t begin_ns = gaps->last_ns;
    bool is_known = gaps->usual_ns[piece] > 0;
    int64_t excess_ns = length_ns - n * gaps->usual_ns[piece];
    gaps->last_ns = now_ns;
    gaps->usual_ns[piece] = moved(gaps->usual_ns[piece], length_ns / n);
    if (!is_known || excess_ns <= (piece == PIECE_NOTHING ? GAP_NS : GAP_ROW_NS)) {
        return;
    }
    gaps->n++;
    gaps->lost_ns += excess_ns;
    if (excess_ns <= GAP_ROW_NS) {
        return;
    }
    if (gaps->n_rows == n_max) {
        gaps->is_full = true;
        return;
    }
    gaps->rows[gaps->n_rows++] = (struct gap){begin_ns, excess_ns};
}

void gaps_write(struct gaps *gaps)
{
    whole_file_write(&gaps->file, gaps->rows, (size_t)gaps->n_rows * sizeof *gaps->rows);
    free(gaps->rows);
}
