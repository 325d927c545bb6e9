/* /proc/slabinfo, meminfo, zoneinfo, self/status and self/smaps_rollup, as numbers.
 *
 * Sources: proc_meminfo(5), slabinfo(5), proc_pid_smaps(5); Linux mm/slab_common.c slab_show().
 */
#include "memory.h"

#include "../servers/program.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { LINE_BYTES = 512, KIB = 1024 };

static void read_caches(struct reading *reading)
{
    char line[LINE_BYTES];
    int64_t page_bytes = sysconf(_SC_PAGESIZE);
    reading->n_caches = 0;
    FILE *file = fopen("/proc/slabinfo", "re");
    if (file == NULL) {
        return;
    }
    while (fgets(line, sizeof line, file) != NULL && reading->n_caches < CACHES_MAX) {
        struct cache *cache = &reading->caches[reading->n_caches];
        int64_t n_all, object_bytes, objects_each, pages_each;
        if (sscanf(line,
                   "%39s %" SCNd64 " %" SCNd64 " %" SCNd64 " %" SCNd64 " %" SCNd64 " : tunables",
                   cache->name, &cache->n_active, &n_all, &object_bytes, &objects_each,
                   &pages_each) == 6 &&
            objects_each > 0) {
            cache->object_bytes = (double)(pages_each * page_bytes) / (double)objects_each;
            reading->n_caches++;
        }
    }
    (void)fclose(file);
}

/* The sum of the fields of *path* that *names* lists, each with its colon, in bytes. */
static int64_t fields_of(const char *path, const char *const *names)
{
    char line[LINE_BYTES], name[NAME_MAX_BYTES];
    int64_t kib, bytes = 0;
    FILE *file = fopen(path, "re");
    if (file == NULL) {
        fail("%s cannot be read", path);
    }
    while (fgets(line, sizeof line, file) != NULL) {
        if (sscanf(line, "%39s %" SCNd64 " kB", name, &kib) != 2) {
            continue;
        }
        for (const char *const *each = names; *each != NULL; each++) {
            if (strcmp(name, *each) == 0) {
                bytes += kib * KIB;
            }
        }
    }
    (void)fclose(file);
    return bytes;
}

/* Free pages that each CPU keeps for itself: MemFree leaves them out, and they may be many. */
static int64_t kept_by_cpus(void)
{
    char line[LINE_BYTES];
    int64_t n, n_pages = 0;
    FILE *file = fopen("/proc/zoneinfo", "re");
    if (file == NULL) {
        return 0;
    }
    while (fgets(line, sizeof line, file) != NULL) {
        if (sscanf(line, " count: %" SCNd64, &n) == 1) {
            n_pages += n;
        }
    }
    (void)fclose(file);
    return n_pages * sysconf(_SC_PAGESIZE);
}

void take_reading(struct reading *reading)
{
    static const char *const total[] = {"MemTotal:", NULL};
    static const char *const accounted[] = {
        "MemFree:", "Buffers:",     "Cached:",     "SwapCached:", "AnonPages:",
        "Slab:",    "KernelStack:", "PageTables:", "Percpu:",     NULL};
    static const char *const slab[] = {"Slab:", NULL};
    static const char *const stack[] = {"KernelStack:", NULL};
    static const char *const resident[] = {"Rss:", NULL};
    static const char *const tables[] = {"VmPTE:", NULL};
    read_caches(reading);
    reading->slab = fields_of("/proc/meminfo", slab);
    reading->kernel_stack = fields_of("/proc/meminfo", stack);
    reading->other =
        fields_of("/proc/meminfo", total) - fields_of("/proc/meminfo", accounted) - kept_by_cpus();
    reading->own_resident = fields_of("/proc/self/smaps_rollup", resident);
    reading->own_tables = fields_of("/proc/self/status", tables);
}

static const struct cache *cache_of(const struct reading *reading, const char *name)
{
    for (int i = 0; i < reading->n_caches; i++) {
        if (strcmp(reading->caches[i].name, name) == 0) {
            return &reading->caches[i];
        }
    }
    return NULL;
}

double grown_slab(const struct reading *before, const struct reading *after, int64_t n)
{
    if (after->n_caches == 0) {
        return (double)(after->slab - before->slab);
    }
    double bytes = 0;
    for (int i = 0; i < after->n_caches; i++) {
        const struct cache *now = &after->caches[i], *then = cache_of(before, now->name);
        int64_t n_more = now->n_active - (then == NULL ? 0 : then->n_active);
        if (2 * n_more >= n) {
            bytes += (double)n_more * now->object_bytes;
        }
    }
    return bytes;
}
