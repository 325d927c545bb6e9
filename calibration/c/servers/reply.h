/* Writes a reply of a given size: a header of fixed size, then letters. */
#ifndef CALIBRATION_REPLY_H
#define CALIBRATION_REPLY_H

#include <stdint.h>
#include <sys/types.h>

enum {
    REPLY_HEADER_BYTES = 64,   /* padded to this, so the smallest reply is a header alone */
    REPLY_BYTES_MAX = 1 << 30, /* header included */
    REPLY_PATTERN_BYTES = 65536,
};

/* The body of every reply is this, repeated: no reply is copied or allocated. */
struct reply_pattern {
    char letters[REPLY_PATTERN_BYTES];
};

void reply_pattern_fill(struct reply_pattern *pattern);

/* Write the header of a reply of *reply_bytes*. */
void reply_header(char header[REPLY_HEADER_BYTES], uint32_t reply_bytes);

/* Write what is left of a reply of *reply_bytes* after *reply_sent*, in one call: as write(2). */
ssize_t reply_write(struct reply_pattern *pattern, int fd, uint32_t reply_bytes,
                    uint32_t reply_sent);

#endif
