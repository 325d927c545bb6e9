#include "whole_file.h"

#include "../servers/program.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct whole_file whole_file_open(const char *path)
{
    struct whole_file file = {.path = path, .fd = -1};
    if (path == NULL) {
        return file;
    }
    if (asprintf(&file.path_tmp, "%s.tmp", path) < 0) {
        fail("out of memory");
    }
    file.fd = open(file.path_tmp, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (file.fd < 0) {
        fail("cannot create the file %s: %s", file.path_tmp, strerror(errno));
    }
    return file;
}

void whole_file_write(struct whole_file *file, const void *content, size_t n_bytes)
{
    if (file->path == NULL) {
        return;
    }
    const char *bytes = content;
    while (n_bytes > 0) {
        ssize_t n_written = write(file->fd, bytes, n_bytes);
        if (n_written < 0 && errno != EINTR) {
            fail("cannot write %s: %s", file->path_tmp, strerror(errno));
        }
        bytes += n_written > 0 ? n_written : 0;
        n_bytes -= n_written > 0 ? (size_t)n_written : 0;
    }
    if (close(file->fd) != 0 || rename(file->path_tmp, file->path) != 0) {
        fail("cannot finish the file %s: %s", file->path, strerror(errno));
    }
    free(file->path_tmp);
}
