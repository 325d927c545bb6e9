#include "console.h"

#include "../../c/servers/program.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/io.h>
#include <sys/mman.h>
#include <sys/reboot.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    PORT_CONSOLE = 0xe9, /* QEMU's isa-debugcon */
    PORT_EXIT = 0xf4,    /* QEMU's isa-debug-exit: a value v ends it with status 2 v + 1 */
    EXIT_VALUE = 0x10,
    NAME_BYTES_MAX = 64,
};

void console_open(void)
{
    if (ioperm(PORT_CONSOLE, 1, 1) != 0 || ioperm(PORT_EXIT, 4, 1) != 0) {
        fail("ioperm: %s", strerror(errno));
    }
}

static void write_bytes(const void *bytes, size_t n_bytes)
{
    __asm__ volatile("rep outsb"
                     : "+S"(bytes), "+c"(n_bytes)
                     : "d"((uint16_t)PORT_CONSOLE)
                     : "memory");
}

void console_frame(const char *name, const void *bytes, size_t n_bytes)
{
    char header[NAME_BYTES_MAX];
    int length = snprintf(header, sizeof header, "%s %zu\n", name, n_bytes);
    write_bytes(header, (size_t)length);
    write_bytes(bytes, n_bytes);
    write_bytes("\n", 1);
}

void console_frame_of_file(const char *name, const char *path)
{
    struct stat status;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    void *bytes = MAP_FAILED;
    if (fd >= 0 && fstat(fd, &status) == 0 && status.st_size > 0) {
        bytes = mmap(NULL, (size_t)status.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    }
    console_frame(name, bytes == MAP_FAILED ? "" : bytes,
                  bytes == MAP_FAILED ? 0 : (size_t)status.st_size);
}

void console_power_off(void)
{
    outl(EXIT_VALUE, PORT_EXIT);
    /* Not reached under QEMU with that device; elsewhere the machine at least stops. */
    (void)reboot(RB_POWER_OFF);
    for (;;) {
        (void)pause();
    }
}
