/* Turns a bare kernel into the machine under test: file systems, limits, entropy, the wire. */
#ifndef GUEST_MACHINE_H
#define GUEST_MACHINE_H

enum { MACHINE_FDS_MAX = 1048576 }; /* the kernel's own limit, fs.nr_open */

/* Everything a job may rely on. Ends the program with one line if a step fails. */
void machine_set_up(void);

#endif
