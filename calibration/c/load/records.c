#include "records.h"

#include "../servers/program.h"

#include <stdlib.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the records file is little-endian");
_Static_assert(sizeof(struct record) == 40, "a record is five 64-bit integers");

struct records records_open(const char *path, int64_t n_max)
{
    struct records records = {
        .n_max = n_max,
        .rows = calloc((size_t)n_max, sizeof *records.rows),
    };
    if (records.rows == NULL) {
        fail("out of memory for %lld records", (long long)n_max);
    }
    records.file = whole_file_open(path);
    return records;
}

void records_write(struct records *records)
{
    whole_file_write(&records->file, records->rows, (size_t)records->n * sizeof *records->rows);
}
