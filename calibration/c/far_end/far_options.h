/* How a far end reaches the server: the options that its programs share. */
#ifndef CALIBRATION_FAR_OPTIONS_H
#define CALIBRATION_FAR_OPTIONS_H

#include "segment.h"

struct far_options {
    const char *interface;
    struct segment_route route;
    uint32_t first_ip; /* of the sources */
    int64_t n_sources;
    int64_t n_idle;
};

/* As they stand on the command line; NULL: not given. */
struct far_texts {
    const char *interface; /* over which it sends and receives */
    const char *mac;       /* the clients' Ethernet address, no kernel's */
    const char *server_mac;
    const char *source; /* first address of the clients, no kernel's */
};

/* Read them for clients of the server at *server_ip*, or refuse them with one line. */
void far_options_read(struct far_options *far, const struct far_texts *texts, uint32_t server_ip);

#endif
