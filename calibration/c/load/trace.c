#include "trace.h"

#include "../servers/program.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    LINE_BYTES_MAX = 255, /* a comment may be longer, the rest of a line may not */
    ROWS_AT_FIRST = 1024,
    COLUMNS = 5,
    REQUEST_COLUMNS = 2,
    VALUE_SHOWN_MAX = 40,
};

static const char first_line[] = "# dispatchsim trace 1";

struct reader {
    const char *path;
    FILE *file;
    int64_t line_number;
    char line[LINE_BYTES_MAX + 1];
};

#define REFUSE_LINE(reader, format, ...)                                                           \
    refuse("%s:%lld: " format, (reader)->path, (long long)(reader)->line_number, __VA_ARGS__)

/* Text of the file in a form for messages: short, printable. */
struct shown {
    char text[VALUE_SHOWN_MAX + 4];
};

static struct shown show(const char *value)
{
    struct shown shown;
    size_t i = 0;
    for (; value[i] != '\0' && i < VALUE_SHOWN_MAX; i++) {
        shown.text[i] = value[i] >= ' ' && value[i] <= '~' ? value[i] : '?';
    }
    memcpy(shown.text + i, value[i] == '\0' ? "" : "...", value[i] == '\0' ? 1 : 4);
    return shown;
}

/* Read one line without its newline; false at the end of the file. */
static bool read_line(struct reader *reader)
{
    size_t length = 0;
    bool commented = false;
    int byte = getc_unlocked(reader->file);
    if (byte == EOF) {
        if (ferror(reader->file)) {
            fail("cannot read %s: %s", reader->path, strerror(errno));
        }
        return false;
    }
    reader->line_number++;
    for (; byte != EOF && byte != '\n'; byte = getc_unlocked(reader->file)) {
        commented = commented || byte == '#';
        if (byte == '\0' && !commented) {
            REFUSE_LINE(reader, "a line must be text, got a zero byte%s", "");
        }
        if (length == LINE_BYTES_MAX && !commented) {
            REFUSE_LINE(reader, "a line must have at most %d bytes, got \"%s\"", LINE_BYTES_MAX,
                        show(reader->line).text);
        }
        if (length < LINE_BYTES_MAX) {
            reader->line[length++] = (char)byte;
            reader->line[length] = '\0';
        }
    }
    reader->line[length] = '\0';
    return true;
}

/* Split the next line that is not empty into *words*; return their number, 0 at the end. */
static size_t next_words(struct reader *reader, char *words[], size_t n_words_max)
{
    while (read_line(reader)) {
        char *comment = strchr(reader->line, '#');
        if (comment != NULL) {
            *comment = '\0';
        }
        size_t n_words = 0;
        char *rest = NULL;
        for (char *word = strtok_r(reader->line, " \t\r", &rest); word != NULL;
             word = strtok_r(NULL, " \t\r", &rest)) {
            if (n_words == n_words_max) {
                REFUSE_LINE(reader, "a line must have at most %zu words here, got \"%s\" more",
                            n_words_max, show(word).text);
            }
            words[n_words++] = word;
        }
        if (n_words > 0) {
            return n_words;
        }
    }
    return 0;
}

static int64_t parse_field(const struct reader *reader, const char *name, const char *text,
                           int64_t min, int64_t max)
{
    int64_t value = 0;
    if (!parse_integer(text, &value) || value < min || value > max) {
        REFUSE_LINE(reader, "%s must be between %lld and %lld, got \"%s\"", name, (long long)min,
                    (long long)max, show(text).text);
    }
    return value;
}

/* The value of the header line `KEY VALUE`. */
static const char *read_header_value(struct reader *reader, const char *key)
{
    char *words[2];
    size_t n_words = next_words(reader, words, 2);
    if (n_words == 0) {
        REFUSE_LINE(reader, "the header must have a line \"%s ...\", got the end of the file", key);
    }
    if (n_words != 2 || strcmp(words[0], key) != 0) {
        REFUSE_LINE(reader, "the header must have \"%s VALUE\" here, got \"%s\"", key,
                    show(words[0]).text);
    }
    return words[1];
}

static enum loop parse_loop(const struct reader *reader, const char *word)
{
    static const char *const words[] = {
        [LOOP_OPEN] = "open",
        [LOOP_CLOSED] = "closed",
        [LOOP_KEPT] = "kept",
    };
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        if (strcmp(word, words[i]) == 0) {
            return (enum loop)i;
        }
    }
    REFUSE_LINE(reader, "loop must be open, closed or kept, got \"%s\"", show(word).text);
}

static void read_header(struct reader *reader, struct trace *trace)
{
    if (!read_line(reader)) {
        REFUSE_LINE(reader, "a trace must begin with \"%s\", got an empty file", first_line);
    }
    size_t length = strcspn(reader->line, "\r");
    if (length != strlen(first_line) || strncmp(reader->line, first_line, length) != 0) {
        REFUSE_LINE(reader, "a trace must begin with \"%s\", got \"%s\"", first_line,
                    show(reader->line).text);
    }
    trace->loop = parse_loop(reader, read_header_value(reader, "loop"));
    bool has_users = trace->loop != LOOP_OPEN;
    const char *users = read_header_value(reader, "users");
    trace->n_users =
        parse_field(reader, "users", users, has_users ? 1 : 0, has_users ? TRACE_USERS_MAX : 0);
    const char *connections = read_header_value(reader, "connections");
    trace->n_rows = parse_field(reader, "connections", connections, 1, TRACE_ROWS_MAX);
}

