#include "counters.h"

#include "program.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the counters file is little-endian");

void counters_print_layout(void)
{
#define COUNTER_NAME(name) puts(#name);
    COUNTERS(COUNTER_NAME)
#undef COUNTER_NAME
}

struct counters *counters_map(const char *path)
{
    int fd = -1;
    int flags = MAP_SHARED | MAP_ANONYMOUS;
    if (path != NULL) {
        flags = MAP_SHARED;
        fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
        if (fd < 0 || ftruncate(fd, sizeof(struct counters)) != 0) {
            fail("cannot create the counters file %s: %s", path, strerror(errno));
        }
    }
    void *counters = mmap(NULL, sizeof(struct counters), PROT_READ | PROT_WRITE, flags, fd, 0);
    if (counters == MAP_FAILED) {
        fail("cannot map the counters: %s", strerror(errno));
    }
    if (fd >= 0 && close(fd) != 0) {
        fail("cannot close the counters file %s: %s", path, strerror(errno));
    }
    return counters;
}
