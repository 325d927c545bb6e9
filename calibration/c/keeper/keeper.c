/* Starts a server that is not ours, and ends all its processes at the end.
 *
 *   keeper ──► command ──► workers, daemons ...      a process without a parent becomes our child
 *     └─ SIGTERM, SIGINT, or its own parent is no more ──► TERM to all ──► 3 s ──► KILL to all
 *
 * So the server ends even when the thread that started it was killed. The keeper itself sleeps, and
 * stays off the server's CPU if it may.
 *
 * Source: prctl(2), PR_SET_CHILD_SUBREAPER and PR_SET_PDEATHSIG.
 */
#include "../servers/program.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PROCESSES_MAX = 65536, DEPTH_MAX = 64, EXIT_NOT_STARTED = 127 };

static const int64_t grace_ns = 3 * NS_PER_S;
static const struct timespec look = {.tv_nsec = 10 * NS_PER_MS};
static const struct timespec nap = {.tv_nsec = 200 * NS_PER_MS}; /* while a server is measured */

struct table {
    int n;
    pid_t pids[PROCESSES_MAX];
    pid_t parents[PROCESSES_MAX];
};

/* The parent of *pid*, or 0 if it has ended. A name in parentheses may hold any character. */
static pid_t parent_of(pid_t pid)
{
    char path[64];
    char text[512];
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return 0;
    }
    ssize_t n = read(fd, text, sizeof text - 1);
    close(fd);
    if (n <= 0) {
        return 0;
    }
    text[n] = '\0';
    const char *end = strrchr(text, ')');
    char state;
    int parent;
    if (end == NULL || sscanf(end + 1, " %c %d", &state, &parent) != 2) {
        return 0;
    }
    return parent;
}

static void read_table(struct table *table)
{
    DIR *folder = opendir("/proc");
    if (folder == NULL) {
        fail("cannot read /proc: %s", strerror(errno));
    }
    table->n = 0;
    for (struct dirent *entry; (entry = readdir(folder)) != NULL && table->n < PROCESSES_MAX;) {
        if (isdigit((unsigned char)entry->d_name[0])) {
            pid_t pid = (pid_t)strtol(entry->d_name, NULL, 10);
            table->pids[table->n] = pid;
            table->parents[table->n++] = parent_of(pid);
        }
    }
    closedir(folder);
}

/* Send *number* to all processes below *pid*. */
static void signal_below(const struct table *table, pid_t pid, int number, int depth)
{
    /* The table is not of one instant: numbers may have been reused, so it may hold a circle. */
    if (depth > DEPTH_MAX) {
        return;
    }
    for (int i = 0; i < table->n; i++) {
        if (table->parents[i] == pid) {
            signal_below(table, table->pids[i], number, depth + 1);
            kill(table->pids[i], number);
        }
    }
}

/* Reap ended processes; *status* is that of *child*, if it was asked for. Return whether any
 * process is left.
 */
static bool reap(pid_t child, int *status, bool *child_ended)
{
    for (;;) {
        int found_status;
        pid_t found = waitpid(-1, &found_status, WNOHANG);
        if (found == 0) {
            return true;
        }
        if (found < 0) {
            return errno == EINTR;
        }
        if (found == child) {
            *status = found_status;
            *child_ended = true;
        }
    }
}

static void end_all(void)
{
    struct table *table = malloc(sizeof *table);
    if (table == NULL) {
        fail("out of memory");
    }
    int64_t begin_ns = clock_ns(CLOCK_MONOTONIC);
    for (int n_looks = 0; reap(0, NULL, NULL); n_looks++) {
        bool insists = clock_ns(CLOCK_MONOTONIC) - begin_ns > grace_ns;
        if (n_looks == 0 || insists) {
            read_table(table);
            signal_below(table, getpid(), insists ? SIGKILL : SIGTERM, 0);
        }
        nanosleep(&look, NULL);
    }
    free(table);
}

/* Run the server before other processes on its CPU, and its session, too, as the scheduler gives
 * each session an equal share. Without the permission it runs at its usual priority.
 */
static void put_first(void)
{
    enum { HIGHEST = -20 };
    FILE *session = fopen("/proc/self/autogroup", "we");
    if (session != NULL) {
        fprintf(session, "%d", HIGHEST);
        fclose(session);
    }
    setpriority(PRIO_PROCESS, 0, HIGHEST);
}

static void pin(int64_t cpu)
{
    cpu_set_t cpus;
    CPU_ZERO(&cpus);
    CPU_SET((size_t)cpu, &cpus);
    if (sched_setaffinity(0, sizeof cpus, &cpus) != 0) {
        fail("cannot stay on CPU %lld: %s", (long long)cpu, strerror(errno));
    }
}

static _Noreturn void become(char **command, int64_t cpu, bool is_first)
{
    if (setsid() < 0 || signal(SIGPIPE, SIG_DFL) == SIG_ERR) {
        fail("cannot begin a session: %s", strerror(errno));
    }
    if (cpu >= 0) {
        pin(cpu);
    }
    if (is_first) {
        put_first();
    }
    execvp(command[0], command);
    fprintf(stderr, "%s: %s\n", command[0], strerror(errno));
    _exit(EXIT_NOT_STARTED);
}

static pid_t start(char **command, int64_t cpu, bool is_first)
{
    pid_t child = fork();
    if (child < 0) {
        fail("fork: %s", strerror(errno));
    }
    if (child == 0) {
        become(command, cpu, is_first);
    }
    return child;
}

/* The command follows `--`; words before it are options of the keeper. */
static char **split(int *argc, char **argv)
{
    for (int i = 1; i < *argc; i++) {
        if (strcmp(argv[i], "--") == 0 && i + 1 < *argc) {
            *argc = i;
            return argv + i + 1;
        }
    }
    return NULL;
}

int main(int argc, char **argv)
{
    pid_t parent = getppid();
    int64_t cpu = -1;
    bool is_first = false;
    int64_t run_ns = SECONDS_LIMIT * NS_PER_S;
    char **command = split(&argc, argv);
    const struct option_spec specs[] = {
        {"cpu", OPTION_INTEGER, &cpu, 0, CPU_SETSIZE - 1, "run all of the server on this CPU"},
        {"first", OPTION_FLAG, &is_first, 0, 0, "run it before all other processes, if permitted"},
        {"seconds-max", OPTION_SECONDS, &run_ns, 0, 0, "end it after this long (3600)"},
    };
    parse_options("runs a server and ends all its processes: keeper [options] -- COMMAND ...",
                  specs, sizeof specs / sizeof *specs, argc, argv);
    if (command == NULL) {
        refuse("a command must follow --");
    }
    if (prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0 ||
        prctl(PR_SET_PDEATHSIG, SIGTERM, 0, 0, 0) != 0) {
        fail("prctl: %s", strerror(errno));
    }
    if (getppid() != parent) {
        return EXIT_SUCCESS; /* the parent ended before prctl */
    }
    stop_on_signals();
    stop_after(run_ns);
    pid_t child = start(command, cpu, is_first);
    int status = 0;
    bool child_ended = false;
    while (!stop_requested() && reap(child, &status, &child_ended)) {
        nanosleep(&nap, NULL);
    }
    bool was_told = stop_requested();
    end_all();
    if (was_told) {
        return EXIT_SUCCESS;
    }
    if (child_ended && WIFSIGNALED(status)) {
        fail("the server was ended by signal %d", WTERMSIG(status));
    }
    fail("the server ended with exit status %d", WEXITSTATUS(status));
}
