/* Reads a request as it arrives: `GET /BYTES HTTP/1.x`, ignored lines, an empty line. */
#ifndef CALIBRATION_REQUEST_H
#define CALIBRATION_REQUEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { REQUEST_LINE_MAX = 48 /* bytes; the longest good request line has 26 */ };

enum request_progress { REQUEST_PARTIAL, REQUEST_COMPLETE, REQUEST_BAD };

struct request {
    /* -- what was asked, once the first line is in -- */
    uint32_t reply_bytes; /* the whole reply, header included */
    bool keep_alive;      /* HTTP/1.1 */
    /* -- how far reading has come -- */
    bool first_line_read;
    bool line_is_blank; /* so far */
    uint8_t first_line_bytes;
    char first_line[REQUEST_LINE_MAX];
};

void request_begin(struct request *request);

/* Take the next *n_bytes* of a connection; what follows the empty line is not looked at. */
enum request_progress request_feed(struct request *request, const char *bytes, size_t n_bytes);

#endif
