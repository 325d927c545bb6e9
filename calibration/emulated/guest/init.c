/* The first and only program a guest starts by itself: sets the machine up, does one job, ends it.
 *
 *     kernel ──► init ──► mounts, limits, entropy, modules, network
 *                  └────► child: the job of /job ──► frames ──► `end`, power off
 *
 * The job runs in a child, so that its end (one line of complaint, a signal) always becomes a
 * frame: otherwise the host could only wait for a guest that died silently.
 */
#include "console.h"
#include "job.h"
#include "machine.h"

#include "../../c/servers/program.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static const char error_path[] = "/error"; /* in the root file system, there before any mount */

static void do_job(void)
{
    char name[16] = "";
    int fd = open("/job", O_RDONLY | O_CLOEXEC);
    if (fd < 0 || read(fd, name, sizeof name - 1) < 0) {
        fail("cannot read /job: %s", strerror(errno));
    }
    name[strcspn(name, "\n")] = '\0';
    if (strcmp(name, "exec") == 0) {
        job_exec();
    } else if (strcmp(name, "macro") == 0) {
        job_macro();
    } else {
        fail("/job must be exec or macro, got \"%s\"", name);
    }
}

/* Run *step* in a child whose standard error is kept; return its exit status. */
static int run_in_child(void (*step)(void))
{
    pid_t pid = fork();
    if (pid == 0) {
        step();
        exit(EXIT_SUCCESS);
    }
    int status = 0;
    if (pid < 0 || waitpid(pid, &status, 0) != pid) {
        return EXIT_FAILED;
    }
    if (WIFSIGNALED(status)) {
        dprintf(STDERR_FILENO, "init: the job was ended by signal %d\n", WTERMSIG(status));
        return EXIT_FAILED;
    }
    return WEXITSTATUS(status);
}

int main(void)
{
    int errors = open(error_path, O_RDWR | O_CREAT | O_TRUNC | O_APPEND, 0644);
    if (errors >= 0) {
        (void)dup2(errors, STDERR_FILENO);
    }
    console_open();
    int status = run_in_child(machine_set_up);
    if (status == 0) {
        limit_descriptors(MACHINE_FDS_MAX);
        status = run_in_child(do_job);
    }
    if (status != 0) {
        console_frame_of_file("error", error_path);
    }
    char text[16];
    int length = snprintf(text, sizeof text, "%d", status);
    console_frame("end", text, (size_t)length);
    console_power_off();
}
