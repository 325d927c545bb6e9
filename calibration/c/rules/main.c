/* The families, and a child process for each rule. */
#include "rules.h"

#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { RULES_MAX = 256 };

static const struct family families[] = {
    {"scans", scan_rules},
    {"epoll", epoll_rules},
    {"signals", signal_rules},
    {"ends of connections", end_rules},
    {"TCP timers", timer_rules},
    {"io_uring", ring_rules},
    {"scheduling", scheduling_rules},
    {"softirq", softirq_rules},
};

struct question {
    const struct rule *rule;
    pid_t child;
    int answer; /* the read end of its pipe */
};

static bool write_text(const char *path, const char *words)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0) {
        return false;
    }
    bool written = write(fd, words, strlen(words)) == (ssize_t)strlen(words);
    return close(fd) == 0 && written;
}

/* A network namespace of its own: as root, or as root of a user namespace. */
static void leave_network(void)
{
    char map[64];
    unsigned user = (unsigned)geteuid(), group = (unsigned)getegid();
    if (unshare(CLONE_NEWNET) != 0) {
        sure(unshare(CLONE_NEWUSER | CLONE_NEWNET), "unshare(CLONE_NEWUSER | CLONE_NEWNET)");
        (void)write_text("/proc/self/setgroups", "deny");
        (void)snprintf(map, sizeof map, "0 %u 1", user);
        sure(write_text("/proc/self/uid_map", map) - 1, "/proc/self/uid_map");
        (void)snprintf(map, sizeof map, "0 %u 1", group);
        sure(write_text("/proc/self/gid_map", map) - 1, "/proc/self/gid_map");
    }
    struct ifreq loopback = {.ifr_name = "lo"};
    int fd = sure(socket(AF_INET, SOCK_DGRAM, 0), "socket");
    loopback.ifr_flags = IFF_UP | IFF_RUNNING;
    sure(ioctl(fd, SIOCSIFFLAGS, &loopback), "the loopback of a new network namespace");
    (void)close(fd);
}

static _Noreturn void answer(const struct rule *rule)
{
    (void)signal(SIGPIPE, SIG_IGN);
    (void)alarm((unsigned)(rule->seconds == 0 ? RULE_SECONDS : rule->seconds));
    if ((rule->needs & NEEDS_NETWORK) && !alone) {
        leave_network();
    }
    rule->ask();
    printf("\"answer\": %s", answer_text());
    exit(fflush(stdout) == 0 ? EXIT_SUCCESS : EXIT_FAILURE);
}

static void begin(struct question *question, const struct rule *rule)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) {
        fail("pipe2: %s", strerror(errno));
    }
    pid_t program = getpid(), child = fork();
    if (child < 0) {
        fail("fork: %s", strerror(errno));
    }
    if (child == 0) {
        if (dup2(ends[1], STDOUT_FILENO) < 0) {
            _exit(EXIT_FAILURE);
        }
        closefrom(STDERR_FILENO + 1); /* rules count their descriptors */
        die_with(program);
        answer(rule);
    }
    (void)close(ends[1]);
    *question = (struct question){.rule = rule, .child = child, .answer = ends[0]};
}

/* Wait for the child, and print its answer. */
static void end(const struct question *question)
{
    char text[8192];
    size_t n = 0;
    for (ssize_t more = 1; more > 0 && n < sizeof text - 1; n += (size_t)(more > 0 ? more : 0)) {
        more = read(question->answer, text + n, sizeof text - 1 - n);
    }
    text[n] = '\0';
    int status = 0;
    (void)close(question->answer);
    if (waitpid(question->child, &status, 0) < 0) {
        fail("waitpid: %s", strerror(errno));
    }
    printf("{\"rule\": \"%s\", ", question->rule->name);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) {
        printf("%s}\n", text);
    } else if (WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM) {
        printf("\"not_asked\": \"it did not end in time\"}\n");
    } else {
        printf("\"not_asked\": \"its process ended with status %d\"}\n", status);
    }
    (void)fflush(stdout);
}

/* Whether *name* is between the commas of *list*. */
static bool is_in(const char *list, const char *name)
{
    size_t n = strlen(name);
    for (const char *part = list; *part != '\0';) {
        size_t length = strcspn(part, ",");
        if (length == n && strncmp(part, name, n) == 0) {
            return true;
        }
        part += length + (part[length] == ',' ? 1 : 0);
    }
    return false;
}

static bool is_wanted(const struct family *family, const struct rule *rule, const char *only)
{
    return only == NULL || is_in(only, family->name) || is_in(only, rule->name);
}

int main(int argc, char **argv)
{
    const char *only = NULL;
    bool lists = false, quick = false;
    const struct option_spec specs[] = {
        {"only", OPTION_TEXT, &only, 0, 0, "ask only these families or rules, separated by commas"},
        {"quick", OPTION_FLAG, &quick, 0, 0, "leave out the rules that take 4 s or longer"},
        {"alone", OPTION_FLAG, &alone, 0, 0,
         "make no namespaces: only for a machine without other users"},
        {"list", OPTION_FLAG, &lists, 0, 0, "print the names of the rules"},
    };
    parse_options("questions to the running kernel, one JSON answer a line", specs,
                  sizeof specs / sizeof specs[0], argc, argv);
    struct question slow[RULES_MAX];
    size_t n_slow = 0, n = 0;
    /* Long rules sleep most of the time: the others are asked meanwhile, one by one. */
    for (int is_slow = 1; is_slow >= 0; is_slow--) {
        for (size_t f = 0; f < sizeof families / sizeof families[0]; f++) {
            for (const struct rule *rule = families[f].rules; rule->name != NULL; rule++) {
                bool takes_long = (rule->needs & TAKES_LONG) != 0;
                if (!is_wanted(&families[f], rule, only) || takes_long != (is_slow == 1) ||
                    (takes_long && quick)) {
                    continue;
                }
                n++;
                if (lists) {
                    printf("%s\n", rule->name);
                } else if (takes_long && !alone && n_slow < RULES_MAX) {
                    begin(&slow[n_slow++], rule);
                } else {
                    struct question question;
                    begin(&question, rule);
                    end(&question);
                }
            }
        }
    }
    if (n == 0) {
        refuse("no family or rule is called \"%s\" (see --list)", only);
    }
    for (size_t i = 0; i < n_slow; i++) {
        end(&slow[i]);
    }
    return EXIT_SUCCESS;
}
