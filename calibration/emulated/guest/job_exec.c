#include "console.h"
#include "job.h"

#include "../../c/servers/program.h"

#include <errno.h>
#include <string.h>
#include <sys/wait.h>

void job_exec(void)
{
    int64_t begin_ns = clock_ns(CLOCK_MONOTONIC);
    pid_t pid = job_start_program("/tmp/stdout", NULL);
    int status = 0;
    if (waitpid(pid, &status, 0) != pid) {
        fail("waitpid: %s", strerror(errno));
    }
    int64_t clock[] = {begin_ns, clock_ns(CLOCK_MONOTONIC)};
    console_frame_of_file("stdout", "/tmp/stdout");
    console_frame("clock", clock, sizeof clock);
    if (WIFSIGNALED(status)) {
        fail("the program was ended by signal %d", WTERMSIG(status));
    }
    if (WEXITSTATUS(status) != 0) {
        /* It has printed why on the standard error that this process shares with it. */
        _exit(WEXITSTATUS(status));
    }
}
