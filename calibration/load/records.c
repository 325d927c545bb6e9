#include "records.h"

#include "../servers/program.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the records file is little-endian");
_Static_assert(sizeof(struct record) == 40, "a record is five 64-bit integers");

struct records records_open(const char *path, int64_t n_max)
{
    struct records records = {
        .path = path,
        .fd = -1,
        .n_max = n_max,
        .rows = calloc((size_t)n_max, sizeof *records.rows),
    };
    if (records.rows == NULL) {
        fail("out of memory for %lld records", (long long)n_max);
    }
    if (path == NULL) {
        return records;
    }
    if (asprintf(&records.path_tmp, "%s.tmp", path) < 0) {
        fail("out of memory");
    }
    records.fd = open(records.path_tmp, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (records.fd < 0) {
        fail("cannot create the records file %s: %s", records.path_tmp, strerror(errno));
    }
    return records;
}

void records_write(struct records *records)
{
    if (records->path == NULL) {
        return;
    }
    const char *bytes = (const char *)records->rows;
    size_t n_left = (size_t)records->n * sizeof *records->rows;
    while (n_left > 0) {
        ssize_t n_written = write(records->fd, bytes, n_left);
        if (n_written < 0 && errno != EINTR) {
            fail("cannot write %s: %s", records->path_tmp, strerror(errno));
        }
        bytes += n_written > 0 ? n_written : 0;
        n_left -= n_written > 0 ? (size_t)n_written : 0;
    }
    if (close(records->fd) != 0 || rename(records->path_tmp, records->path) != 0) {
        fail("cannot finish the records file %s: %s", records->path, strerror(errno));
    }
    free(records->path_tmp);
}
