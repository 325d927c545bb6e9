/* Writes the text of a request of a given size. */
#ifndef CALIBRATION_REQUEST_TEXT_H
#define CALIBRATION_REQUEST_TEXT_H

#include "trace.h"

#include <stdbool.h>
#include <stdint.h>

/* `GET /REPLY_BYTES HTTP/1.x`, a header that pads to *request_bytes*, an empty line. */
void request_text(char text[TRACE_REQUEST_BYTES_MAX], uint32_t request_bytes, uint32_t reply_bytes,
                  bool keep_alive);

#endif
