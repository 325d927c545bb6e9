/* When each reply was due and when it came, in the order of coming: the rows of `--replies`. A kept
 * connection has one record and many replies.
 */
#ifndef CALIBRATION_REPLIES_H
#define CALIBRATION_REPLIES_H

#include "whole_file.h"

#include <stdbool.h>
#include <stdint.h>

/* Nanoseconds from the start of the run; as in the file. */
struct reply {
    int64_t due_ns; /* when its request was due */
    int64_t done_ns; /* its last byte */
    int64_t is_error;
};

struct replies {
    struct whole_file file;
    bool is_full; /* no room for more: later replies are missing */
    int64_t n;
    struct reply *rows;
};

/* Allocate the rows, unless *path* is NULL. */
struct replies replies_open(const char *path);

void replies_add(struct replies *replies, struct reply reply);

void replies_write(struct replies *replies);

#endif
