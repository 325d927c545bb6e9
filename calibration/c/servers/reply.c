#include "reply.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>
#include <sys/uio.h>

enum { BODY_PARTS_MAX = 64 /* 4 MiB in one call: as much as a send buffer takes */ };

void reply_pattern_fill(struct reply_pattern *pattern)
{
    for (size_t i = 0; i < sizeof pattern->letters; i++) {
        pattern->letters[i] = (char)('a' + i % 26);
    }
}

void reply_header(char header[REPLY_HEADER_BYTES], uint32_t reply_bytes)
{
    char text[REPLY_HEADER_BYTES];
    int n_text =
        snprintf(text, sizeof text,
                 "HTTP/1.1 200 OK\r\nContent-Length: %u\r\nPad:", reply_bytes - REPLY_HEADER_BYTES);
    assert(n_text > 0);
    assert(n_text <= REPLY_HEADER_BYTES - 4);
    memset(header, 'x', REPLY_HEADER_BYTES);
    memcpy(header, text, (size_t)n_text);
    memcpy(header + REPLY_HEADER_BYTES - 4, "\r\n\r\n", 4);
}

ssize_t reply_write(struct reply_pattern *pattern, int fd, uint32_t reply_bytes,
                    uint32_t reply_sent)
{
    char header[REPLY_HEADER_BYTES];
    struct iovec parts[1 + BODY_PARTS_MAX];
    int n_parts = 0;
    uint32_t from = reply_sent;
    if (from < REPLY_HEADER_BYTES) {
        reply_header(header, reply_bytes);
        parts[n_parts++] = (struct iovec){header + from, REPLY_HEADER_BYTES - from};
        from = REPLY_HEADER_BYTES;
    }
    while (from < reply_bytes && n_parts < 1 + BODY_PARTS_MAX) {
        uint32_t offset = (from - REPLY_HEADER_BYTES) % REPLY_PATTERN_BYTES;
        uint32_t length = REPLY_PATTERN_BYTES - offset;
        if (length > reply_bytes - from) {
            length = reply_bytes - from;
        }
        parts[n_parts++] = (struct iovec){pattern->letters + offset, length};
        from += length;
    }
    return writev(fd, parts, n_parts);
}
