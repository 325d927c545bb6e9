/* One clear line, then the end. */
#include "micro.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static _Noreturn void leave(int status, int error, const char *format, va_list arguments)
{
    char line[512];
    (void)vsnprintf(line, sizeof line, format, arguments);
    if (error != 0) {
        (void)fprintf(stderr, "micro: %s: %s\n", line, strerror(error));
    } else {
        (void)fprintf(stderr, "micro: %s\n", line);
    }
    /* The other thread may be in the middle of anything: no handlers, no destructors. */
    (void)fflush(NULL);
    _Exit(status);
}

void fail(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    leave(1, 0, format, arguments);
}

void fail_errno(const char *format, ...)
{
    int error = errno;
    va_list arguments;
    va_start(arguments, format);
    leave(1, error, format, arguments);
}

void fail_usage(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    leave(2, 0, format, arguments);
}

void *allocate(size_t n, size_t bytes)
{
    void *memory = calloc(n > 0 ? n : 1, bytes);
    if (memory == NULL) {
        fail("no memory for %zu items of %zu bytes", n, bytes);
    }
    return memory;
}
