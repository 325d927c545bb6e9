#include "request.h"

#include "reply.h"

#include <string.h>

void request_begin(struct request *request)
{
    request->first_line_read = false;
    request->line_is_blank = true;
    request->first_line_bytes = 0;
}

/* `GET /BYTES HTTP/1.x`, nothing before, between or after. */
static bool parse_first_line(struct request *request)
{
    static const char method[] = "GET /";
    static const char version[] = " HTTP/1.";
    const char *at = request->first_line;
    const char *end = at + request->first_line_bytes;
    if ((size_t)(end - at) <= strlen(method) || memcmp(at, method, strlen(method)) != 0) {
        return false;
    }
    at += strlen(method);
    uint64_t reply_bytes = 0;
    const char *digits = at;
    for (; at < end && *at >= '0' && *at <= '9'; at++) {
        reply_bytes = reply_bytes * 10 + (uint64_t)(*at - '0');
        if (reply_bytes > REPLY_BYTES_MAX) {
            return false;
        }
    }
    if (at == digits || (size_t)(end - at) != strlen(version) + 1 ||
        memcmp(at, version, strlen(version)) != 0) {
        return false;
    }
    char minor = end[-1];
    request->keep_alive = minor == '1';
    request->reply_bytes =
        reply_bytes < REPLY_HEADER_BYTES ? REPLY_HEADER_BYTES : (uint32_t)reply_bytes;
    return minor == '0' || minor == '1';
}

enum request_progress request_feed(struct request *request, const char *bytes, size_t n_bytes)
{
    const char *end = bytes + n_bytes;
    while (bytes < end) {
        const char *newline = memchr(bytes, '\n', (size_t)(end - bytes));
        const char *line_end = newline != NULL ? newline : end;
        size_t n_text = (size_t)(line_end - bytes);
        if (!request->first_line_read) {
            if (n_text > (size_t)(REQUEST_LINE_MAX - request->first_line_bytes)) {
                return REQUEST_BAD;
            }
            memcpy(request->first_line + request->first_line_bytes, bytes, n_text);
            request->first_line_bytes = (uint8_t)(request->first_line_bytes + n_text);
        }
        /* A carriage return alone does not make a line: those before the newline are blank. */
        for (const char *at = bytes; at < line_end && request->line_is_blank; at++) {
            request->line_is_blank = *at == '\r';
        }
        if (newline == NULL) {
            return REQUEST_PARTIAL;
        }
        if (!request->first_line_read) {
            uint8_t length = request->first_line_bytes;
            if (length > 0 && request->first_line[length - 1] == '\r') {
                request->first_line_bytes--;
            }
            if (!parse_first_line(request)) {
                return REQUEST_BAD;
            }
            request->first_line_read = true;
        } else if (request->line_is_blank) {
            return REQUEST_COMPLETE;
        }
        request->line_is_blank = true;
        bytes = newline + 1;
    }
    return REQUEST_PARTIAL;
}
