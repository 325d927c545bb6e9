/* A window of known content between two markers and two clocks: N getppid calls by a child. */
#include "../../../../calibration/emulated/guest/marker.h"

#include <stdint.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { N_CALLS = 1000, NS_PER_S = 1000000000 };

static int64_t now_ns(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * NS_PER_S + now.tv_nsec;
}

/* The parent marks the window and is the observer: what is looked at is the child's. */
int main(void)
{
    int64_t begin_ns = now_ns();
    marker_begin();
    pid_t child = fork();
    if (child < 0) {
        return 1;
    }
    if (child == 0) {
        for (int i = 0; i < N_CALLS; i++) {
            (void)syscall(SYS_getppid);
        }
        _exit(0);
    }
    int status = 0;
    pid_t ended = waitpid(child, &status, 0);
    marker_end();
    int64_t end_ns = now_ns();
    printf("%lld\n", (long long)(end_ns - begin_ns));
    return ended == child && status == 0 ? 0 : 1;
}
