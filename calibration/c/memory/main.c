/* Measures each group of items in a child process, several times, and prints the results. */
#include "memory.h"

#include "../servers/program.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { SETTLE_MS = 300 };

static const char *const names[ITEMS] = {
    [ITEM_SOCKET] = "socket",       [ITEM_QUEUED] = "queued",       [ITEM_ACCEPTED] = "accepted",
    [ITEM_REQUEST] = "request",     [ITEM_REPLY_KIB] = "reply_kib", [ITEM_EPOLL] = "epoll",
    [ITEM_ARMED] = "armed",         [ITEM_SIGNAL] = "signal",       [ITEM_THREAD] = "thread",
    [ITEM_POLL] = "poll",           [ITEM_SELECT] = "select",       [ITEM_HALF_OPEN] = "half_open",
    [ITEM_TIME_WAIT] = "time_wait",
};

static void (*const groups[])(struct found *found, int64_t n) = {ask_connections, ask_waits,
                                                                 ask_half_open, ask_time_wait};

/* All items are closed when the child ends; the kernel frees some of their memory later. */
static void ask_group(void (*ask)(struct found *, int64_t), struct found *found, int64_t n)
{
    const struct timespec settle = {.tv_nsec = SETTLE_MS * NS_PER_MS};
    pid_t child = fork();
    if (child < 0) {
        fail("fork failed");
    }
    if (child == 0) {
        ask(found, n);
        _exit(EXIT_SUCCESS);
    }
    (void)waitpid(child, NULL, 0);
    (void)nanosleep(&settle, NULL);
}

static int by_size(const void *left, const void *right)
{
    double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

/* Print one item over its repetitions: the median, the minimum and the maximum. */
static void print_item(int item, const struct found (*found)[ITEMS], int64_t n_repetitions,
                       bool first)
{
    double bytes[REPETITIONS_MAX];
    int64_t n = 0;
    const char *reason = "a system call failed";
    for (int64_t i = 0; i < n_repetitions; i++) {
        if (found[i][item].asked) {
            bytes[n++] = found[i][item].bytes;
        } else if (found[i][item].reason[0] != '\0') {
            reason = found[i][item].reason;
        }
    }
    printf("%s\n \"%s\": ", first ? "" : ",", names[item]);
    if (n == 0) {
        printf("{\"not_asked\": \"%s\"}", reason);
        return;
    }
    qsort(bytes, (size_t)n, sizeof bytes[0], by_size);
    printf("{\"bytes\": %.1f, \"least\": %.1f, \"most\": %.1f}", bytes[n / 2], bytes[0],
           bytes[n - 1]);
}

int main(int argc, char **argv)
{
    int64_t n = 10000, n_repetitions = 5;
    const struct option_spec specs[] = {
        {"items", OPTION_INTEGER, &n, 100, 20000, "number of items of each kind (10000)"},
        {"repetitions", OPTION_INTEGER, &n_repetitions, 1, REPETITIONS_MAX,
         "number of repetitions (5)"},
    };
    parse_options("Print the kernel's memory for connections, waits and threads, in bytes each.",
                  specs, sizeof specs / sizeof specs[0], argc, argv);
    size_t size = (size_t)n_repetitions * ITEMS * sizeof(struct found);
    struct found(*found)[ITEMS] =
        mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (found == MAP_FAILED) {
        fail("mmap failed");
    }
    for (int64_t i = 0; i < n_repetitions; i++) {
        for (size_t group = 0; group < sizeof groups / sizeof groups[0]; group++) {
            ask_group(groups[group], found[i], n);
        }
    }
    printf("{");
    for (int item = 0; item < ITEMS; item++) {
        print_item(item, (const struct found(*)[ITEMS])found, n_repetitions, item == 0);
    }
    printf("}\n");
    return fflush(stdout) == 0 ? EXIT_SUCCESS : EXIT_FAILED;
}
