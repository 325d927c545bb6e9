/* A guest's output to the host: named frames on the debug console.
 *
 *     NAME LENGTH\n  LENGTH bytes  \n
 *
 * The console is one I/O port that takes a byte at a time and nothing else: no driver, no
 * interrupt, no buffer of the kernel. All frames are written when the job is over, so their
 * instructions are in no measurement.
 */
#ifndef GUEST_CONSOLE_H
#define GUEST_CONSOLE_H

#include <stddef.h>

/* Allow this process and its children to use the two ports; ends the guest if that fails. */
void console_open(void);

void console_frame(const char *name, const void *bytes, size_t n_bytes);

/* The content of *path* as a frame; an empty one if the file cannot be read. */
void console_frame_of_file(const char *name, const char *path);

/* End the emulator at once, without a shutdown. */
_Noreturn void console_power_off(void);

#endif
