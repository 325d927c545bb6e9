/* Children of a rule. They all end with the rule, however it ends. */
#include "rules.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

bool alone;
static bool in_child;

void die_with(pid_t parent)
{
    sure(prctl(PR_SET_PDEATHSIG, SIGKILL), "prctl(PR_SET_PDEATHSIG)");
    if (getppid() != parent) {
        _exit(EXIT_FAILURE); /* it has ended meanwhile */
    }
}

pid_t child_begin(void)
{
    pid_t rule = getpid(), child = sure(fork(), "fork");
    if (child == 0) {
        in_child = true;
        die_with(rule);
        (void)alarm(RULE_SECONDS); /* an alarm is not inherited */
    }
    return child;
}

bool is_child(void)
{
    return in_child;
}

void child_await(pid_t child)
{
    int status = 0;
    sure(waitpid(child, &status, 0), "waitpid");
    if (status != 0) {
        not_asked("a child process of the rule could not do its part");
    }
}

void child_end(pid_t child)
{
    int status = 0;
    (void)kill(child, SIGKILL);
    sure(waitpid(child, &status, 0), "waitpid");
    if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGKILL) {
        not_asked("a child process of the rule could not do its part");
    }
}
