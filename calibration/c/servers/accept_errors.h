/* What the errors of accept4 mean for the listener. */
#ifndef CALIBRATION_ACCEPT_ERRORS_H
#define CALIBRATION_ACCEPT_ERRORS_H

#include <errno.h>
#include <stdbool.h>

/* Does this accept error leave the listener usable, with nothing to do but to try the next? */
static inline bool accept_error_is_of_one_connection(int error)
{
    return error == EINTR || error == ECONNABORTED || error == EPROTO || error == EPERM;
}

static inline bool accept_error_is_want(int error)
{
    return error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM;
}

#endif
