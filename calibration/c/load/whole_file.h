/* A file that is written at the end in one step: a reader never sees a part of it. */
#ifndef CALIBRATION_WHOLE_FILE_H
#define CALIBRATION_WHOLE_FILE_H

#include <stddef.h>

struct whole_file {
    const char *path; /* NULL: nothing is written */
    char *path_tmp;
    int fd;
};

/* Create PATH.tmp now, so that creating it cannot fail at the end. */
struct whole_file whole_file_open(const char *path);

/* Write *n_bytes* into PATH.tmp and rename it to PATH. */
void whole_file_write(struct whole_file *file, const void *content, size_t n_bytes);

#endif