static struct trace_row parse_row(const struct reader *reader, const struct trace *trace,
                                  char *words[])
{
    int64_t reply_bytes = parse_field(reader, "reply_bytes", words[3], 0, TRACE_REPLY_BYTES_MAX);
    return (struct trace_row){
        .at_ns =
            parse_field(reader, "at_ns", words[0], 0, trace->loop == LOOP_OPEN ? TRACE_NS_MAX : 0),
        .n_requests = (uint32_t)parse_field(reader, "requests", words[1], 1, TRACE_REQUESTS_MAX),
        .request_bytes = (uint32_t)parse_field(reader, "request_bytes", words[2],
                                               TRACE_REQUEST_BYTES_MIN, TRACE_REQUEST_BYTES_MAX),
        .reply_bytes =
            (uint32_t)(reply_bytes < TRACE_REPLY_BYTES_MIN ? TRACE_REPLY_BYTES_MIN : reply_bytes),
        .think_ns = parse_field(reader, "think_ns", words[4], 0, TRACE_NS_MAX),
    };
}

/* Room for the row *i* of *n_rows* in an array for *n_room*: memory grows with the rows in the
 * file, not with the announced number. */
static void *make_room(void *rows, int64_t i, int64_t *n_room, int64_t n_rows, size_t row_bytes)
{
    if (i < *n_room) {
        return rows;
    }
    *n_room = *n_room == 0 ? ROWS_AT_FIRST : 2 * *n_room;
    *n_room = *n_room > n_rows ? n_rows : *n_room;
    void *more = realloc(rows, (size_t)*n_room * row_bytes);
    if (more == NULL) {
        fail("out of memory for %lld rows of a trace", (long long)*n_room);
    }
    return more;
}

/* The words of the row *i* of *n_rows*, each with *n_columns*; *what* names the rows in messages.
 */
static void next_row(struct reader *reader, char *words[], size_t n_columns, const char *what,
                     int64_t i, int64_t n_rows)
{
    size_t n_words = next_words(reader, words, n_columns);
    if (n_words == 0) {
        REFUSE_LINE(reader, "the trace must have %lld %s, got %lld", (long long)n_rows, what,
                    (long long)i);
    }
    if (n_words != n_columns) {
        REFUSE_LINE(reader, "a row must have %zu numbers, got %zu", n_columns, n_words);
    }
}

static void read_rows(struct reader *reader, struct trace *trace)
{
    int64_t n_room = 0;
    char *words[COLUMNS];
    for (int64_t i = 0; i < trace->n_rows; i++) {
        next_row(reader, words, COLUMNS, "rows", i, trace->n_rows);
        trace->rows = make_room(trace->rows, i, &n_room, trace->n_rows, sizeof *trace->rows);
        trace->rows[i] = parse_row(reader, trace, words);
        if (i > 0 && trace->rows[i].at_ns < trace->rows[i - 1].at_ns) {
            REFUSE_LINE(reader, "arrivals must be sorted: at_ns %lld precedes %lld before it",
                        (long long)trace->rows[i].at_ns, (long long)trace->rows[i - 1].at_ns);
        }
    }
}

/* The requests of kept connections: when each is due, and for which user. */
static void read_requests(struct reader *reader, struct trace *trace)
{
    int64_t n_room = 0;
    char *words[REQUEST_COLUMNS];
    const char *requests = read_header_value(reader, "requests");
    trace->n_requests = parse_field(reader, "requests", requests, 1, TRACE_ROWS_MAX);
    for (int64_t i = 0; i < trace->n_requests; i++) {
        next_row(reader, words, REQUEST_COLUMNS, "requests", i, trace->n_requests);
        trace->requests =
            make_room(trace->requests, i, &n_room, trace->n_requests, sizeof *trace->requests);
        struct trace_request *request = &trace->requests[i];
        request->due_ns = parse_field(reader, "due_ns", words[0], 0, TRACE_NS_MAX);
        request->user = parse_field(reader, "user", words[1], 0, trace->n_users - 1);
        if (i > 0 && request->due_ns < request[-1].due_ns) {
            REFUSE_LINE(reader, "requests must be sorted: due_ns %lld precedes %lld before it",
                        (long long)request->due_ns, (long long)request[-1].due_ns);
        }
    }
}

static void read_end(struct reader *reader, const struct trace *trace)
{
    char *words[COLUMNS];
    bool kept = trace->loop == LOOP_KEPT;
    if (next_words(reader, words, COLUMNS) != 0) {
        REFUSE_LINE(reader, "the trace must end after %lld %s, got \"%s\" more",
                    (long long)(kept ? trace->n_requests : trace->n_rows),
                    kept ? "requests" : "rows", show(words[0]).text);
    }
}

struct trace trace_read(const char *path)
{
    struct reader reader = {.path = path, .file = fopen(path, "re")};
    struct trace trace = {0};
    if (reader.file == NULL) {
        refuse("--trace must be a readable file, got \"%s\": %s", path, strerror(errno));
    }
    read_header(&reader, &trace);
    read_rows(&reader, &trace);
    if (trace.loop == LOOP_KEPT) {
        read_requests(&reader, &trace);
    }
    read_end(&reader, &trace);
    if (fclose(reader.file) != 0) {
        fail("cannot close %s: %s", path, strerror(errno));
    }
    return trace;
}
