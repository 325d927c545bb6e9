#include "request_text.h"

#include <assert.h>
#include <string.h>

/* Without snprintf, for speed: this runs between the intended and the true time of a send. */
void request_text(char text[TRACE_REQUEST_BYTES_MAX], uint32_t request_bytes, uint32_t reply_bytes,
                  bool keep_alive)
{
    static const char version[] = " HTTP/1.";
    char digits[10];
    size_t n_digits = 0;
    for (uint32_t rest = reply_bytes; rest > 0 || n_digits == 0; rest /= 10) {
        digits[n_digits++] = (char)('0' + rest % 10);
    }
    char *at = text;
    memcpy(at, "GET /", 5);
    at += 5;
    while (n_digits > 0) {
        *at++ = digits[--n_digits];
    }
    memcpy(at, version, strlen(version));
    at += strlen(version);
    *at++ = keep_alive ? '1' : '0';
    memcpy(at, "\r\nP:", 4);
    at += 4;
    char *end = text + request_bytes;
    assert(end - at >= 4);
    memset(at, 'x', (size_t)(end - at) - 4);
    memcpy(end - 4, "\r\n\r\n", 4);
}
