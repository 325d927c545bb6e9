/* Times at which the generator, which spins, did not run: the rows of `--gaps`.
 *
 *   clock ──piece of the loop──► clock ──piece──► clock ...     gap: length of a piece - what such
 *                                                                    a piece usually takes
 *
 * The clock is read between all pieces of the loop. A piece that found nothing to do always takes
 * the same: what it takes longer is a gap, from 1 us on. What a call takes varies by itself, most
 * where it sends an interrupt to a halted CPU. Pieces that did something therefore have gaps from
 * 20 us on only, and shorter ones are missed in them. A slow call of the generator itself counts
 * as a gap, too: not all gaps are the host's.
 *
 * Sources: cyclictest and hwlatdetect (rt-tests), the tracer `osnoise` of Linux, which look for
 * gaps in a loop that does nothing else.
 */
#ifndef CALIBRATION_GAPS_H
#define CALIBRATION_GAPS_H

#include "whole_file.h"

#include <stdbool.h>
#include <stdint.h>

enum { GAP_NS = 1000, GAP_ROW_NS = 20000 };

enum piece {
    PIECE_NOTHING, /* there was nothing to do */
    PIECE_START,   /* connections or requests that had fallen due */
    PIECE_EVENT,   /* what had happened on connections */
    PIECE_SEND,    /* packets that were put off */
    PIECES,
};

/* Nanoseconds from the start of the run; as in the file. */
struct gap {
    int64_t begin_ns; /* of the piece in which it lies */
    int64_t length_ns;
};

struct gaps {
    struct whole_file file;
    bool is_full;                /* no room for more rows: n and lost_ns go on */
    int64_t n;                   /* of all gaps */
    int64_t lost_ns;             /* their sum */
    int64_t n_rows;              /* of those above GAP_ROW_NS */
    int64_t last_ns;             /* when the piece under way began */
    int64_t usual_ns[PIECES];    /* what one thing done takes: a running median */
    struct gap *rows;
};

/* Make room, if they are wanted at all (*path* is not NULL). */
struct gaps gaps_open(const char *path);

/* The run begins at *now_ns*. */
void gaps_begin(struct gaps *gaps, int64_t now_ns);

/* A piece in which *n_done* things were done, at least one unless it was PIECE_NOTHING, ends at
 * *now_ns*. */
void gaps_see(struct gaps *gaps, enum piece piece, int64_t n_done, int64_t now_ns);

void gaps_write(struct gaps *gaps);

#endif
