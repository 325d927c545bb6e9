/* Times at which the generator, which spins, did not run: the rows of `--gaps`.
 *
 *   clock ──piece of the loop──► clock ──piece──► clock ...     gap: length of a piece - its usual
 *                                                                    length
 *
 * The clock is read between all pieces of the loop. A piece without work always takes the same:
 * what exceeds it is a gap, from 1 us on. The time of a call varies by itself, most if it sends an
 * interrupt to a halted CPU. Pieces with work therefore have gaps from 20 us on only, and miss
 * shorter ones. A slow call of the generator itself counts as a gap, too: not all gaps come from
 * the host.
 *
 * Sources: cyclictest and hwlatdetect (rt-tests), the tracer `osnoise` of Linux, which search for
 * gaps in a loop without other work.
 */
#ifndef CALIBRATION_GAPS_H
#define CALIBRATION_GAPS_H

#include "whole_file.h"

#include <stdbool.h>
#include <stdint.h>

enum { GAP_NS = 1000, GAP_ROW_NS = 20000 };

enum piece {
    PIECE_NOTHING, /* there was no work */
    PIECE_START,   /* begin connections or requests that are due */
    PIECE_EVENT,   /* handle events of connections */
    PIECE_SEND,    /* send queued packets */
    PIECES,
};

/* Nanoseconds from the start of the run; as in the file. */
struct gap {
    int64_t begin_ns; /* of the piece in which it lies */
    int64_t length_ns;
};

struct gaps {
    struct whole_file file;
    bool is_full;                /* no room for more rows: n and lost_ns still count */
    int64_t n;                   /* of all gaps */
    int64_t lost_ns;             /* their sum */
    int64_t n_rows;              /* of those above GAP_ROW_NS */
    int64_t last_ns;             /* when the current piece began */
    int64_t usual_ns[PIECES];    /* the usual time for one piece of work: a running median */
    struct gap *rows;
};

/* Allocate the rows, unless *path* is NULL. */
struct gaps gaps_open(const char *path);

/* The run begins at *now_ns*. */
void gaps_begin(struct gaps *gaps, int64_t now_ns);

/* A piece with *n_done* pieces of work, at least one unless it was PIECE_NOTHING, ends at
 * *now_ns*. */
void gaps_see(struct gaps *gaps, enum piece piece, int64_t n_done, int64_t now_ns);

void gaps_write(struct gaps *gaps);

#endif
