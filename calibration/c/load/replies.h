/* When each reply was due and came, in the order of coming: the rows of `--replies`. A connection
 * that is kept has one record and many of these.
 */
#ifndef CALIBRATION_REPLIES_H
#define CALIBRATION_REPLIES_H

#include "whole_file.h"

#include <stdbool.h>
#include <stdint.h>

/* Nanoseconds from the start of the run; as in the file. */
struct reply {
    int64_t due_ns;  /* when its request was to be sent */
    int64_t done_ns; /* its last byte */
    int64_t is_error;
};

struct replies {
    struct whole_file file;
    bool is_full; /* no room for more: the rest is missing */
    int64_t n;
    struct reply *rows;
};

/* Make room, if they are wanted at all (*path* is not NULL). */
struct replies replies_open(const char *path);

void replies_add(struct replies *replies, struct reply reply);

void replies_write(struct replies *replies);

#endif
