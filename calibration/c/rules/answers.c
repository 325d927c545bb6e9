/* What a rule prints. */
#include "rules.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ANSWER_BYTES = 4096, OUTCOME_BYTES = 32, N_OUTCOMES = 8 };

static char text[ANSWER_BYTES];
static size_t n_text;
static bool in_list;

static void say_all(const char *format, va_list arguments)
{
    int n = vsnprintf(text + n_text, sizeof text - n_text, format, arguments);
    if (n < 0 || (size_t)n >= sizeof text - n_text) {
        not_asked("the answer is too long");
    }
    n_text += (size_t)n;
}

void say(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    say_all(format, arguments);
    va_end(arguments);
}

void say_next(const char *format, ...)
{
    va_list arguments;
    say(in_list ? ", " : "[");
    in_list = true;
    va_start(arguments, format);
    say_all(format, arguments);
    va_end(arguments);
}

void say_list_end(void)
{
    say(in_list ? "]" : "[]");
    in_list = false;
}

void say_numbers(const long *values, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        say_next("%ld", values[i]);
    }
    say_list_end();
}

const char *answer_text(void)
{
    return text;
}

void not_asked(const char *format, ...)
{
    va_list arguments;
    if (is_child()) {
        _exit(EXIT_FAILURE); /* the rule reads the pipe and reports it */
    }
    n_text = 0;
    va_start(arguments, format);
    say_all(format, arguments);
    va_end(arguments);
    /* The text goes into a JSON string. */
    for (char *c = text; *c != '\0'; c++) {
        if (*c == '"' || *c == '\\' || *c < ' ') {
            *c = '\'';
        }
    }
    printf("\"not_asked\": \"%s\"", text);
    exit(fflush(stdout) == 0 ? EXIT_SUCCESS : EXIT_FAILURE);
}

int sure(long result, const char *call)
{
    if (result < 0) {
        not_asked("%s: %s", call, strerror(errno));
    }
    return (int)result;
}

const char *outcome(long result)
{
    static char texts[N_OUTCOMES][OUTCOME_BYTES];
    static unsigned next;
    char *place = texts[next++ % N_OUTCOMES];
    if (result >= 0) {
        (void)snprintf(place, OUTCOME_BYTES, "%ld", result);
    } else {
        const char *name = strerrorname_np(errno);
        (void)snprintf(place, OUTCOME_BYTES, "\"%s\"", name == NULL ? "unknown" : name);
    }
    return place;
}

const char *as_bool(bool value)
{
    return value ? "true" : "false";
}
