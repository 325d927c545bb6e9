/* The client machine's path to the server: options that several programs share. */
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

/* The texts of the command line; NULL: not given. */
struct far_texts {
    const char *interface; /* the interface to the server */
    const char *mac;       /* the clients' Ethernet address, unused by a kernel */
    const char *server_mac;
    const char *source; /* first address of the clients, unused by a kernel */
};

/* Read them for clients of the server at *server_ip*, or refuse them with one line. */
void far_options_read(struct far_options *far, const struct far_texts *texts, uint32_t server_ip);

#endif
