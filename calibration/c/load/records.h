/* The result of each connection, in order of start: the rows of `--records`.
 *
 * A request of kept connections has a row in `--requests`, in order of due times: it was due at
 * intended_ns, the generator began with it at started_ns, and sent it at connected_ns.
 */
#ifndef CALIBRATION_RECORDS_H
#define CALIBRATION_RECORDS_H

#include "whole_file.h"

#include <stdint.h>

#define NOT_REACHED (-1LL) /* a time that never came */

enum status {
    STATUS_REPLIED = 0,
    STATUS_TIMEOUT = 1,
    STATUS_REFUSED = 2,
    STATUS_RESET = 3,
    STATUS_DESCRIPTORS = 4,
    STATUS_OPEN = 5,
};

/* Nanoseconds from the start of the run; as in the file, so all are 64 bits wide. */
struct record {
    int64_t intended_ns;
    int64_t started_ns;
    int64_t connected_ns;
    int64_t done_ns;
    int64_t status;
};

struct records {
    struct whole_file file;
    int64_t n;
    int64_t n_max;
    struct record *rows;
};

/* Make room for *n_max* records and create the file, so that neither fails at the end. */
struct records records_open(const char *path, int64_t n_max);

void records_write(struct records *records);

#endif
