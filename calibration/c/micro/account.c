/* The CPU time that a whole run used on the server's CPU. */
#include "micro.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

/* Sum of idle times of the CPU in /proc/timer_list, which only root may read: exact to the last
 * wake-up. 0: not known. */
static uint64_t exact_idle_ns(long cpu)
{
    FILE *file = fopen("/proc/timer_list", "r");
    if (file == NULL) {
        return 0;
    }
    char line[256];
    long section = -1;
    uint64_t sum = 0, ns;
    while (fgets(line, sizeof line, file) != NULL) {
        if (sscanf(line, "cpu: %ld", &section) == 1) {
            continue;
        }
        if (section == cpu && (sscanf(line, " .idle_sleeptime : %" SCNu64, &ns) == 1 ||
                               sscanf(line, " .iowait_sleeptime: %" SCNu64, &ns) == 1)) {
            sum += ns;
        }
    }
    if (fclose(file) != 0) {
        fail_errno("/proc/timer_list");
    }
    return sum;
}

/* Time in which the CPU was idle or taken by the hypervisor: in steps of 10 ms, unless the idle
 * time is known exactly. */
static uint64_t cpu_idle_ns(long cpu)
{
    FILE *file = fopen("/proc/stat", "r");
    if (file == NULL) {
        fail_errno("/proc/stat");
    }
    char line[512];
    char name[32];
    (void)snprintf(name, sizeof name, "cpu%ld ", cpu);
    uint64_t idle = 0, iowait = 0, steal = 0;
    bool found = false;
    while (!found && fgets(line, sizeof line, file) != NULL) {
        if (strncmp(line, name, strlen(name)) != 0) {
            continue;
        }
        /* user nice system idle iowait irq softirq steal */
        found = sscanf(line + strlen(name), "%*u %*u %*u %" SCNu64 " %" SCNu64 " %*u %*u %" SCNu64,
                       &idle, &iowait, &steal) == 3;
    }
    if (fclose(file) != 0) {
        fail_errno("/proc/stat");
    }
    if (!found) {
        fail("/proc/stat has no line of CPU %ld", cpu);
    }
    uint64_t step_ns = 1000000000u / (uint64_t)sysconf(_SC_CLK_TCK);
    uint64_t exact_ns = exact_idle_ns(cpu);
    return (exact_ns > 0 ? exact_ns : (idle + iowait) * step_ns) + steal * step_ns;
}

struct account account_now(const struct options *options)
{
    struct rusage usage;
    if (getrusage(RUSAGE_THREAD, &usage) != 0) {
        fail_errno("getrusage");
    }
    return (struct account){
        .wall_ns = now_ns(),
        .cpu_ns = thread_cpu_ns(),
        .idle_ns = cpu_idle_ns(options->server_cpu),
        .sleeps = usage.ru_nvcsw,
    };
}

void account_print(char *text, size_t size, const struct options *options,
                   const struct account *begin, uint64_t n_operations)
{
    struct account end = account_now(options);
    double n = (double)(n_operations > 0 ? n_operations : 1);
    double wall_ns = (double)(end.wall_ns - begin->wall_ns);
    double idle_ns = (double)(end.idle_ns - begin->idle_ns);
    (void)snprintf(
        text, size, ", \"cpu_ns\": %.1f, \"busy_ns\": %.1f, \"sleeps_per_operation\": %.3f",
        (double)(end.cpu_ns - begin->cpu_ns) / n, (wall_ns > idle_ns ? wall_ns - idle_ns : 0.0) / n,
        (double)(end.sleeps - begin->sleeps) / n);
}
